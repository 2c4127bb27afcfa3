"""LeafTables: the raw scores of a forest by looking up, for every column, which leaves its value leaves possible.

The thresholds of all trees cut a column into intervals. For each interval and tree a table holds one bit for each leaf that
the splits on this column do not rule out; the conjunction over all columns leaves one bit, that of the leaf which a row
reaches. A few operations on whole rows of such tables take the place of a walk through every tree.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from gauge.tabular.experts._forest import Forest, positions_within
from gauge.training.device import num_threads

if TYPE_CHECKING:
    import lightgbm

ZERO = 1e-35  # numbers within it of 0 are 0 to LightGBM
MASK = np.uint16


@dataclass(frozen=True, eq=False)
class Intervals:
    """A column that trees read: the upper ends of its intervals, and which leaves of each tree each of them leaves possible,
    that above all ends next, and last a missing value: [intervals, trees]."""

    column: int
    ends: np.ndarray
    possible: np.ndarray

    def leaves(self, cells: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Which leaves are possible for every row, in `out` if that is given."""
        values = cells[:, self.column]
        interval = np.searchsorted(self.ends, values)
        interval[np.isnan(values)] = len(self.ends) + 1
        return np.take(self.possible, interval, 0, out, "clip")  # all are valid; with "raise" it takes twice as long


@dataclass(frozen=True, eq=False)
class LeafTables:
    """The tables of all columns, and the values of the leaves of tree t from 16 · t on, in the order of `_position`. The
    trees of an output stand one after another, so that a sum over them is one over memory."""

    outputs: int
    columns: tuple[Intervals, ...]
    values: np.ndarray
    max_leaves: ClassVar[int] = 16  # of a tree: bits of a mask

    @classmethod
    def from_forest(cls, forest: Forest) -> Self | None:
        """None for a forest with so many leaves or columns that LightGBM is faster."""
        read, trees = np.unique(forest.feature), len(forest.leaves)
        # with more columns walking through the trees is faster
        if forest.leaves.max() > cls.max_leaves or len(read) > 32:
            return None
        kept_left, kept_right = _kept_leaves(forest)
        tree = np.repeat(np.arange(trees), forest.leaves - 1)
        by_output = np.arange(trees).reshape(-1, forest.outputs).T.reshape(-1)
        owner = np.repeat(np.arange(len(forest.feature)), forest.set_size)
        every = ((1 << forest.leaves.astype(np.int64)) - 1).astype(MASK)[:, None]
        columns, size = [], 0
        for column in read:
            splits = np.flatnonzero(forest.feature == column)
            own = np.flatnonzero(forest.feature[owner] == column)
            sets = np.searchsorted(splits, owner[own]), forest.categories[own]
            ends = _ends(forest, splits, sets[1].astype(np.float64))
            size += (len(ends) + 2) * trees * MASK().itemsize
            if size > 2**26:  # bytes of all tables
                return None
            left = _goes_left(forest, splits, sets, np.array([*ends, np.inf, np.nan]))
            masks = np.where(left, kept_left[splits, None], kept_right[splits, None])
            possible = np.repeat(every, len(ends) + 2, 1)
            read_by, first = np.unique(tree[splits], return_index=True)
            possible[read_by] &= np.bitwise_and.reduceat(masks, first)
            columns.append(Intervals(int(column), ends, np.ascontiguousarray(possible[by_output].T)))
        values = np.zeros((trees, cls.max_leaves))
        leaf = positions_within(forest.leaves)
        values[np.repeat(np.arange(trees), forest.leaves), _position(_bit(leaf))] = forest.value
        return cls(forest.outputs, tuple(columns), values[by_output].reshape(-1))

    def scores(self, cells: np.ndarray) -> np.ndarray:
        """The raw scores of rows: [rows, outputs]."""
        rows_at_once = 256  # whose masks stay in the cache
        parts = [self._scores(cells[start : start + rows_at_once]) for start in range(0, len(cells), rows_at_once)]
        return np.concatenate([np.zeros((0, self.outputs)), *parts])

    def _scores(self, cells: np.ndarray) -> np.ndarray:
        if not self.columns:  # no tree has a split
            possible = np.ones((len(cells), len(self.values) // self.max_leaves), MASK)
        else:
            possible = self.columns[0].leaves(cells)
            others = np.empty_like(possible)
            for column in self.columns[1:]:
                possible &= column.leaves(cells, others)
        index = _position(possible).astype(np.intp)
        index += np.arange(0, len(self.values), self.max_leaves)
        return np.take(self.values, index, mode="clip").reshape(len(cells), self.outputs, -1).sum(-1)


@dataclass(frozen=True, eq=False)
class ForestScores:
    """The raw scores of rows: from tables, or by LightGBM where it is faster, which is imported then."""

    forest: Forest

    @cached_property
    def tables(self) -> LeafTables | None:
        return LeafTables.from_forest(self.forest)

    @cached_property
    def booster(self) -> "lightgbm.Booster":
        return self.forest.booster()

    def __call__(self, cells: np.ndarray) -> np.ndarray:
        if self.tables is not None:
            return self.tables.scores(cells)
        scores = self.booster.predict(cells, raw_score=True, num_threads=num_threads())
        return np.asarray(scores).reshape(len(cells), self.forest.outputs)


def _bit(leaf: np.ndarray) -> np.ndarray:
    return MASK(1) << leaf.astype(MASK)


def _position(bit: np.ndarray) -> np.ndarray:
    """A number below 16 that is another for each of the 16 bits; cheaper than the number of the bit."""
    de_bruijn = np.uint16(0x09AF)  # times a power of two, its upper four bits are different for each of the 16
    return (bit * de_bruijn) >> MASK(12)


def _kept_leaves(forest: Forest) -> tuple[np.ndarray, np.ndarray]:
    """The leaves of its tree that each split leaves possible, for rows that go left and for those that go right."""
    splits = forest.leaves - 1
    own, first = positions_within(splits), np.repeat(np.cumsum(splits) - splits, splits)
    below = [np.where(child < 0, _bit(~child), MASK(0)) for child in (forest.left, forest.right)]
    for number in range(own.max(initial=-1), -1, -1):  # the children of a split come after it
        rows = np.flatnonzero(own == number)
        for side, child in zip(below, (forest.left, forest.right), strict=True):
            inner = rows[child[rows] >= 0]
            children = first[inner] + child[inner]
            side[inner] = below[0][children] | below[1][children]
    return ~below[1], ~below[0]


def _ends(forest: Forest, splits: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Numbers such that all values from one to the next, which included, go the same way at each of the splits; `codes` are
    the categories of their sets."""
    ends = [forest.threshold[splits[forest.set_size[splits] == 0]]]
    if (forest.missing[splits] == 1).any():
        ends.append(np.array([np.nextafter(-ZERO, -1), ZERO]))
    ends += [np.nextafter(codes + 1, 0), np.where(codes > 0, np.nextafter(codes, -1), -1.0)]
    return np.unique(np.concatenate(ends))


def _goes_left(
    forest: Forest, splits: np.ndarray, sets: tuple[np.ndarray, np.ndarray], values: np.ndarray
) -> np.ndarray:
    """Whether values go left at each of the splits, as `Forest` says: [splits, values]. `sets` has the position among the
    splits and the category of each one that goes left."""
    nothing = np.isnan(values)
    numbers = np.where(nothing, 0.0, values)
    left = numbers <= forest.threshold[splits, None]
    missing, default = forest.missing[splits, None], forest.default_left[splits, None]
    left = np.where(((missing == 2) & nothing) | ((missing == 1) & (np.abs(numbers) <= ZERO)), default, left)
    rows, categories = sets
    if len(rows):
        codes = np.trunc(np.where(nothing | (values <= -1), -1, values))
        known, column = np.unique(categories, return_inverse=True)
        member = np.zeros((len(splits), len(known) + 1), bool)  # the last for codes that no set has
        member[rows, column] = True
        index = np.searchsorted(known, codes).clip(max=len(known) - 1)
        categorical = np.flatnonzero(forest.set_size[splits])
        left[categorical] = member[categorical[:, None], np.where(known[index] == codes, index, len(known))]
    return left
