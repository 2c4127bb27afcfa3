"""inspect_table(): the kinds, missing values and problems of a table, before anything is trained on it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from gauge.choices import pick
from gauge.registry import COLUMNS
from gauge.tabular.table.columns import ANYWHERE, IGNORE, Cell, ImageFiles, infer_kind, missing, pick_kind
from gauge.tabular.table.inputs import as_pandas, target_problems, width_problems
from gauge.tabular.table.numbers import plain

MAX_MISSING_RATE = 0.95  # of a column without a problem
MIN_ROWS_PER_CLASS = 10
MIN_CORRELATION = 0.5  # of missingness that is reported


@dataclass(frozen=True)
class Inspection:
    """One line for every column, the correlations of their missingness, and problems."""

    columns: pd.DataFrame
    together: pd.DataFrame
    problems: list[str]
    rows: int

    def text(self) -> str:
        lines = [f"{self.rows} rows, {len(self.columns)} columns", "", self.columns.to_string(index=False), ""]
        names, values = list(self.together), self.together.to_numpy()
        pairs = [(values[i, j], names[i], names[j]) for i, j in zip(*np.triu_indices(len(names), 1), strict=True)]
        linked = sorted((pair for pair in pairs if pair[0] > MIN_CORRELATION), reverse=True)[:10]
        lines += ["missing together:"] if linked else []
        lines += [f"  {first} and {other} (correlation {value:.2f})" for value, first, other in linked]
        lines += ["problems:"] if self.problems else ["no problems found"]
        return "\n".join([*lines, *(f"  {problem}" for problem in self.problems)])


def inspect_table(
    frame: pd.DataFrame,
    *,
    target: str | None = None,
    kinds: Mapping[str, str] | None = None,
    files: ImageFiles = ANYWHERE,
) -> Inspection:
    """`target` holds the labels, `kinds` overrides the inferred kinds, `files` are the images."""
    frame, kinds = as_pandas(frame).apply(plain), kinds or {}
    for name in (*kinds, *([] if target is None else [target])):
        pick(dict.fromkeys(frame.columns), name, "column")
    for kind in kinds.values():
        pick_kind(kind)
    problems = [] if target is None else list(_target_problems(frame[target]))
    if copies := int(frame.astype(str).duplicated().sum()):
        problems.append(
            f"{copies} rows are exact copies of others; if they end up in training and test, scores mislead"
        )
    lines, missingness = [], {}
    for name in frame.columns.drop(target) if target else frame.columns:
        column = frame[name]
        kind, note = (kinds[name], "as specified") if name in kinds else infer_kind(column)
        mask, own_problems = _inspect_column(column, kind, files)
        problems += [f"{name}: {problem}" for problem in own_problems]
        if words := sorted(set(column[missing(column) & column.notna()].astype(str).str.strip()) - {""}):
            note = f"{note}; " * bool(note) + f"{', '.join(map(repr, words[:3]))} counts as missing"
        values = column[~mask]
        example = str(values.iloc[0])[:40] if len(values) else ""
        lines.append((name, kind, f"{100 * mask.mean():.1f} %", values.astype(str).nunique(), example, note))
        missingness[name] = mask.astype(float)
    varied = pd.DataFrame({name: flags for name, flags in missingness.items() if 0 < flags.mean() < 1})
    table = pd.DataFrame(lines, columns=["column", "kind", "missing", "distinct", "example", "note"])
    inspected = [COLUMNS.get(kind) for kind in table["kind"] if kind != IGNORE]
    problems += width_problems(sum(issubclass(kind, Cell) for kind in inspected))
    return Inspection(table, varied.corr(), problems, len(frame))


def _inspect_column(column: pd.Series, kind: str, files: ImageFiles) -> tuple[np.ndarray, list[str]]:
    """Which rows are missing, and the problems of the column."""
    mask, problems = missing(column).to_numpy(bool, copy=True), list[str]()
    if kind != IGNORE:
        absent, problems = COLUMNS.get(kind).inspect(column[~mask], files)
        mask[np.flatnonzero(~mask)[absent]] = True
    if (rate := mask.mean()) > MAX_MISSING_RATE:
        problems.append(f"{100 * rate:.0f} % are missing; there is little to learn from it")
    return mask, problems


def _target_problems(labels: pd.Series) -> Iterator[str]:
    values = labels[labels.notna() & (labels.astype(str).str.strip() != "")]
    if len(values) < len(labels):
        yield f"{labels.name}: {len(labels) - len(values)} labels are missing; these rows are not learned from"
    counts = values.value_counts()
    if len(counts) < 2:
        yield f"{labels.name}: there is only one class"
    few = counts[counts < MIN_ROWS_PER_CLASS]
    if len(few):
        example = repr(str(few.index[0]))
        yield f"{labels.name}: {len(few)} of {len(counts)} classes have fewer than {MIN_ROWS_PER_CLASS} rows, e.g. {example}"
    if pd.api.types.is_float_dtype(labels) and not np.all(values % 1 == 0):
        yield f"{labels.name}: fractions are not classes; divide them into classes (--classes 4, pd.qcut)"
    else:
        yield from (f"{labels.name} {problem}" for problem in target_problems(values))
