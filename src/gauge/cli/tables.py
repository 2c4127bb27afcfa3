"""The commands that read your own table: inspect, predict, explain."""

import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gauge.cli.loading import check_paths, heavy_imports, load_fitted
from gauge.cli.options import (
    KIND,
    Device,
    Kinds,
    MaxCategories,
    Model,
    ModelOrExport,
    OutsideImages,
    Plugins,
    Strict,
    TableFile,
    named,
)

Coverage = Annotated[
    float | None,
    typer.Option(help="Also write the classes that each row may have, the right one among them this often, e.g. 0.9."),
]
ByClass = Annotated[
    bool, typer.Option("--by-class", help="With --coverage: promise it for the rows of every class; sets are larger.")
]


def inspect(
    table: TableFile,
    target: Annotated[str | None, typer.Option(help="The column with the labels.")] = None,
    column: Kinds = None,
    max_categories: MaxCategories = 255,
    against: Annotated[
        Path | None,
        typer.Option(help="A model of `gauge fit`: what moved since its training, and which rows are unlike it."),
    ] = None,
    outside_images: OutsideImages = False,
    plugin: Plugins = None,
) -> None:
    """The kind of every column, what is missing, and problems.

    With `--against MODEL`, instead: columns whose values or missing rates moved since training, and rows unlike it.
    """
    check_paths(against, table)
    with heavy_imports():
        from gauge.tabular.table.files import read_table_file
    if against is not None:
        classifier = load_fitted(against, table, outside_images=outside_images)
        print(classifier.drift(read_table_file(table)))
        return
    with heavy_imports():
        from gauge.tabular.table.columns import ImageFiles
        from gauge.tabular.table.inspection import inspect_table
        from gauge.tabular.table.paths import table_folder

    kinds, files = named("--column", column, KIND), ImageFiles(table_folder(table), outside_images)
    rows = read_table_file(table)
    print(inspect_table(rows, target=target, kinds=kinds, files=files, max_categories=max_categories).text())


def predict(
    model: ModelOrExport,
    table: TableFile,
    out: Annotated[
        Path | None, typer.Option(help="File for the predictions, .csv or .parquet; with --ray a folder of parts.")
    ] = None,
    keep: Annotated[list[str] | None, typer.Option(help="A column to copy, such as an id; may be repeated.")] = None,
    coverage: Coverage = None,
    by_class: ByClass = False,
    outside_images: OutsideImages = False,
    ray: Annotated[bool, typer.Option("--ray", help="Predict Parquet files on a Ray cluster (RAY_ADDRESS).")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Workers on the cluster, each with a model.")] = 2,
    plugin: Plugins = None,
    device: Device = None,
    strict: Strict = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Write texts such as =1+2, which Excel would compute, as they are.")
    ] = False,
) -> None:
    """The class of every row and the probability of each class. Tables are read in parts, and may be larger than memory."""
    check_paths(model, table)
    if coverage is not None:
        from gauge.tabular.saved.prediction_sets import check_coverage

        check_coverage(coverage)
    elif by_class:
        raise ValueError("--by-class is for prediction sets; add a coverage, for example --coverage 0.9")
    options: dict[str, Any] = {"keep": [*dict.fromkeys(keep or ())], "coverage": coverage, "by_class": by_class}
    files: dict[str, Any] = {"device": device, "outside_images": outside_images}
    if ray and strict:
        raise ValueError("--strict looks at all rows together, and workers of --ray see parts; leave one of them out")
    if ray:
        _predict_on_ray(model, table, out, workers, **options, **files)
    else:
        _predict_here(model, table, out, options, strict=strict, raw=raw, **files)


def _predict_here(
    model: Path, table: Path, out: Path | None, options: dict[str, Any], *, strict: bool, raw: bool, **files: Any
) -> None:
    """Write the predictions to a file or to the terminal, and report what the labels in the table say about them."""
    with heavy_imports():
        from gauge.data.files import write_bytes
        from gauge.deploy.exported import load_classifier
        from gauge.deploy.scoring import ScoredRows, predict_table, predictions_file
        from gauge.tabular.table.guard import watched
        from gauge.tabular.table.paths import table_files, table_folder

    if out is not None and out.suffix not in (".csv", ".parquet"):
        raise ValueError(f"{out} should end in .csv or .parquet, the formats of predictions")
    if out is not None and out.resolve() in [path.resolve() for path in table_files(table)]:
        raise ValueError(f"{out} is the table itself, which would be overwritten; choose another file")
    with heavy_imports():  # of what the experts need
        classifier = load_classifier(model, image_folder=table_folder(table), **files)
    count = ScoredRows()

    def write(file: Any) -> None:
        nonlocal count
        with watched(strict=strict), predictions_file(file, ".csv" if out is None else out.suffix, raw=raw) as append:
            count = predict_table(classifier, table, append, **options)

    if out is None:
        write(sys.stdout.buffer)
    else:
        write_bytes(out, write)
        print(f"{count.rows} predictions in {out}")
    more = f"; more: gauge evaluate {model} {table}" if model.is_dir() else ""
    for line in count.sentences(more, coverage=options["coverage"], by_class=options["by_class"]):
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
    table: TableFile,
    out: Annotated[Path, typer.Option(help="File for the explanation: .html for a page, .csv for a table.")],
    rows: Annotated[str, typer.Option(help="FIRST:LAST, without the last.")] = "0:20",
    exact: Annotated[
        bool, typer.Option("--exact", help="Also measure the effects of words and parts of images.")
    ] = False,
    keep: Annotated[list[str] | None, typer.Option(help="A column to recognise rows by; may be repeated.")] = None,
    outside_images: OutsideImages = False,
    plugin: Plugins = None,
    device: Device = None,
    strict: Strict = False,
) -> None:
    """How much each value of every row was used, how far it is trusted, and what would help: a page or a table."""
    if out.suffix not in (".html", ".htm", ".csv"):
        raise ValueError(f"{out} should end in .html or .csv")
    first_last = re.fullmatch(r"(\d+):(\d+)", rows)
    if not first_last:
        raise ValueError(f"--rows {rows!r} is not FIRST:LAST; write for example 0:20")
    classifier = load_fitted(model, table, outside_images=outside_images, device=device)
    from gauge.data.files import write_text
    from gauge.deploy.scoring import without_formulas
    from gauge.tabular.table.files import read_table_file
    from gauge.tabular.table.guard import watched

    every = read_table_file(table)
    chosen = every.iloc[int(first_last[1]) : int(first_last[2])]
    if not len(chosen):
        raise ValueError(f"{table} has no rows {rows}; choose others")
    labels = classifier.target if classifier.target in chosen else None
    with watched(strict=strict):
        explanation = classifier.explain(chosen, labels, exact=exact, keep=keep or ())
    if out.suffix == ".csv":
        write_text(out, without_formulas(explanation.to_frame()).to_csv(index=False))
    else:
        explanation.to_html(out)
    others = f" of {len(every)}; --rows FIRST:LAST chooses others" if len(explanation) < len(every) else ""
    print(f"the evidence of {len(explanation)} rows is in {out}" + (f" (rows {rows}{others})" if others else ""))
