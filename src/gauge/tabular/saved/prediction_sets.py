"""Prediction sets: the classes that a row may have, the right one among them as often as promised. No torch is needed.

set(row) = {class : 1 - p(class) <= q},  q = the ⌈(n + 1) · coverage⌉-th smallest of 1 - p(right class) over n rows held out

Split conformal prediction, with a q for every group of rows by their share of missing values. In each group the rows held
out have as many values missing as the rows of the group: their own, and further ones hidden at random. By class there is a q
for each class, from the rows held out of that class: sets then hold the rows of rare classes as often as all others.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from numbers import Real
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from pydantic import Field

from gauge.tabular.saved.files import MAX_CLASSES, stored

if TYPE_CHECKING:
    from gauge.tabular.table.rows import Rows

COVERAGE = 0.9  # unless another is asked for
MIN_SCORES = 400  # of a group: fewer rows are hidden several times


@dataclass(frozen=True)
class Group:
    """How many rows held out a group was calibrated on, their scores in rising order, as many for each row, and the number
    of the right class of each score."""

    rows: Annotated[int, Field(ge=1, le=10**12)]
    scores: Annotated[np.ndarray, stored(list[float], np.array, np.ndarray.tolist)]
    classes: Annotated[
        np.ndarray, stored(list[Annotated[int, Field(ge=0, lt=MAX_CLASSES)]], np.array, np.ndarray.tolist)
    ]

    def limit(self, coverage: float) -> float:
        """Return the largest score of a class in a set; infinite where too few rows were held out to leave any class out."""
        if not self.rows:
            return float("inf")
        rank = ceil((self.rows + 1) * coverage / self.rows * len(self.scores) - 1e-9)
        return float(self.scores[rank - 1]) if rank <= len(self.scores) else float("inf")

    def of_class(self, number: int) -> "Group":
        own = self.classes == number
        return Group(int(own.sum()) * self.rows // len(own), self.scores[own], self.classes[own])


@dataclass(frozen=True)
class PredictionSets:
    """What rows held out say of the probabilities of a classifier with so many columns: a group for each share of missing
    values, from none to all.

    >>> even = Group(99, np.arange(1, 100) / 100, np.zeros(99, int))
    >>> sets = PredictionSets(1, (even, even))
    >>> sets.contains(np.array([[0.85, 0.15], [0.6, 0.4]]), np.ones((2, 1), bool), coverage=0.8).tolist()
    [[True, False], [True, True]]
    """

    columns: int
    groups: Sequence[Group]
    decimals: ClassVar[int] = 6  # of a score, rounded up

    def __post_init__(self) -> None:
        if self.columns < 1 or len(self.groups) != number_of_groups(self.columns):
            raise ValueError(f"{len(self.groups)} groups of prediction sets do not belong to {self.columns} columns")
        for group in self.groups:
            known = np.isfinite(group.scores).all() and (np.diff(group.scores) >= 0).all()
            if not (known and 0 < group.rows <= len(group.scores)):
                raise ValueError("the scores of prediction sets do not rise, or are fewer than their rows")
            if len(group.classes) != len(group.scores):
                raise ValueError("the scores of prediction sets have more or fewer classes than scores")

    def contains(
        self, probabilities: np.ndarray, observed: np.ndarray, coverage: float = COVERAGE, *, by_class: bool = False
    ) -> np.ndarray:
        """Return which classes the set of each row has: [rows, classes]. `observed` says which columns each row has."""
        check_coverage(coverage)
        if by_class:
            classes = range(probabilities.shape[1])
            limits = np.stack([self._limits([each.of_class(own) for each in self.groups], coverage) for own in classes])
        else:
            limits = self._limits(self.groups, coverage)[None]
        group = group_numbers((~observed).sum(1), self.columns)
        return 1 - probabilities <= limits.T[group] + 10**-self.decimals

    @staticmethod
    def _limits(groups: Sequence[Group], coverage: float) -> np.ndarray:
        limits = np.array([group.limit(coverage) for group in groups])
        for number in reversed(range(len(limits) - 1)):  # rows with more missing values are less certain
            if np.isinf(limits[number]):
                limits[number] = limits[number + 1]
        return limits


def check_coverage(coverage: float) -> None:
    if isinstance(coverage, bool) or not isinstance(coverage, Real) or not 0 < coverage < 1:
        raise ValueError(f"coverage is {coverage!r}; give a share between 0 and 1, for example 0.9")


def group_numbers(missing: np.ndarray, columns: int) -> np.ndarray:
    """Return the group of rows with so many missing values: 0 for none, the last for all.

    >>> group_numbers(np.arange(5), 4).tolist(), group_numbers(np.array([0, 1, 9, 20, 21]), 21).tolist()
    ([0, 1, 2, 3, 4], [0, 1, 3, 5, 6])
    """
    some = number_of_groups(columns) - 2
    between = 1 + (missing - 1) * some // max(columns - 1, 1)
    return np.where(missing == 0, 0, np.where(missing == columns, some + 1, between))


def number_of_groups(columns: int) -> int:
    """Return up to five groups of rows with some values missing, and those of complete rows and of rows without a value."""
    return min(5, columns - 1) + 2


def calibrate(
    predict: "Callable[[Rows], np.ndarray]", rows: "Rows", labels: np.ndarray, *, seed: int
) -> PredictionSets:
    """Return the sets of a classifier, from rows that it has not learned from and the numbers of their classes."""
    draw = np.random.default_rng(seed)
    observed = rows.observed()
    columns, missing = observed.shape[1], (~observed).sum(1)
    every = group_numbers(np.arange(columns + 1), columns)
    groups: list[Group] = []
    for number in reversed(range(number_of_groups(columns))):
        counts = np.flatnonzero(every == number)
        usable = np.flatnonzero(missing <= counts.max())
        # groups of fewer rows take the limits of rows with more missing values
        if groups and len(usable) < 10:
            groups.append(groups[-1])
            continue
        chosen = draw.permutation(usable)[:1000]  # rows held out that a group is calibrated on
        copies = 1 if number == 0 or counts.min() == columns else min(8, ceil(MIN_SCORES / len(chosen)))
        index = np.tile(chosen, copies)
        hidden = rows.take(index).keep(_kept(observed[index], counts, draw))
        right = predict(hidden)[np.arange(len(index)), labels[index]]
        scores = np.ceil((1 - right) * 10**PredictionSets.decimals) / 10**PredictionSets.decimals
        order = np.argsort(scores, kind="stable")
        groups.append(Group(len(chosen), scores[order], labels[index][order]))
    return PredictionSets(columns, tuple(reversed(groups)))


def _kept(observed: np.ndarray, counts: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Return values to keep, so that every row has one of these `counts` missing; rows that have already stay as they
    are."""
    missing = (~observed).sum(1)
    wanted = np.where(missing >= counts.min(), missing, draw.choice(counts, len(observed)))
    order = np.where(observed, draw.random(observed.shape), -1.0).argsort(1).argsort(1)  # missing values come first
    return order >= wanted[:, None]
