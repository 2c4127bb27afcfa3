"""Splits: which rows belong together, as those of one patient do, and which are later, for every division of the rows."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gauge.tabular.table import inputs
from gauge.tabular.table.numbers import Writing

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Splits:
    """The number of each row's group, and its time, NaN where it is missing; None where that was not given: every row may
    then be held out."""

    groups: np.ndarray | None = None
    times: np.ndarray | None = None

    @classmethod
    def from_table(cls, rows: Any, y: Any, groups: Any, time: Any, sample_weight: Any) -> "Splits":
        """Those of the rows that have a label and a weight above zero, from columns of a table or a value for each row."""
        if groups is None and time is None:
            return cls()
        if isinstance(rows, str | Path):
            raise ValueError("groups and time need all rows in memory; read the table first, or fit without them")
        frame = inputs.as_pandas(rows) if inputs.is_frame(rows) else pd.DataFrame(index=range(len(rows)))
        numbers = inputs.group_numbers(frame, groups)
        if numbers is not None and len(np.unique(numbers)) < 2:
            raise ValueError("all rows belong to one group, and none could be held out; give groups of fewer rows")
        weights, labels = inputs.check_weights(sample_weight, len(frame)), inputs.labels_of(rows, y, len(frame))
        counted = inputs.has_label(labels) & (weights > 0)
        return cls(numbers, None if time is None else _times(frame, time)).take(np.flatnonzero(counted))

    def take(self, index: np.ndarray) -> "Splits":
        return Splits(*(None if each is None else each[index] for each in (self.groups, self.times)))

    def folds(self, labels: np.ndarray, count: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Rows to learn from and rows held out: the latest ones in a single fold, or else folds of rows, or of whole
        groups, with about the same shares of all classes. The only row of a class is never held out."""
        alone = np.bincount(labels)[labels] == 1
        if self.times is not None:
            return self._latest(alone, 1 / count)
        number = fold_numbers(labels, count, seed, self.groups)
        number[alone] = -1
        folds = [(np.flatnonzero(number != fold), np.flatnonzero(number == fold)) for fold in range(count)]
        return [(train, held_out) for train, held_out in folds if len(held_out) and len(train)]

    def _latest(self, alone: np.ndarray, share: float) -> list[tuple[np.ndarray, np.ndarray]]:
        assert self.times is not None
        known = np.flatnonzero(~np.isnan(self.times))
        if not len(known):
            return []
        order = known[np.argsort(self.times[known], kind="stable")]
        first = self.times[order[-min(len(order), max(10, round(share * len(self.times))))]]
        late = (self.times >= first) & ~alone
        early = ~late
        if self.groups is not None:  # a patient who comes back is no test of patients who are new
            early &= ~np.isin(self.groups, self.groups[late]) | alone
        if not early.any() or not late.any():
            raise ValueError(
                "the latest rows are all rows, or share their groups with all others; validate without time"
            )
        return [(np.flatnonzero(early), np.flatnonzero(late))]


def fold_numbers(labels: np.ndarray, count: int, seed: int, groups: np.ndarray | None = None) -> np.ndarray:
    """The fold of each row, from 0 to `count` - 1, with about the same shares of all classes; rows of a group share one."""
    if groups is not None:
        return _grouped(groups, labels, min(count, len(np.unique(groups))), seed)
    order = np.random.default_rng(seed).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    number = np.empty(len(labels), int)
    number[order] = np.arange(len(labels)) % count
    return number


def _grouped(groups: np.ndarray, labels: np.ndarray, count: int, seed: int) -> np.ndarray:
    """The fold of each row: whole groups, the largest first, each to the fold whose counts of classes then are most even."""
    _, group = np.unique(groups, return_inverse=True)
    counts = np.zeros((group.max() + 1, labels.max() + 1))
    np.add.at(counts, (group, labels), 1)
    share = counts / np.maximum(counts.sum(0), 1)  # of each class, so that rare ones count as much
    order = np.random.default_rng(seed).permutation(len(counts))
    order = order[np.argsort(-counts[order].max(1), kind="stable")]
    fold, filled = np.zeros(len(counts), int), np.zeros((count, share.shape[1]))
    rows = np.zeros(count)
    for each in order:
        uneven = np.square(filled + share[each]).sum(1) - np.square(filled).sum(1)
        chosen = min(range(count), key=lambda other: (round(uneven[other], 12), rows[other]))
        fold[each] = chosen
        filled[chosen] += share[each]
        rows[chosen] += counts[each].sum()
    return fold[group]


def _times(frame: pd.DataFrame, time: Any) -> np.ndarray:
    """The time of each row as a number: dates in days, numbers as they are."""
    values = inputs.values_by_row(frame, time, "time")
    known = values[values.notna()]
    writing = Writing.from_values(known) if len(known) else None
    if writing is None:
        example = f" such as {known.iloc[0]!r}" if len(known) else ""
        raise ValueError(f"the times{example} are neither dates nor numbers; give dates like 2024-12-31, or numbers")
    times = np.full(len(values), np.nan)
    times[values.notna().to_numpy()] = writing.read(known)
    if np.isnan(times).any():
        logger.warning(
            "%d rows have no time that can be read; they are learned from, never held out", np.isnan(times).sum()
        )
    return times
