"""Tables of results: a row for each method and variant, a column for each protocol, all seeds in a cell."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

GRID = re.compile(r"gauge:gauge-grid(\d+)")


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
    """Results side by side. `refused` rows have no cells but a reason; `signs` mark cells, `sign_note` says what they mean;
    `paper` has a published number for some."""

    metric: str
    columns: tuple[str, ...]
    rows: dict[str, dict[str, Cell]]
    refused: Mapping[str, str] = field(default_factory=dict)
    signs: Mapping[tuple[str, str], str] = field(default_factory=dict)
    sign_note: str = ""
    paper: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def _cited(self) -> list[str]:
        """The columns for which the paper has a number of any of the rows."""
        return [column for column in self.columns if any(column in self.paper.get(row, {}) for row in self.rows)]

    def _heads(self) -> list[str]:
        """The columns, each followed by the paper's where it has one."""
        cited = self._cited()
        return [
            head for column in self.columns for head in (column, *([f"{column}, paper"] if column in cited else []))
        ]

    def markdown(self) -> str:
        """A GitHub table; the best mean of each column is bold, the second best in italics."""
        heads = [f"{self.metric}, %", *self._heads()]
        lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
        lines += [f"| {row} | {' | '.join(cells)} |" for row, cells in self._marked("**{}**", "*{}*").items()]
        reasons = {
            reason: [row for row in self.refused if self.refused[row] == reason] for reason in self.refused.values()
        }
        notes = [f"– {', '.join(rows)}: {reason}." for reason, rows in reasons.items()]
        if self.signs:
            notes.append(self.sign_note)
        if self._cited():
            notes.append("paper: cited as published; its data and training differ from ours.")
        return "\n".join(lines) + "\n" + "".join(f"\n{note}\n" for note in notes)

    def latex(self) -> str:
        """A tabular with booktabs rules; the best mean of each column is bold, the second best underlined."""
        marked = self._marked(r"\textbf{{{}}}", r"\underline{{{}}}")
        heads = [self.metric + r", \%", *self._heads()]
        lines = [
            r"\begin{tabular}{l" + "c" * (len(heads) - 1) + "}",
            r"\toprule",
            " & ".join(heads) + r" \\",
            r"\midrule",
        ]
        lines += [" & ".join((row, *cells)) + r" \\" for row, cells in marked.items()]
        text = "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"
        for sign, form in {"_": r"\_", "±": r"$\pm$", "–": "-", "↑": r"$\uparrow$", "↓": r"$\downarrow$"}.items():
            text = text.replace(sign, form)
        return text

    def html(self) -> str:
        """A plain table; the best mean of each column is bold, the second best underlined."""
        frame = pd.DataFrame.from_dict(self._marked("<b>{}</b>", "<u>{}</u>"), orient="index", columns=self._heads())
        return frame.to_html(escape=False, border=0) + "\n"

    def rates(self) -> dict[str, dict[float, tuple[float, ...]]]:
        """For each row its values by missing rate, where the columns are such: complete, and eta=..., gamma=... ."""
        places = {column: column.partition("=")[2] for column in self.columns if column.startswith(("eta=", "gamma="))}
        rates = {"complete": 0.0} | {column: float(rate) for column, rate in places.items()} if places else {}
        return {
            row: {rates[column]: cell.values for column, cell in cells.items() if column in rates}
            for row, cells in self.rows.items()
            if cells and rates
        }

    def grids(self) -> dict[str, dict[float, tuple[float, ...]]]:
        """For each protocol the values by units of a picture across, where rows differ in that (`gauge:gauge-grid3`)."""
        sides = {row: float(found[1]) for row in self.rows if (found := GRID.fullmatch(row))}
        lines = {
            column: {side: self.rows[row][column].values for row, side in sides.items() if column in self.rows[row]}
            for column in self.columns
        }
        return {column: points for column, points in lines.items() if len(points) > 1}

    def csv(self) -> str:
        """One line for each value: row, protocol, seed's place, percent."""
        values = [
            (row, column, place, value)
            for row, cells in self.rows.items()
            for column, cell in cells.items()
            for place, value in enumerate(cell.values)
        ]
        return pd.DataFrame(values, columns=["row", "protocol", "number", f"{self.metric}_percent"]).to_csv(index=False)

    def _marked(self, best: str, second: str) -> dict[str, list[str]]:
        """Every row's cells as text, with the best and the second best mean of each column in these forms."""
        ranked = {
            column: sorted({cells[column].mean for cells in self.rows.values() if column in cells}, reverse=True)
            for column in self.columns
        }

        def shown(row: str, column: str) -> str:
            cell = self.rows[row].get(column)
            if cell is None:
                return "–"
            place = ranked[column].index(cell.mean)
            form = (best, second)[place] if place < 2 and len(self.rows) > 1 else "{}"
            sign = self.signs.get((row, column))
            return form.format(cell) + (f" {sign}" if sign else "")

        cited = self._cited()

        def cells(row: str) -> Iterator[str]:
            for column in self.columns:
                yield shown(row, column)
                if column in cited:
                    value = self.paper.get(row, {}).get(column)
                    yield "–" if value is None else f"{value:.2f}"

        return {row: list(cells(row)) for row in self.rows}
