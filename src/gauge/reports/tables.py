"""Tables from result files: a row for each method and variant, a column for each protocol."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gauge.evaluation import Result


@dataclass(frozen=True)
class Cell:
    """All seeds of one row under one protocol, in percent. With one seed the interval is the test set's."""

    values: tuple[float, ...]
    interval: tuple[float, float]

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    def __str__(self) -> str:
        if len(self.values) > 1:
            return f"{self.mean:.2f} ± {np.std(self.values, ddof=1):.2f}"
        return f"{self.mean:.1f} [{self.interval[0]:.1f}, {self.interval[1]:.1f}]"


@dataclass(frozen=True)
class Table:
    """Results side by side. Rows and columns keep the order in which they were first seen."""

    metric: str
    columns: tuple[str, ...]
    rows: dict[str, dict[str, Cell]]

    @staticmethod
    def of(results: Sequence[Result]) -> "Table":
        if not results:
            raise ValueError("there are no results to put into a table")
        if len({(result.benchmark, result.metric) for result in results}) > 1:
            raise ValueError("a table holds results of one benchmark and one metric; filter them first")
        found: dict[str, dict[str, list[Result]]] = {}
        for result in results:
            found.setdefault(result.row, {}).setdefault(result.protocol, []).append(result)
        rows = {row: {protocol: _cell(cells) for protocol, cells in columns.items()} for row, columns in found.items()}
        return Table(results[0].metric, tuple(dict.fromkeys(result.protocol for result in results)), rows)

    def markdown(self) -> str:
        """A GitHub table; the best mean of each column is bold."""
        best = {
            column: max(cells[column].mean for cells in self.rows.values() if column in cells)
            for column in self.columns
        }

        def shown(cells: dict[str, Cell], column: str) -> str:
            if column not in cells:
                return "–"
            return f"**{cells[column]}**" if cells[column].mean == best[column] else str(cells[column])

        lines = [f"| {self.metric}, % | {' | '.join(self.columns)} |", "|---" * (len(self.columns) + 1) + "|"]
        for row, cells in self.rows.items():
            lines.append(f"| {row} | {' | '.join(shown(cells, column) for column in self.columns)} |")
        return "\n".join(lines) + "\n"


def _cell(results: list[Result]) -> Cell:
    seeds = {result.seed: result for result in results}
    low, high = results[0].interval
    return Cell(tuple(100 * result.value for result in seeds.values()), (100 * low, 100 * high))
