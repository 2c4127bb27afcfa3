"""`gauge advise`: which missing values are worth getting."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gauge.cli.loading import check_paths, load_fitted
from gauge.cli.options import Device, Model, OutsideImages, Plugins, TableFile, named

if TYPE_CHECKING:
    import pandas as pd


def advise(
    model: Model,
    table: TableFile,
    cost: Annotated[
        list[str] | None,
        typer.Option(help="What a value costs, mri=300, or mri=never; others cost 1. May be repeated."),
    ] = None,
    worth: Annotated[
        float | None, typer.Option(help="What a fall of the log loss by 1 is worth, in that unit.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File for all missing values with numbers, .csv.")] = None,
    outside_images: OutsideImages = False,
    plugin: Plugins = None,
    device: Device = None,
) -> None:
    """Which missing value of every row to get next: a line for each row in which one is worth it."""
    check_paths(model, table)
    if out is not None and out.suffix != ".csv":
        raise ValueError(f"{out} should end in .csv")
    prices = _costs(cost)
    classifier = load_fitted(model, table, outside_images=outside_images, device=device)
    from gauge.data.files import write_text
    from gauge.reports.evidence import Advised
    from gauge.tabular.table.files import read_table_file

    rows = read_table_file(table)
    advice = classifier.advise(rows, costs=prices, worth=worth)
    if out is not None:
        write_text(out, advice.to_csv(index=False, float_format="%.6g"))
    first: Iterable[Any] = advice[advice["advised"]].drop_duplicates("row").itertuples()
    for each in first:
        gain = Advised(each.gain, each.low, each.high, each.right_now, each.right_then)
        print(f"row {each.row}: {each.column} {gain.words}")
    print(_summary(advice, len(rows)), file=sys.stderr)
    if out is not None:
        print(f"the advice for {len(rows)} rows is in {out}", file=sys.stderr)


def _summary(advice: "pd.DataFrame", rows: int) -> str:
    some = advice.loc[advice["advised"], "row"].nunique()
    if not len(advice):
        return f"nothing is missing in the {rows} rows"
    if not some:
        return f"no missing value is worth getting in the {rows} rows: gains are within chance, or less than the costs"
    return f"in {some} of {rows} rows a missing value is worth measuring"


def _costs(texts: list[str] | None) -> dict[str, float | None]:
    prices: dict[str, float | None] = {}
    for name, price in named("--cost", texts, "mri=300").items():
        try:
            prices[name] = None if price == "never" else float(price)
        except ValueError as error:
            raise ValueError(f"--cost {name}={price} is no number; write for example mri=300 or mri=never") from error
    return prices
