"""Commands that measure a classifier of `gauge fit`: evaluate, audit."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gauge.cli.loading import load_fitted
from gauge.cli.options import AsJson, Device, Model, OutsideImages, Plugins, Strict, TableFile


def evaluate(
    model: Model,
    table: Annotated[Path, typer.Argument(help="Labelled rows that were not in training.")],
    out: Annotated[Path | None, typer.Option(help="File for a page with curves and tables, .html.")] = None,
    threshold: Annotated[
        str | None, typer.Option(help="A number, sensitivity=0.95, specificity=0.9 or cost=5 (of a missed case).")
    ] = None,
    positive: Annotated[str | None, typer.Option(help="The class to look for. Default: the second of two.")] = None,
    by: Annotated[list[str] | None, typer.Option(help="A column of subgroups, such as sex; may be repeated.")] = None,
    groups: Annotated[
        str | None, typer.Option(help="A column, such as patient, whose rows belong together: intervals respect that.")
    ] = None,
    against: Annotated[Path | None, typer.Option(help="Another model of `gauge fit`, to compare with.")] = None,
    protocol: Annotated[str | None, typer.Option(help="Hide further values first, e.g. gamma=0.3.")] = None,
    outside_images: OutsideImages = False,
    plugin: Plugins = None,
    device: Device = None,
    as_json: AsJson = False,
    strict: Strict = False,
) -> None:
    """Evaluate a classifier of `gauge fit` on a table with labels.

    With `--protocol gamma=0.3`, that share of the cells is hidden before the classifier predicts.
    """
    if out is not None and out.suffix != ".html":
        raise ValueError(f"{out} should end in .html")
    files: dict[str, Any] = {"device": device, "outside_images": outside_images}
    classifier = load_fitted(model, table, **files)
    from gauge.tabular.table.files import read_table_file
    from gauge.tabular.table.guard import watched

    rows = read_table_file(table)
    chosen: dict[str, Any] = {"threshold": threshold, "positive": positive, "by": by or ()}
    chosen |= {} if groups is None else {"groups": groups}
    other = None if against is None else load_fitted(against, table, **files)
    with watched(strict=strict):
        evaluation = classifier.evaluate(rows, against=other, protocol=protocol, **chosen)
    hidden = f"with further values hidden: {protocol}\n\n" if protocol else ""
    print(json.dumps(evaluation.to_json(), indent=2) if as_json else f"{hidden}{evaluation}\n")
    if out is not None:
        evaluation.to_html(out)
        print(f"the evaluation is in {out}", file=sys.stderr)


def audit(
    model: Model,
    table: TableFile,
    samples: Annotated[int | None, typer.Option(min=1, help="How many rows to use. Default: all.")] = None,
    outside_images: OutsideImages = False,
    plugin: Plugins = None,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Audit the trust in cells: known cells of the table are hidden, or swapped with another row's. No labels needed."""
    classifier = load_fitted(model, table, device=device, outside_images=outside_images)
    from gauge.tabular.table.files import read_table_file

    result = classifier.audit(read_table_file(table)[:samples])
    lines = result.to_string(index=False, float_format="%.2f", na_rep="–")
    print(result.to_json(orient="records", indent=2) if as_json else lines)
