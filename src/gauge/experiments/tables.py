"""Results as tables: rows and columns in the order of the results, with the paper's numbers."""

from collections.abc import Mapping, Sequence

from gauge.experiments.comparison import Paired
from gauge.experiments.results import Result
from gauge.reports.tables import Cell, Table

REFERENCE = "gauge"
CHANCE = 0.05
SIGN_NOTE = f"↑ ↓: above or below {REFERENCE}, p < {CHANCE:g} in a paired t-test over seeds, uncorrected."


def result_table(
    results: Sequence[Result],
    refused: Mapping[str, str] | None = None,
    pairs: Sequence[Paired] = (),
    paper: Mapping[str, Mapping[str, float]] | None = None,
) -> Table:
    """The table of some results; `pairs` decide which cells differ from GAUGE's beyond chance."""
    if not results:
        raise ValueError("there are no results to put into a table")
    if len({(result.benchmark, result.metric) for result in results}) > 1:
        raise ValueError("a table holds results of one benchmark and one metric; filter them first")
    cells: dict[str, dict[str, list[Result]]] = {}
    for result in results:
        cells.setdefault(str(result.row), {}).setdefault(result.protocol, []).append(result)
    rows = {row: {protocol: _cell(seeds) for protocol, seeds in columns.items()} for row, columns in cells.items()}
    rows |= {row: {} for row in refused or {}}
    columns = tuple(dict.fromkeys(result.protocol for result in results))
    signs = {(pair.row, pair.protocol): "↑" if pair.mean > 0 else "↓" for pair in pairs if _differs(pair)}
    return Table(str(results[0].metric), columns, rows, refused or {}, signs, SIGN_NOTE, paper or {})


def _differs(pair: Paired) -> bool:
    return pair.other == REFERENCE and pair.p_over_seeds is not None and pair.p_over_seeds < CHANCE


def _cell(results: list[Result]) -> Cell:
    seeds = {result.seed: result for result in results}
    low, high = results[0].interval
    return Cell(tuple(100 * result.value for result in seeds.values()), (100 * low, 100 * high))
