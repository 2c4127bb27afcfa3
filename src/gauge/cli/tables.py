"""The commands for your own table: inspect, fit, predict, explain. Heavy imports are deferred until they are needed."""

import hashlib
import json
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gauge.cli.options import Device, TimeLimit, named, seconds
from gauge.registry import pick

if TYPE_CHECKING:
    import pandas as pd

    from gauge.tabular.estimator import GaugeClassifier

ROWS_AT_ONCE = 5000
KIND = "ward=category"
TRAINING = ".training"  # in the folder of a model, while it is fitted

Table = Annotated[Path, typer.Argument(help="A table: .csv, .tsv, .jsonl or .parquet.")]
Model = Annotated[Path, typer.Argument(help="Folder that `gauge fit` wrote.")]
Kinds = Annotated[
    list[str] | None,
    typer.Option("--column", help="Kind of a column, NAME=number|category|text|image|ignore; may be repeated."),
]
Encoders = Annotated[
    list[str] | None,
    typer.Option("--encoder", help="A Hugging Face model for a text or image column, NAME=MODEL; may be repeated."),
]


def inspect(
    table: Table,
    target: Annotated[str | None, typer.Option(help="The column with the labels.")] = None,
    column: Kinds = None,
    out: Annotated[Path | None, typer.Option(help="Where to draw what is missing together, .png or .svg.")] = None,
) -> None:
    """The kind of every column, what is missing, what is missing together, and problems."""
    from gauge.reports.figures import draw_missingness
    from gauge.tabular.files import read_table_file
    from gauge.tabular.inspection import inspect_table

    kinds = named("--column", column, KIND)
    inspection = inspect_table(read_table_file(table), target=target, kinds=kinds, folder=table.parent)
    print(inspection.text())
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        draw_missingness(inspection.together, out)
        print(f"\nwhat is missing together: {out}")


def fit(
    table: Table,
    target: Annotated[str, typer.Option(help="The column with the labels.")],
    out: Annotated[Path, typer.Option(help="Folder for the model.")],
    column: Kinds = None,
    encoder: Encoders = None,
    experts: Annotated[str, typer.Option(help="auto, or some of network,trees,linear.")] = "auto",
    strategy: Annotated[str, typer.Option(help="mask, impute or auto (the better one).")] = "mask",
    imputer: Annotated[str, typer.Option(help="masked_columns, nearest, mean or zero.")] = "masked_columns",
    size: Annotated[str, typer.Option(help="small, medium or large.")] = "small",
    metric: Annotated[str, typer.Option(help="Metric for validation: auto, accuracy or auc.")] = "auto",
    balanced: Annotated[bool, typer.Option("--balanced", help="Weight all classes equally.")] = False,
    missing_rate: Annotated[float | None, typer.Option(min=0, max=1, help="Largest share that training hides.")] = None,
    donors: Annotated[int, typer.Option(min=1, help="Training rows kept to impute images and texts from.")] = 1000,
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs of the backbone.")] = None,
    time_limit: TimeLimit = None,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    device: Device = None,
) -> None:
    """Train a classifier on a table with missing values: numbers, categories, texts and paths of images.

    It can be interrupted at any time: the same command continues.
    """
    _check_new(out)
    from gauge.tabular.estimator import GaugeClassifier
    from gauge.tabular.files import read_table_file

    options: dict[str, Any] = {
        "columns": named("--column", column, KIND),
        "encoders": named("--encoder", encoder, "notes=distilbert-base-uncased"),
        "experts": experts if experts == "auto" else experts.split(","),
        "strategy": strategy,
        "imputer": imputer,
        "size": size,
        "metric": metric,
        "class_weight": "balanced" if balanced else None,
        "missing_rate": missing_rate,
        "donors": donors,
        "epochs": epochs,
        "time_limit": None if time_limit is None else seconds(time_limit),
        "random_state": seed,
    }
    content = hashlib.blake2b(table.read_bytes() if table.is_file() else b"")
    content.update(json.dumps([target, options]).encode())
    model = GaugeClassifier(**options, device=device, image_folder=table.parent)
    model.fit(read_table_file(table), target, folder=out / TRAINING / content.hexdigest()[:12])
    model.save(out)
    shutil.rmtree(out / TRAINING, ignore_errors=True)  # the network's stages; there are none without it
    print(model.leaderboard_.to_string(index=False, float_format="%.3f"))
    print(f"the model is in {out}; next: gauge predict {out} NEW.csv")


def predict(
    model: Model,
    table: Table,
    out: Annotated[Path | None, typer.Option(help="File for the predictions, .csv. Default: the terminal.")] = None,
    keep: Annotated[list[str] | None, typer.Option(help="A column to copy, such as an id; may be repeated.")] = None,
    device: Device = None,
) -> None:
    """The class of every row and the probability of each class. Large files are read in parts."""
    if out is not None and out.suffix != ".csv":
        raise ValueError(f"{out} should end in .csv, the format of predictions")
    if out is not None and out.resolve() == table.resolve():
        raise ValueError(f"{out} is the table itself, which would be overwritten; choose another file")
    from gauge.tabular.files import read_rows
    from gauge.training.checkpoint import write_bytes

    classifier = _load(model, table, device)
    count = labelled = right = 0

    def write(file: Any) -> None:
        nonlocal count, labelled, right
        for part in read_rows(table, ROWS_AT_ONCE):
            answers = _answers(classifier, part, keep or [])
            file.write(answers.to_csv(index_label="row", header=not count).encode())
            count += len(part)
            if classifier.target_ in part:
                labels = part[classifier.target_]
                labelled += int(labels.notna().sum())
                right += int((labels.astype(str) == answers["prediction"].astype(str)).sum())

    if out is None:
        write(sys.stdout.buffer)
    else:
        write_bytes(out, write)
        print(f"{count} predictions in {out}")
    if labelled:
        share = f"accuracy {100 * right / labelled:.1f} % ({right} of {labelled} labelled rows)"
        print(f"{share}; more: gauge evaluate {model} {table}", file=sys.stderr)


def explain(
    model: Model,
    table: Table,
    out: Annotated[Path, typer.Option(help="File for the explanation: .html for a page, .csv for a table.")],
    rows: Annotated[str, typer.Option(help="FIRST:LAST, without the last.")] = "0:20",
    exact: Annotated[bool, typer.Option("--exact", help="Also measure the effect of leaving out each unit.")] = False,
    device: Device = None,
) -> None:
    """Which evidence was trusted in every row: a page or a table of gates, scores and attention."""
    if out.suffix not in (".html", ".htm", ".csv"):
        raise ValueError(f"{out} should end in .html or .csv")
    first_last = re.fullmatch(r"(\d+):(\d+)", rows)
    if not first_last:
        raise ValueError(f"--rows {rows!r} is not FIRST:LAST; write for example 0:20")
    from gauge.tabular.files import read_table_file

    classifier = _load(model, table, device)
    chosen = read_table_file(table).iloc[int(first_last[1]) : int(first_last[2])]
    if not len(chosen):
        raise ValueError(f"{table} has no rows {rows}; choose others")
    explanation = classifier.explain(chosen, classifier.target_ if classifier.target_ in chosen else None, exact=exact)
    if out.suffix == ".csv":
        explanation.to_frame().to_csv(out, index=False)
    else:
        explanation.to_html(out)
    print(f"the evidence of {len(explanation)} rows is in {out}")


def _check_new(out: Path) -> None:
    """Nothing is overwritten: the folder is new, empty, or that of an interrupted fit."""
    if (out / "model.json").exists():
        raise ValueError(f"{out} already holds a model; choose another folder, or delete it")
    if out.exists() and (not out.is_dir() or {path.name for path in out.iterdir()} - {TRAINING}):
        raise ValueError(f"{out} is {'not empty' if out.is_dir() else 'a file'}; choose a new folder for the model")


def _load(model: Path, table: Path, device: str | None) -> "GaugeClassifier":
    from gauge.tabular.estimator import GaugeClassifier

    return GaugeClassifier.load(model, device=device, image_folder=table.parent)


def _answers(classifier: "GaugeClassifier", part: "pd.DataFrame", keep: list[str]) -> "pd.DataFrame":
    for name in keep:
        pick(dict.fromkeys(part.columns), name, "column to keep")
    probabilities = classifier.predict_proba(part)
    answers = part[keep].assign(prediction=classifier.decide(probabilities))
    return answers.assign(
        **{f"p({label})": column.round(6) for label, column in zip(classifier.classes_, probabilities.T, strict=True)}
    )


def add_to(app: typer.Typer) -> None:
    for command in (inspect, fit, predict, explain):
        app.command()(command)
