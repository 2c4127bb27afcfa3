"""`gauge advise`: which missing values are worth getting."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gauge.cli.loading import check_paths, load_fitted
from gauge.cli.options import Device, Model, OutsideImages, Plugins, TableFile

if TYPE_CHECKING:
    import pandas as pd


def advise(
    model: Model,
    table: TableFile,
    costs: Annotated[
        str | None, typer.Option(help="""What values cost, {"mri": 300}, or a JSON file with that; others cost 1.""")
    ] = None,
    worth: Annotated[
        float | None, typer.Option(help="What a fall of the log loss by 1 is worth, in that unit.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File for the advice, .csv. Default: the terminal.")] = None,
    outside_images: OutsideImages = False,
    plugin: Plugins = None,
    device: Device = None,
) -> None:
    """Which missing values of every row to get next: the expected fall of the log loss, for what they cost."""
    check_paths(model, table)
    if out is not None and out.suffix != ".csv":
        raise ValueError(f"{out} should end in .csv")
    prices = _costs(costs)
    classifier = load_fitted(model, table, outside_images=outside_images, device=device)
    from gauge.data.files import write_text
    from gauge.tabular.table.files import read_table_file

    rows = read_table_file(table)
    advice = classifier.advise(rows, costs=prices, worth=worth)
    text = advice.to_csv(index=False, float_format="%.6g")
    if out is None:
        sys.stdout.write(text)
    else:
        write_text(out, text)
        print(f"the advice for {len(rows)} rows is in {out}")
    print(_summary(advice, len(rows)), file=sys.stderr)


def _summary(advice: "pd.DataFrame", rows: int) -> str:
    some = advice.loc[advice["advised"], "row"].nunique()
    if not len(advice):
        return f"nothing is missing in the {rows} rows"
    if not some:
        return (
            f"no missing value is worth getting in the {rows} rows: the gains are within chance, or less than the costs"
        )
    return f"values are advised for {some} of {rows} rows; for the others none is worth getting"


def _costs(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    written = text.lstrip().startswith("{")
    if not written and not Path(text).is_file():
        raise ValueError(f'--costs {text} is no file; give one, or JSON such as {{"mri": 300}}')
    try:
        costs = json.loads(text if written else Path(text).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f'--costs is not JSON ({error}); write for example {{"mri": 300}}') from error
    if not isinstance(costs, dict):
        raise ValueError(f'--costs is a {type(costs).__name__}; give costs by column, for example {{"mri": 300}}')
    return costs
