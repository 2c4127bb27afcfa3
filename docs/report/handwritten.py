"""Handwritten: as many views missing in training as in test rows, and what other papers report on the same data."""

from collections.abc import Callable
from dataclasses import replace

from gauge_lab.published import ELSEWHERE, SOURCES
from report.results import difference, measured, minus_each, table_of

TRAINED = {"complete": "handwritten", "overall=0.3": "handwritten/rate30", "overall=0.5": "handwritten/rate50"}
ROWS = (
    *("gauge_plus", "gauge_plus:gauge_plus-heads-only", "late_fusion", "simmlm", "shaspec", "any_subset"),
    *("gauge:masked", "gauge:v2", "gauge", "qmf", "pdf", "flex_moe", "logistic_cells"),
)


def handwritten() -> str:
    """Each condition from the models that were trained under it, and the first row minus every other."""
    folders = {protocol: measured(dict.fromkeys(ROWS, folder)) for protocol, folder in TRAINED.items()}
    parts = {protocol: table_of(folder, (protocol,), ROWS) for protocol, folder in TRAINED.items()}
    rows = [row for row in ROWS if any(row in part.rows for part in parts.values())]
    cells = {row: {name: part.rows[row][name] for name, part in parts.items() if row in part.rows} for row in rows}
    first, *others = rows
    columns = {name: minus_each(given, first, name) if first in given else {} for name, given in folders.items()}
    lines = [f"| points, {first} minus | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    lines += [f"| {row} | {' | '.join(difference(pairs.get(row)) for pairs in columns.values())} |" for row in others]
    table = replace(next(iter(parts.values())), columns=tuple(TRAINED), rows=cells, notes=())
    return table.markdown() + "\n" + "\n".join(lines) + "\n"


def elsewhere() -> str:
    """The numbers of other papers, with their source."""
    cited = [number for number in ELSEWHERE if number.benchmark == "handwritten"]
    ranked = sorted(cited, key=lambda number: -number.percent)
    lines = ["| published, % | complete |", "|---|---|"]
    lines += [f"| {number.method} | {number.percent:.2f} ± {number.deviation:.2f} |" for number in ranked]
    sources = [f"{SOURCES[name]}." for name in dict.fromkeys(number.source for number in ranked)]
    return "\n".join([*lines, "", *sources]) + "\n"


TABLES: dict[str, Callable[[], str]] = {"handwritten": lambda: f"{handwritten()}\n{elsewhere()}"}
