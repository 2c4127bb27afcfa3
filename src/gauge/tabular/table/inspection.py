"""inspect_table(): the kinds, missing values and problems of a table, before anything is trained on it."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from gauge.choices import pick
from gauge.tabular.table.columns import CATEGORIES, TOLERATED, ImageFiles, missing
from gauge.tabular.table.inputs import as_pandas, target_problems, width_problems
from gauge.tabular.table.kinds import IMAGE_BYTES, infer_kind, pick_kind
from gauge.tabular.table.numbers import Writing, plain

MOSTLY_MISSING = 0.95
FEW = 10  # rows of a class
ANYWHERE = ImageFiles()
LINKED = 0.5  # correlation of missingness that is reported


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
        linked = sorted((pair for pair in pairs if pair[0] > LINKED), reverse=True)[:10]
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
        column, mask = frame[name], missing(frame[name])
        kind, note = (kinds[name], "as specified") if name in kinds else infer_kind(column)
        if kind == "image":
            known = column.map(lambda value: os.path.isfile(files.path(str(value)) or ""))
            no_file = ~mask & ~known.astype(bool) & ~column.astype(str).str.match(IMAGE_BYTES)
            if no_file.any():
                problems.append(f"{name}: {no_file.sum()} image files do not exist, first {column[no_file].iloc[0]!r}")
            mask = mask | no_file
        values = column[~mask]
        problems += [f"{name}: {problem}" for problem in _column_problems(kind, values, mask.mean())]
        if words := sorted(set(column[missing(column) & column.notna()].astype(str).str.strip()) - {""}):
            note = f"{note}; " * bool(note) + f"{', '.join(map(repr, words[:3]))} counts as missing"
        example = str(values.iloc[0])[:40] if len(values) else ""
        lines.append((name, kind, f"{100 * mask.mean():.1f} %", values.astype(str).nunique(), example, note))
        missingness[name] = mask.to_numpy(float)
    varied = pd.DataFrame({name: flags for name, flags in missingness.items() if 0 < flags.mean() < 1})
    table = pd.DataFrame(lines, columns=["column", "kind", "missing", "distinct", "example", "note"])
    problems += width_problems(int(table["kind"].isin(["number", "category"]).sum()))
    return Inspection(table, varied.corr(), problems, len(frame))


def _column_problems(kind: str, values: pd.Series, missing_rate: float) -> Iterator[str]:
    if kind == "number":
        wrong = values[np.isnan((Writing.of(values) or Writing()).read(values))]
        if len(wrong):
            outcome = "they count as missing" if len(wrong) <= TOLERATED * len(values) else "too many to train on"
            example = f"{str(wrong.iloc[0])!r} (row {wrong.index[0]})"
            yield f"{len(wrong)} of {len(values)} values cannot be read, e.g. {example}; {outcome}"
    if missing_rate > MOSTLY_MISSING:
        yield f"{100 * missing_rate:.0f} % are missing; there is little to learn from it"
    if kind == "category" and values.nunique() > CATEGORIES:
        yield f"more than {CATEGORIES} categories; rare ones count as missing"


def _target_problems(labels: pd.Series) -> Iterator[str]:
    values = labels[labels.notna() & (labels.astype(str).str.strip() != "")]
    if len(values) < len(labels):
        yield f"{labels.name}: {len(labels) - len(values)} labels are missing; these rows are not learned from"
    counts = values.value_counts()
    if len(counts) < 2:
        yield f"{labels.name}: there is only one class"
    few = counts[counts < FEW]
    if len(few):
        example = repr(str(few.index[0]))
        yield f"{labels.name}: {len(few)} of {len(counts)} classes have fewer than {FEW} rows, e.g. {example}"
    if pd.api.types.is_float_dtype(labels) and not np.all(values % 1 == 0):
        yield f"{labels.name}: fractions are not classes; divide them into classes (--classes 4, pd.qcut)"
    else:
        yield from (f"{labels.name} {problem}" for problem in target_problems(values))
