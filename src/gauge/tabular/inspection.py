"""inspect_table(): what a table holds before anything is trained on it, and what may go wrong."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from gauge.registry import pick
from gauge.tabular.columns import CATEGORIES, TOLERATED, holds_dates, infer_kind, missing

MOSTLY_MISSING = 0.95
FEW = 10  # rows of a class
LINKED = 0.5  # correlation of gaps that is worth a word


@dataclass(frozen=True)
class Inspection:
    """A line for every column, how the gaps of columns go together (from -1 to 1), and what to look at."""

    columns: pd.DataFrame
    together: pd.DataFrame
    problems: list[str]
    rows: int

    def text(self) -> str:
        lines = [f"{self.rows} rows, {len(self.columns)} columns", "", self.columns.to_string(index=False), ""]
        names, values = list(self.together), self.together.to_numpy()
        pairs = [(values[i, j], names[i], names[j]) for i, j in zip(*np.triu_indices(len(names), 1), strict=True)]
        linked = sorted((pair for pair in pairs if pair[0] > LINKED), reverse=True)[:10]
        lines += ["missing together:"] if linked else []
        lines += [f"  {first} and {other} (correlation {value:.2f})" for value, first, other in linked]
        lines += (
            ["problems:", *(f"  {problem}" for problem in self.problems)] if self.problems else ["no problems found"]
        )
        return "\n".join(lines)


def inspect_table(
    frame: pd.DataFrame,
    *,
    target: str | None = None,
    kinds: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Inspection:
    """Pictures are looked for in `folder`; `target` holds the labels, `kinds` says what is known of columns."""
    frame = frame.rename(columns=str)
    for name in (*(kinds or {}), *([] if target is None else [target])):
        pick(dict.fromkeys(frame.columns), name, "column")
    problems = [] if target is None else _target_problems(frame[target])
    repeated = int(frame.astype(str).duplicated().sum())
    if repeated:
        problems.append(f"{repeated} rows are exact copies of others; if they fall into training and test, scores lie")
    lines, gaps = [], {}
    for name in frame.columns.drop(target) if target else frame.columns:
        column = frame[name]
        gone = missing(column)
        kind, note = infer_kind(column)
        kind, note = (kinds[name], "as you said") if name in (kinds or {}) else (kind, note)  # type: ignore[index]
        if kind == "image":
            absent = ~gone & ~column.map(lambda value: (Path(folder or "") / str(value)).is_file()).astype(bool)
            if absent.any():
                problems.append(f"{name}: {int(absent.sum())} pictures are not there, first {column[absent].iloc[0]!r}")
            gone = gone | absent
        if kind == "number":
            odd = column[~gone & not_numbers(column)]
            if len(odd):
                told = f"{str(odd.iloc[0])!r} (row {odd.index[0]})"
                fate = "they will count as missing" if len(odd) <= TOLERATED * (~gone).sum() else "too many to go on"
                problems.append(
                    f"{name}: {len(odd)} of {int((~gone).sum())} values are not numbers, e.g. {told}; {fate}"
                )
        if gone.mean() > MOSTLY_MISSING:
            problems.append(f"{name}: {100 * gone.mean():.0f} % are missing; there is little to learn from it")
        if kind == "category" and column[~gone].nunique() > CATEGORIES:
            problems.append(f"{name}: more than {CATEGORIES} categories; rare ones will count as missing")
        example = str(column[~gone].iloc[0])[:40] if (~gone).any() else ""
        lines.append((name, kind, f"{100 * gone.mean():.1f} %", column[~gone].astype(str).nunique(), example, note))
        gaps[name] = gone.to_numpy(float)
    varied = pd.DataFrame({name: gone for name, gone in gaps.items() if 0 < gone.mean() < 1})
    table = pd.DataFrame(lines, columns=["column", "kind", "missing", "distinct", "example", "note"])
    return Inspection(table, varied.corr(), problems, len(frame))


def not_numbers(column: pd.Series) -> pd.Series:
    """Which values are neither missing nor readable as numbers; none where they are dates."""
    if holds_dates(column):
        return pd.Series(False, column.index)
    return ~missing(column) & pd.to_numeric(column.where(~missing(column)), errors="coerce").isna()


def _target_problems(labels: pd.Series) -> list[str]:
    gone = missing(labels)
    problems = [f"{labels.name}: {int(gone.sum())} labels are missing; leave these rows out"] if gone.any() else []
    counts = labels[~gone].value_counts()
    if len(counts) < 2:
        problems.append(f"{labels.name}: there is only one class")
    few = counts[counts < FEW]
    if len(few):
        problems.append(
            f"{labels.name}: {len(few)} of {len(counts)} classes have fewer than {FEW} rows, e.g. {str(few.index[0])!r}"
        )
    if pd.api.types.is_float_dtype(labels) and not np.all(labels[~gone] % 1 == 0):
        problems.append(f"{labels.name}: fractions are no classes; put them into bins first")
    return problems
