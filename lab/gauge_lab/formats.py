"""Tables of results: a row for each method and variant, a column for each protocol, all seeds in a cell."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class TableCell:
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
    """Results side by side. `refused` rows have a reason instead of cells, `signs` mark cells and `sign_note` explains them,
    `paper` holds published numbers; `notes` stand below the table; `names` are shown instead of rows."""

    metric: str
    columns: tuple[str, ...]
    rows: dict[str, dict[str, TableCell]]
    refused: Mapping[str, str] = field(default_factory=dict)
    signs: Mapping[tuple[str, str], str] = field(default_factory=dict)
    sign_note: str = ""
    paper: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)

    def name(self, row: str) -> str:
        return self.names.get(row, row)

    def markdown(self) -> str:
        """Return a GitHub table; the best mean of each column is bold, the second best in italics."""
        heads, rows = self._marked("**{}**", "*{}*")
        heads = [f"{self.metric}, %", *heads]
        lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
        lines += [f"| {self.name(row)} | {' | '.join(cells)} |" for row, cells in rows.items()]
        reasons: dict[str, list[str]] = {}
        for row, reason in self.refused.items():
            reasons.setdefault(reason, []).append(row)
        notes = [f"– {', '.join(rows)}: {reason}." for reason, rows in reasons.items()]
        notes += [self.sign_note] if self.signs else []
        if len(heads) > 1 + len(self.columns):
            notes.append("paper: cited as published; its data and training differ from ours.")
        notes += self.notes
        return "\n".join(lines) + "\n" + "".join(f"\n{note}\n" for note in notes)

    def latex(self) -> str:
        """Return a tabular with booktabs rules; the best mean of each column is bold, the second best underlined."""
        heads, rows = self._marked(r"\textbf{{{}}}", r"\underline{{{}}}")
        lines = [r"\begin{tabular}{l" + "c" * len(heads) + "}", r"\toprule"]
        lines += [" & ".join([self.metric + r", \%", *heads]) + r" \\", r"\midrule"]
        lines += [" & ".join((self.name(row), *cells)) + r" \\" for row, cells in rows.items()]
        text = "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"
        for sign, form in {"_": r"\_", "±": r"$\pm$", "–": "-", "↑": r"$\uparrow$", "↓": r"$\downarrow$"}.items():
            text = text.replace(sign, form)
        return text

    def rates(self) -> dict[str, dict[float, tuple[float, ...]]]:
        """Return the values of each named row by missing rate, if columns are missing rates: complete, and those in
        `RATES`."""
        alone = [
            column for column in self.columns if column.startswith(("eta=", "gamma=", "overall=")) and "," not in column
        ]
        rates = {column: float(column.partition("=")[2]) for column in alone}
        rates |= {"complete": 0.0} if rates else {}
        return {
            self.name(row): {rates[column]: cell.values for column, cell in cells.items() if column in rates}
            for row, cells in self.rows.items()
            if cells and rates
        }

    def grids(self) -> dict[str, dict[float, tuple[float, ...]]]:
        """Return the values of each protocol by units across an image, if rows differ in that (`gauge:gauge-grid3`)."""
        sides = {row: float(match[1]) for row in self.rows if (match := re.fullmatch(r"gauge:gauge-grid(\d+)", row))}
        lines = {
            column: {side: self.rows[row][column].values for row, side in sides.items() if column in self.rows[row]}
            for column in self.columns
        }
        return {column: points for column, points in lines.items() if len(points) > 1}

    def _marked(self, best: str, second: str) -> tuple[list[str], dict[str, list[str]]]:
        """Return the heads of all columns and the cells of every row, as text, with the two best means of a column in these
        forms; a column is followed by the paper's numbers if there are any."""
        heads: list[str] = []
        rows: dict[str, list[str]] = {row: [] for row in self.rows}
        for column in self.columns:
            cells = {row: cells[column] for row, cells in self.rows.items() if column in cells}
            ranked = sorted({cell.mean for cell in cells.values()}, reverse=True)
            forms = dict(zip(ranked, (best, second), strict=False)) if len(rows) > 1 else {}
            paper = {row: f"{self.paper[row][column]:.2f}" for row in rows if column in self.paper.get(row, {})}
            heads += [column, f"{column}, paper"] if paper else [column]
            for row, texts in rows.items():
                cell, sign = cells.get(row), self.signs.get((row, column))
                text = "–" if cell is None else forms.get(cell.mean, "{}").format(cell)
                texts.append(f"{text} {sign}" if cell is not None and sign else text)
                if paper:
                    texts.append(paper.get(row, "–"))
        return heads, rows
