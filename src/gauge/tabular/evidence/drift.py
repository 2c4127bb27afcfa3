"""Drift: which columns of new rows moved since training, and which rows are unlike anything that training saw.

stability index   Σ_bins (new - old) · log(new / old), over tenths of a number's training values or over categories
unlikeness        the p value of a row's numbers under the normal distribution of their training ranks, given which it has;
                  a number that is far from all of training, as the guard says, is unlike them in any case

The index is that of credit scoring; from 0.1 on, and beyond chance in a chi-squared test, a column counts as moved. New rows
of the same source have categories that training never saw, about as many as occurred once in training (Good and Turing).
Nothing of single training rows is kept: shares, a correlation matrix, and a quantile.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from scipy.special import chdtrc

from gauge.tabular.table.cells import missing
from gauge.tabular.table.guard import CHANCE, share_moved
from gauge.tabular.table.inputs import row_names
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Schema


@dataclass(frozen=True)
class Profile:
    """What the training rows looked like. `counts` has the rows in every bin of each number and category, in the order of
    the schema's table; `correlations` and `cutoff` describe the numbers, and `numbers` are their positions there. `unread`
    is the share of rows with a value that cannot be read, of each column of the schema."""

    counts: Sequence[np.ndarray]
    numbers: np.ndarray
    correlations: np.ndarray
    cutoff: float
    unread: np.ndarray

    @classmethod
    def fit(cls, rows: Rows, frame: pd.DataFrame) -> "Profile | None":
        """From training rows, as they are read and as given; None if they are too few."""
        if len(rows) < 50:
            return None
        cells, table, folds = rows.cells, rows.schema.table, 5
        counts = [column.counts(values) for column, values in zip(table, cells.T, strict=True)]
        numbers = np.array([index for index, column in enumerate(table) if not column.categorical][:200], int)
        profile = cls(counts, numbers, _correlations(cells[:, numbers]), 0.0, _unread(frame, rows).mean(0))
        some = cells[np.linspace(0, len(cells) - 1, min(len(cells), 10_000)).astype(int)]
        likeness, fold = np.ones(len(some)), np.arange(len(some)) % folds
        for number in range(folds):  # a row is more like the correlations that it is part of
            others = replace(profile, correlations=_correlations(some[fold != number][:, numbers]))
            likeness[fold == number] = others.likeness(some[fold == number])
        return replace(profile, cutoff=float(np.quantile(likeness, 0.01)))  # one in a hundred is unlike the others

    def likeness(self, cells: np.ndarray) -> np.ndarray:
        """The p value of each row's numbers; 1 where it has none."""
        scores = cells[:, self.numbers].astype(float)
        result = np.ones(len(scores))
        patterns, pattern = np.unique(np.isnan(scores), axis=0, return_inverse=True)
        for number, absent in enumerate(patterns):
            own = ~absent
            if own.any():
                rows = np.flatnonzero(pattern.ravel() == number)
                values = scores[np.ix_(rows, np.flatnonzero(own))]
                distance = (values * np.linalg.solve(self.correlations[np.ix_(own, own)], values.T).T).sum(1)
                result[rows] = chdtrc(int(own.sum()), distance)
        return result

    def expected_unread(self, schema: Schema) -> np.ndarray:
        """The share of rows of the same source whose value cannot be read or is a category that training never saw, of each
        column."""
        expected = dict(zip([column.name for column in schema.columns], self.unread, strict=True))
        for cell, counts in zip(schema.table, self.counts, strict=True):
            expected[cell.name] += cell.new_share(counts)
        return np.array(list(expected.values()))

    def rare_rates(self, schema: Schema) -> dict[str, float]:
        """The share of rare values among those of each column that has any."""
        columns = zip(schema.table, self.counts, strict=True)
        known = {cell.name: (cell.rare_code, counts) for cell, counts in columns}
        return {name: float(counts[rare] / counts.sum()) for name, (rare, counts) in known.items() if rare is not None}

    def tensors(self) -> dict[str, np.ndarray]:
        described = {name: np.asarray(getattr(self, name)) for name in ("correlations", "numbers", "unread", "cutoff")}
        return described | {f"counts.{index}": counts for index, counts in enumerate(self.counts)}

    @classmethod
    def load(cls, tensors: Mapping[str, np.ndarray], schema: Schema) -> "Profile | None":
        """What `tensors` gave, for this schema; None if there is nothing."""
        if not tensors:
            return None
        table = schema.table
        counts = [tensors[f"counts.{index}"] for index in range(len(table))]
        numbers, correlations = tensors["numbers"], tensors["correlations"]
        fits = [len(each) == column.bins for each, column in zip(counts, table, strict=True)]
        if not all(fits) or correlations.shape != (len(numbers),) * 2 or not set(numbers) <= set(range(len(table))):
            raise ValueError("the profile of its training rows is that of other columns")
        return cls(counts, numbers, correlations, float(tensors["cutoff"]), tensors["unread"])


@dataclass(frozen=True)
class Drift:
    """What moved in new rows since training; `print` it for a report in words.

    Attributes
    ----------
    columns
        A line for each column: its stability index, whether its values or its missing rate moved beyond chance, and that in
        words.
    unlike
        The positions of rows unlike the training rows; one in a hundred is by chance.
    rows
        The number of new rows.
    names
        What the rows are called.

    Examples
    --------
    >>> columns = pd.DataFrame({"column": ["age"], "index": [0.3], "moved": [True], "words": ["higher"]})
    >>> Drift(columns, np.array([2]), rows=9, names="abcdefghi").moved
    ['age']
    """

    columns: pd.DataFrame
    unlike: np.ndarray
    rows: int
    names: Sequence[str] = field(repr=False)

    @property
    def moved(self) -> list[str]:
        return self.columns.loc[self.columns["moved"], "column"].tolist()

    def __str__(self) -> str:
        lines = [f"{self.rows} rows beside the rows of training", ""]
        moved = self.columns[self.columns["moved"]].sort_values("index", ascending=False, kind="stable")
        width = max((len(name) for name in moved["column"]), default=0)
        lines += [f"moved: {each.column:{width}}  {each.words}" for each in moved.itertuples()] or ["no column moved"]
        same = self.columns.loc[~self.columns["moved"], "column"].tolist()
        if same and len(moved):
            lines.append(f"as in training: {', '.join(same)}")
        named = ", ".join(self.names[row] for row in self.unlike[:5])
        more = ", …" if len(self.unlike) > 5 else ""
        share = f"{len(self.unlike)} of {self.rows} rows ({100 * len(self.unlike) / self.rows:.1f} %)"
        lines += ["", f"unlike anything in training: {share}, where 1 % would be by chance"]
        return "\n".join(lines + ([f"the most unlike: rows {named}{more}"] if len(self.unlike) else []))


def measure_drift(
    profile: Profile | None, frame: pd.DataFrame, rows: Rows, missing_rates: Mapping[str, float], training_rows: int
) -> Drift:
    """New rows, as given and as they are read, beside a profile of the training rows."""
    if profile is None:
        raise ValueError("fewer than 50 training rows say too little to compare others with; fit on more rows")
    if not len(frame):
        raise ValueError("the table has no rows; give some to compare with the training rows")
    schema, unread, expected = rows.schema, _unread(frame, rows), profile.expected_unread(rows.schema)
    absent = ~rows.observed() & ~unread
    table = {each[0].name: each for each in zip(schema.table, rows.cells.T, profile.counts, strict=True)}
    lines, likeness = [], profile.likeness(rows.cells)
    for index, column in enumerate(schema.columns):
        line = {"column": column.name, "index": 0.0, "moved": False}
        words, counts = [], (len(frame), training_rows)
        now, before = float(absent[:, index].mean()), max(0.0, missing_rates[column.name] - profile.unread[index])
        if share_moved(now, before, counts, len(schema.columns)):
            words.append(f"missing in {100 * now:.0f} % instead of {100 * before:.0f} %")
        now = float(unread[:, index].mean())
        unlike_training = f"{100 * now:.0f} % of the rows have values that training never saw, or cannot be read"
        if now > expected[index] and share_moved(now, expected[index], counts, len(schema.columns)):
            words.append(unlike_training)
        if column.name in table:
            cell, numbers, old = table[column.name]
            unseen, new = int(unread[:, index].sum()) if cell.kind == "category" else None, cell.counts(numbers)
            line["index"], moved = _values_moved(old, new, len(schema.columns), unseen)
            if moved and new.sum() and (not unseen or _values_moved(old, new, len(schema.columns), 0)[1]):
                words.append(cell.shift(old, numbers, frame[cell.name]))
            words = words or [unlike_training] * moved
            if cell.name in frame:
                likeness[cell.far(frame[cell.name])] = 0.0
        lines.append(line | {"moved": bool(words), "words": "; ".join(words)})
    unlike = np.flatnonzero(likeness < profile.cutoff)
    unlike = unlike[np.argsort(likeness[unlike], kind="stable")]
    return Drift(pd.DataFrame(lines), unlike, len(frame), row_names(frame.index))


def _correlations(scores: np.ndarray) -> np.ndarray:
    known = pd.DataFrame(scores.astype(float)).fillna(0.0)
    correlations = 0.95 * (known.corr().fillna(0.0).to_numpy() if known.shape[1] else np.zeros((0, 0)))
    np.fill_diagonal(correlations, 1.0)  # the others are drawn towards 0
    return np.asarray(correlations)


def _unread(frame: pd.DataFrame, rows: Rows) -> np.ndarray:
    """Where a row has a value that counts as missing, since it cannot be read or training never saw it: [rows, columns]."""
    absent = [
        missing(frame[column.name]) if column.name in frame else np.ones(len(frame), bool)
        for column in rows.schema.columns
    ]
    return np.asarray(~np.stack(absent, 1) & ~rows.observed())


def _values_moved(old: np.ndarray, new: np.ndarray, columns: int, unseen: int | None) -> tuple[float, bool]:
    """The stability index of counts, and whether it is large and beyond chance. Of categories those that are expected in
    fewer than five rows are one, with so many `unseen` ones: training saw some of them by chance."""
    if unseen is not None and old.sum() and new.sum() + unseen:
        rare = (old + new) * min(old.sum(), new.sum() + unseen) < 5 * (old.sum() + new.sum() + unseen)
        old, new = (np.append(each[~rare], each[rare].sum() + more) for each, more in ((old, 0), (new, unseen)))
    both = old + new > 0
    if not new.sum() or not old.sum() or both.sum() < 2:
        return 0.0, False
    shares = [(each[both] + 0.5) / (each[both].sum() + 0.5 * both.sum()) for each in (new, old)]
    index = float(((shares[0] - shares[1]) * np.log(shares[0] / shares[1])).sum())
    total = (old + new)[both]
    expected = np.outer([new.sum(), old.sum()], total / total.sum())
    statistic = float((np.square(np.stack([new[both], old[both]]) - expected) / expected).sum())
    return index, index >= 0.1 and bool(chdtrc(int(both.sum()) - 1, statistic) < CHANCE / columns)
