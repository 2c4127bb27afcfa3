"""The commands for your own table: inspect, fit, predict, explain. Heavy imports are deferred until they are needed."""

import hashlib
import json
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gauge.choices import pick
from gauge.cli.options import (
    TABLES,
    Device,
    Model,
    OutsideImages,
    Plugins,
    TimeLimit,
    Trusted,
    check_paths,
    heavy_imports,
    named,
    seconds,
)

if TYPE_CHECKING:
    from gauge.tabular.estimator import GaugeClassifier

KIND = "ward=category"
TUNE = "Of encoders, train the projection after them (head), LoRA (lora) or all; or NAME=KIND, which may be repeated."
OTHERWISE = {"columns": "column", "encoders": "encoder", "class_weight": "balanced", "random_state": "seed"}
TRAINING = ".training"  # in the folder of a model, while it is fitted

Table = Annotated[
    Path,
    typer.Argument(
        help="A table: .csv, .tsv, .jsonl (also as .csv.gz), .parquet or .xlsx, a folder or 'a pattern' of them."
    ),
]
Kinds = Annotated[
    list[str] | None,
    typer.Option("--column", help="Kind of a column, NAME=number|category|text|image|signal|ignore; may be repeated."),
]
Encoders = Annotated[
    list[str] | None,
    typer.Option("--encoder", help="A Hugging Face model for a text or image column, NAME=MODEL; may be repeated."),
]
MaxCategories = Annotated[
    int, typer.Option(min=2, max=4096, help="Categories that a column keeps; the others are rare.")
]


def inspect(
    table: Table,
    target: Annotated[str | None, typer.Option(help="The column with the labels.")] = None,
    column: Kinds = None,
    max_categories: MaxCategories = 255,
    out: Annotated[Path | None, typer.Option(help="Where to draw what is missing together, .png or .svg.")] = None,
    against: Annotated[
        Path | None,
        typer.Option(help="A model of `gauge fit`: what moved since its training, and which rows are unlike it."),
    ] = None,
    outside_images: OutsideImages = False,
    trusted: Trusted = None,
    plugin: Plugins = None,
) -> None:
    """The kind of every column, what is missing, what is missing together, and problems.

    With `--against MODEL`, instead: columns whose values or missing rates moved since training, and rows unlike it.
    """
    check_paths(against, table)
    if against is not None:
        _print_drift(against, table, outside_images=outside_images, trusted=trusted)
        return
    with heavy_imports():
        from gauge.data.files import write_bytes
        from gauge.reports.figures import draw_missingness
        from gauge.tabular.table.columns import ImageFiles
        from gauge.tabular.table.files import read_table_file
        from gauge.tabular.table.inspection import inspect_table
        from gauge.tabular.table.paths import table_folder

    kinds, files = named("--column", column, KIND), ImageFiles(table_folder(table), outside_images)
    if out is not None and out.suffix not in (".png", ".svg"):
        raise ValueError(f"{out} should end in .png or .svg")
    inspection = inspect_table(
        read_table_file(table), target=target, kinds=kinds, files=files, max_categories=max_categories
    )
    print(inspection.text())
    if out is not None:
        write_bytes(out, lambda file: draw_missingness(inspection.together, file, out.suffix[1:]))
        print(f"\nwhat is missing together: {out}")


def _print_drift(model: Path, table: Path, *, outside_images: bool, trusted: Path | None) -> None:
    with heavy_imports():
        from gauge.tabular.classifier import image_files
        from gauge.tabular.fitted import Fitted
        from gauge.tabular.table.files import read_table_file
        from gauge.tabular.table.paths import table_folder

    files = image_files(table_folder(table), outside=outside_images)
    print(Fitted.load(model, files=files, trusted=trusted).drift(read_table_file(table)))


def fit(
    context: typer.Context,
    table: Table,
    target: Annotated[str, typer.Option(help="The column with the labels.")],
    out: Annotated[Path, typer.Option(help="Folder for the model.")],
    column: Kinds = None,
    encoder: Encoders = None,
    tune: Annotated[list[str] | None, typer.Option(help=TUNE)] = None,
    preset: Annotated[
        str, typer.Option(help="fast (trees and linear), default, or best (bags of all experts).")
    ] = "default",
    experts: Annotated[str, typer.Option(help="auto, or some of network,trees,linear and a plugin's.")] = "auto",
    strategy: Annotated[str, typer.Option(help="mask, impute or auto (the better one).")] = "mask",
    imputer: Annotated[str, typer.Option(help="masked_columns, nearest, mean or zero.")] = "masked_columns",
    size: Annotated[str, typer.Option(help="small, medium or large.")] = "small",
    metric: Annotated[str, typer.Option(help="Metric for validation: auto, accuracy or auc.")] = "auto",
    balanced: Annotated[bool, typer.Option("--balanced", help="Weight all classes equally.")] = False,
    missing_rate: Annotated[float | None, typer.Option(min=0, max=1, help="Largest share that training hides.")] = None,
    donors: Annotated[int, typer.Option(min=1, help="Training rows kept to impute images and texts from.")] = 1000,
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs of the backbone.")] = None,
    classes: Annotated[
        int | None, typer.Option(min=2, help="Divide a quantity into this many classes of equally many rows.")
    ] = None,
    image_size: Annotated[int, typer.Option(min=16, help="Height and width that images are resized to.")] = 64,
    max_categories: MaxCategories = 255,
    groups: Annotated[
        str | None, typer.Option(help="A column, such as patient, whose rows stay together where some are held out.")
    ] = None,
    time: Annotated[
        str | None, typer.Option(help="A column of dates or numbers: the latest rows are held out.")
    ] = None,
    outside_images: OutsideImages = False,
    stream: Annotated[
        bool, typer.Option("--stream", help="For a file larger than memory; many files are always streamed.")
    ] = False,
    unlabelled: Annotated[str, typer.Option(help="Rows without a label: use (where that pays) or ignore.")] = "use",
    time_limit: TimeLimit = None,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    config: Annotated[Path | None, typer.Option(help="YAML file with options; the command line wins.")] = None,
    tensorboard: Annotated[Path | None, typer.Option(help="Folder to log losses for TensorBoard.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a model that is already in the folder.")] = False,
    plugin: Plugins = None,
    device: Device = None,
) -> None:
    """Train a classifier on a table with missing values: numbers, categories, texts and paths of images.

    It can be interrupted at any time: the same command continues.
    """
    check_paths(None, table)
    _check_new(out, force=force)
    with heavy_imports():
        from gauge.tabular.estimator import GaugeClassifier
        from gauge.tabular.table.paths import table_files, table_folder
        from gauge.training.distributed import is_main

    options: dict[str, Any] = {
        "columns": named("--column", column, KIND),
        "encoders": named("--encoder", encoder, "notes=distilbert-base-uncased"),
        "tune": named("--tune", tune, "photo=lora") if "=" in "".join(tune or ()) else (tune or ["head"])[-1],
        "preset": preset,
        "experts": experts if experts == "auto" else experts.split(","),
        "strategy": strategy,
        "imputer": imputer,
        "size": size,
        "metric": metric,
        "class_weight": "balanced" if balanced else None,
        "missing_rate": missing_rate,
        "donors": donors,
        "epochs": epochs,
        "image_size": image_size,
        "max_categories": max_categories,
        "outside_images": outside_images,
        "unlabelled": unlabelled,
        "time_limit": None if time_limit is None else seconds(time_limit),
        "random_state": seed,
    }
    explicit = {name for name in options if _on_command_line(context, OTHERWISE.get(name, name))}
    options |= {name: value for name, value in _configured(config).items() if name not in explicit}
    files = table_files(table)
    key = _fingerprint(files, [target, classes, groups, time, options])
    rows = _rows_to_fit(table, target, classes, stream=stream or len(files) > 1)
    options["verbose"] = options.get("verbose", True) and is_main()
    model = GaugeClassifier(**options, device=device, image_folder=table_folder(table))
    given: dict[str, Any] = {"groups": groups, "time": time, "folder": out / TRAINING / key}
    _fit_and_save(model, rows, target, out, tensorboard=tensorboard, **given)


def _fingerprint(files: Iterable[Path], settings: list[Any]) -> str:
    """Of all that a fit depends on: the same command continues a fit, another one starts anew."""
    content = hashlib.blake2b(json.dumps(settings).encode())
    for path in files:
        with path.open("rb") as file:
            content.update(hashlib.file_digest(file, "blake2b").digest())
    return content.hexdigest()[:12]


def _rows_to_fit(table: Path, target: str, classes: int | None, *, stream: bool) -> Any:
    """The table in memory, or its path where it is streamed."""
    from gauge.tabular.table.files import read_table_file
    from gauge.tabular.table.inputs import bin_labels

    if stream and classes is not None:
        raise ValueError("--classes needs all labels in memory; divide the quantity into classes before streaming")
    if stream:
        return table
    rows = read_table_file(table)
    if classes is not None and target in rows:
        rows[target] = bin_labels(rows[target], classes)
    return rows


def _fit_and_save(
    model: "GaugeClassifier", rows: Any, target: str, out: Path, *, tensorboard: Path | None, **given: Any
) -> None:
    """Fit on all processes; the first of them writes the folder."""
    from gauge.training.distributed import barrier, is_main
    from gauge.training.tensorboard import tensorboard_log

    with _only_fit(out) if is_main() else nullcontext():
        with nullcontext() if tensorboard is None else tensorboard_log(tensorboard) as log:
            model.fit(rows, target, on_epoch=log, **given)
        barrier()
        if not is_main():
            return
        (out / "model.json").unlink(missing_ok=True)  # a folder that has it is complete
        model.save(out)
    shutil.rmtree(out / TRAINING)
    print(f"the model is in {out}; next: gauge predict {out} NEW.csv")


def predict(
    model: Annotated[Path, typer.Argument(help="Folder that `gauge fit` wrote, or file that `gauge export` wrote.")],
    table: Table,
    out: Annotated[
        Path | None, typer.Option(help="File for the predictions, .csv or .parquet; with --ray a folder of parts.")
    ] = None,
    keep: Annotated[list[str] | None, typer.Option(help="A column to copy, such as an id; may be repeated.")] = None,
    coverage: Annotated[
        float | None,
        typer.Option(
            help="Also write the classes that each row may have, the right one among them this often, e.g. 0.9."
        ),
    ] = None,
    by_class: Annotated[
        bool,
        typer.Option("--by-class", help="With --coverage: promise it for the rows of every class; sets are larger."),
    ] = False,
    outside_images: OutsideImages = False,
    ray: Annotated[bool, typer.Option("--ray", help="Predict Parquet files on a Ray cluster (RAY_ADDRESS).")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Workers on the cluster, each with a model.")] = 2,
    trusted: Trusted = None,
    plugin: Plugins = None,
    device: Device = None,
) -> None:
    """The class of every row and the probability of each class. Tables are read in parts, and may be larger than memory."""
    check_paths(model, table)
    if coverage is not None:
        from gauge.tabular.prediction_sets import check_coverage

        check_coverage(coverage)
    elif by_class:
        raise ValueError("--by-class is for prediction sets; add a coverage, for example --coverage 0.9")
    sets: dict[str, Any] = {"coverage": coverage, "by_class": by_class}
    if ray:
        if trusted is not None:
            from gauge.data.signature import check_signature

            check_signature(model, trusted)
        options = {"keep": keep or (), "outside_images": outside_images, "device": device}
        _predict_on_ray(model, table, out, workers, **sets, **options)
        return
    with heavy_imports():
        from gauge.data.files import write_bytes
        from gauge.deploy.exported import load_classifier
        from gauge.deploy.scoring import FORMATS, Count, answers_file, predict_table
        from gauge.tabular.table.paths import table_files, table_folder

    if out is not None and out.suffix not in FORMATS:
        raise ValueError(f"{out} should end in {' or '.join(FORMATS)}, the formats of predictions")
    if out is not None and out.resolve() in [path.resolve() for path in table_files(table)]:
        raise ValueError(f"{out} is the table itself, which would be overwritten; choose another file")
    with heavy_imports():  # of what the experts need
        classifier = load_classifier(
            model, device=device, image_folder=table_folder(table), outside_images=outside_images, trusted=trusted
        )
    count = Count()

    def write(file: Any) -> None:
        nonlocal count
        with answers_file(file, ".csv" if out is None else out.suffix) as append:
            count = predict_table(classifier, table, append, keep or [], **sets)

    if out is None:
        write(sys.stdout.buffer)
    else:
        write_bytes(out, write)
        print(f"{count.rows} predictions in {out}")
    more = f"; more: gauge evaluate {model} {table}" if model.is_dir() else ""
    for line in count.sentences(more, **sets):
        print(line, file=sys.stderr)


def _predict_on_ray(model: Path, table: Path, out: Path | None, workers: int, **options: Any) -> None:
    from gauge.deploy.cluster import Predictor, predict_on_ray
    from gauge.tabular.table.paths import table_folder

    if out is None or out.suffix:
        raise ValueError(f"--ray writes parts into a folder, not to {out or 'the terminal'}; give --out FOLDER")
    predictor = Predictor(model.resolve(), image_folder=table_folder(table).resolve(), **options)
    predict_on_ray(predictor, table, out, workers=workers)
    print(f"the predictions are in {out}")


def explain(
    model: Model,
    table: Table,
    out: Annotated[Path, typer.Option(help="File for the explanation: .html for a page, .csv for a table.")],
    rows: Annotated[str, typer.Option(help="FIRST:LAST, without the last.")] = "0:20",
    exact: Annotated[
        bool, typer.Option("--exact", help="Also measure the effects of words and parts of images.")
    ] = False,
    keep: Annotated[list[str] | None, typer.Option(help="A column to recognise rows by; may be repeated.")] = None,
    donors: Annotated[
        bool,
        typer.Option("--donors/--no-donors", help="Show texts and images that were imputed with those of other rows."),
    ] = False,
    outside_images: OutsideImages = False,
    trusted: Trusted = None,
    plugin: Plugins = None,
    device: Device = None,
) -> None:
    """How much each value of every row was used, how far it is trusted, and what would help: a page or a table."""
    if out.suffix not in (".html", ".htm", ".csv"):
        raise ValueError(f"{out} should end in .html or .csv")
    first_last = re.fullmatch(r"(\d+):(\d+)", rows)
    if not first_last:
        raise ValueError(f"--rows {rows!r} is not FIRST:LAST; write for example 0:20")
    check_paths(model, table)
    with heavy_imports():
        from gauge.data.files import write_text
        from gauge.tabular.classifier import image_files
        from gauge.tabular.fitted import Fitted
        from gauge.tabular.table.files import read_table_file
        from gauge.tabular.table.paths import table_folder

    files = image_files(table_folder(table), outside=outside_images)
    with heavy_imports():  # of what the experts need
        classifier = Fitted.load(model, device=device, files=files, trusted=trusted)
    every = read_table_file(table)
    chosen = every.iloc[int(first_last[1]) : int(first_last[2])]
    if not len(chosen):
        raise ValueError(f"{table} has no rows {rows}; choose others")
    labels = classifier.target if classifier.target in chosen else None
    explanation = classifier.explain(chosen, labels, exact=exact, keep=keep or ())
    if out.suffix == ".csv":
        shown = explanation if donors else explanation.without_donors()
        write_text(out, shown.to_frame().to_csv(index=False))
    else:
        explanation.to_html(out, donors=donors)
    others = f" of {len(every)}; --rows FIRST:LAST chooses others" if len(explanation) < len(every) else ""
    print(f"the evidence of {len(explanation)} rows is in {out}" + (f" (rows {rows}{others})" if others else ""))


def _on_command_line(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _configured(config: Path | None) -> dict[str, Any]:
    """The options in a file."""
    from gauge.tabular.estimator import GaugeClassifier
    from gauge.training.settings import read_yaml

    options = {} if config is None else read_yaml(config)
    known = dict.fromkeys(set(GaugeClassifier().get_params()) - {"device", "image_folder"})
    for name in options:
        pick(dict(sorted(known.items())), name, f"option in {config}")
    return options


def _check_new(out: Path, *, force: bool) -> None:
    """Refuse to overwrite anything: the folder has to be new or empty, or hold an interrupted fit or a model to replace."""
    interrupted, complete = (out / TRAINING).is_dir(), (out / "model.json").exists()
    if complete and not (interrupted or force):
        raise ValueError(f"{out} already holds a model; choose another folder, or replace it with --force")
    if out.exists() and not (out.is_dir() and (interrupted or complete or not any(out.iterdir()))):
        raise ValueError(f"{out} is {'not empty' if out.is_dir() else 'a file'}; choose a new folder for the model")


@contextmanager
def _only_fit(out: Path) -> Iterator[None]:
    """Two fits never write to one folder at a time; the lock ends with its process."""
    from filelock import FileLock, Timeout

    (out / TRAINING).mkdir(parents=True, exist_ok=True)
    lock = FileLock(out / TRAINING / "lock", timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise ValueError(f"another `gauge fit` is writing to {out}; wait for it, or choose another folder") from error
    with lock:
        yield


def add_to(app: typer.Typer) -> None:
    for command in (inspect, fit, predict, explain):
        app.command(rich_help_panel=TABLES)(command)
