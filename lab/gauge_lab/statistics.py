"""Tests of a mean difference over seeds: clustered where seeds share a backbone, corrected where they divide the same rows;
and of mean ranks over benchmarks."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
from scipy.stats import permutation_test, rankdata, studentized_range
from scipy.stats import t as student

LEVEL = 0.05
MIN_CLUSTERS = 3  # that are tested


@dataclass(frozen=True)
class Difference:
    """A mean difference, in the unit of the values, with its 95 % interval and the p value of a t test. The test counts
    clusters: their means are independent, single seeds of a cluster are not. `detectable` is the true difference that the
    test would find in four of five repetitions. All three are None for fewer than three clusters or equal values."""

    mean: float
    deviation: float
    clusters: int
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    detectable: float | None = None

    @staticmethod
    def from_values(
        values: Sequence[float], clusters: Sequence[Hashable] | None = None, *, overlap: float = 0.0
    ) -> "Difference":
        """`overlap` is test rows / training rows where the values come from divisions of the same rows, which share training
        rows: the corrected resampled t test (Nadeau and Bengio 2003).

        >>> Difference.from_values([1.0, 2.0, 3.0, 5.0], clusters=["a", "b", "c", "c"]).mean
        2.3333333333333335
        """
        names = list(range(len(values)) if clusters is None else clusters)
        means = np.array(
            [np.mean([v for v, name in zip(values, names, strict=True) if name == n]) for n in dict.fromkeys(names)]
        )
        mean, count = float(means.mean()), len(means)
        deviation = float(means.std(ddof=1)) if count > 1 else 0.0
        # shares that differ by less are equal but for rounding
        if count < MIN_CLUSTERS or np.ptp(means) < 1e-12:
            return Difference(mean, deviation, count)
        error = deviation * (1 / count + overlap) ** 0.5
        half = _quantile(1 - LEVEL / 2, count - 1) * error
        p_value = float(2 * student.sf(abs(mean) / error, count - 1))
        detectable = half + _quantile(0.8, count - 1) * error
        return Difference(mean, deviation, count, (mean - half, mean + half), p_value, detectable)

    def minus_estimate(self, estimate: float, error: float) -> "Difference":
        """This difference minus a number with a standard error of its own, such as a published one, by Welch's t test, and
        never more certain than minus an exact number: for few clusters Welch's degrees of freedom can make it so.

        >>> ours = Difference.from_values([1.0, 2.0, 3.0])
        >>> [round(ours.minus_estimate(4.0, error).p_value, 2) for error in (0.0, 0.5, 2.0)]
        [0.07, 0.07, 0.34]
        """
        gap = self.mean - estimate
        if self.interval is None:
            return Difference(gap, self.deviation, self.clusters)
        half = (self.interval[1] - self.interval[0]) / 2
        own = half / _quantile(1 - LEVEL / 2, self.clusters - 1)
        total = float(np.hypot(own, error))
        freedom = (self.clusters - 1) * (total / own) ** 4
        half = max(half, float(student.ppf(1 - LEVEL / 2, freedom)) * total)
        p_values = (2 * student.sf(abs(gap) / own, self.clusters - 1), 2 * student.sf(abs(gap) / total, freedom))
        return Difference(gap, self.deviation, self.clusters, (gap - half, gap + half), float(max(p_values)))

    def equivalence(self, margin: float) -> float | None:
        """The p value of a true difference of `margin` or more in either direction, by two one-sided t tests (Schuirmann
        1987): below 0.05 the rows are level within the margin. None for fewer than three clusters; equal values are certain.

        >>> [round(Difference.from_values([0.1, 0.2, -0.1]).equivalence(margin), 3) for margin in (0.2, 1.0)]
        [0.135, 0.004]
        """
        return self._beyond(margin, margin - abs(self.mean))

    def not_behind(self, margin: float) -> float | None:
        """The p value of a true difference of minus `margin` or less, by a one-sided t test."""
        return self._beyond(margin, margin + self.mean)

    def behind(self, margin: float) -> float | None:
        """The p value of a true difference of minus `margin` or more, by a one-sided t test."""
        return self._beyond(margin, -margin - self.mean)

    def _beyond(self, margin: float, distance: float) -> float | None:
        if margin <= 0:
            raise ValueError(f"the margin is {margin}; give the difference that would matter, above 0")
        if self.interval is None:
            return None if self.clusters < MIN_CLUSTERS else float(distance <= 0)
        error = (self.interval[1] - self.interval[0]) / 2 / _quantile(1 - LEVEL / 2, self.clusters - 1)
        return float(student.sf(distance / error, self.clusters - 1))


@cache
def _quantile(share: float, degrees: int) -> float:
    """Of Student's t distribution; scipy takes a millisecond for each."""
    return float(student.ppf(share, degrees))


def accuracy_error(percent: float, samples: int) -> float:
    """The binomial standard error of an accuracy, both in percent.

    >>> round(accuracy_error(97.0, 7000), 2)
    0.2
    """
    return float(np.sqrt(percent * (100 - percent) / samples))


def connected(parts: Sequence[Iterable[str]]) -> tuple[int, ...]:
    """The number of each item's cluster: items that share a part, directly or through others, are in one.

    >>> connected([{"a"}, {"b"}, {"a", "c"}, set()])
    (0, 1, 0, 3)
    """
    numbers = list(range(len(parts)))
    for index, own in enumerate(map(set, parts)):
        for before in range(index):
            if own & set(parts[before]):
                joined = {numbers[index], numbers[before]}
                numbers = [min(joined) if number in joined else number for number in numbers]
    return tuple(numbers)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction: the smallest p value times their number, the next times one less, never falling, at most 1.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values)
    steps = np.maximum.accumulate([p_values[index] * (len(p_values) - rank) for rank, index in enumerate(order)])
    return [float(p) for p in np.minimum(steps, 1.0)[np.argsort(order)]]


@dataclass(frozen=True)
class MeanRanks:
    """The ranks of rows over benchmarks, 1 for the best. Conditions of one benchmark share models and samples, so they are
    not independent: ranks are averaged over conditions first (`conditions` are the means of that over benchmarks), the
    averages are ranked again within each benchmark, and `ranks` are the means of these. `p_value` is Friedman's test of no
    difference, by permutation within benchmarks; two rows whose ranks differ by more than `critical` differ beyond chance
    (Nemenyi)."""

    ranks: Mapping[str, float]
    conditions: Mapping[str, float]
    benchmarks: tuple[str, ...]
    p_value: float | None
    critical: float

    @staticmethod
    def from_scores(scores: Mapping[str, Sequence[Mapping[str, float]]]) -> "MeanRanks":
        """`scores` has the conditions of each benchmark, and of each condition the score of every row: higher is better.

        >>> leaves, faces = [{"a": 0.9, "b": 0.8}, {"a": 0.7, "b": 0.7}], [{"a": 0.6, "b": 0.5}]
        >>> dict(MeanRanks.from_scores({"leaves": leaves, "faces": faces}).ranks)
        {'a': 1.0, 'b': 2.0}
        """
        rows = list(next(iter(scores.values()))[0])
        decimals = 9  # scores that differ by less are tied
        conditions = np.array(
            [
                np.mean([rankdata([-round(cell[row], decimals) for row in rows]) for cell in cells], axis=0)
                for cells in scores.values()
            ]
        )
        ranks = rankdata(conditions.round(decimals), axis=1)
        critical = float(studentized_range.ppf(1 - LEVEL, len(rows), np.inf))
        critical *= (len(rows) * (len(rows) + 1) / (12 * len(scores))) ** 0.5
        return MeanRanks(
            dict(zip(rows, ranks.mean(axis=0).tolist(), strict=True)),
            dict(zip(rows, conditions.mean(axis=0).tolist(), strict=True)),
            tuple(scores),
            _friedman(ranks),
            critical,
        )

    @property
    def decided(self) -> list[tuple[str, str]]:
        """The pairs of rows that differ beyond chance, the better one first."""
        ordered = sorted(self.ranks, key=lambda row: self.ranks[row])
        return [(row, other) for row, other in combinations(ordered, 2) if self.differ(row, other)]

    def differ(self, row: str, other: str) -> bool:
        return abs(self.ranks[row] - self.ranks[other]) > self.critical


def _friedman(ranks: np.ndarray) -> float | None:
    """Friedman's test by permutation of the ranks of each benchmark, since its chi-squared form needs many benchmarks: exact
    up to ten thousand permutations, else from as many random ones. None for a single benchmark, or if all rows are tied."""
    if len(ranks) == 1 or (ranks == ranks[:, :1]).all():
        return None

    def statistic(*rows: np.ndarray, axis: int) -> np.ndarray:
        """Rises with Friedman's chi-squared, whose other terms no permutation changes."""
        return np.asarray(sum(row.sum(axis=axis) ** 2 for row in rows))

    draw = np.random.default_rng(0)
    permuted = permutation_test(
        list(ranks.T), statistic, permutation_type="samples", alternative="greater", vectorized=True, random_state=draw
    )
    return float(permuted.pvalue)
