"""Regret: how far each row is behind the best one, on every benchmark and over all of them.

regret(row, benchmark) = mean over conditions of (the best row's mean score over seeds - that of the row)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gauge_lab.statistics import Difference, holm

Scores = Mapping[str, Mapping[str, Mapping[str, Mapping[int, float]]]]
"""Percent by benchmark, condition, row and seed."""
MARGIN = 1.0  # points within which two rows are level


@dataclass(frozen=True)
class Regret:
    """The regret of one row on each benchmark, and its mean and maximum over them."""

    benchmarks: Mapping[str, float]

    @property
    def mean(self) -> float:
        return sum(self.benchmarks.values()) / len(self.benchmarks)

    @property
    def worst(self) -> float:
        return max(self.benchmarks.values())

    def behind(self, other: "Regret") -> Difference:
        """How much more regret than another row it has, with benchmarks as the sample."""
        return Difference.from_values([value - other.benchmarks[name] for name, value in self.benchmarks.items()])


@dataclass(frozen=True)
class Level:
    """One row minus the best other row under one condition, in points, with its 95 % interval. `p_level` tests that they are
    level, `p_not_behind` that the row is not behind by the margin or more, `p_behind` that it is; each is corrected by Holm
    over benchmarks and conditions, and None for fewer than three seeds."""

    benchmark: str
    condition: str
    best: str
    difference: float
    interval: tuple[float, float] | None
    p_level: float | None
    p_not_behind: float | None
    p_behind: float | None


def regrets(scores: Scores) -> dict[str, Regret]:
    """The regrets of the rows that every condition has.

    >>> scores = {"sums": {"complete": {"joint": {0: 90.0, 1: 92.0}, "votes": {0: 60.0, 1: 58.0}}}}
    >>> regrets(scores)["votes"].worst
    32.0
    """
    cells = [cell for conditions in scores.values() for cell in conditions.values()]
    rows = [row for row in cells[0] if all(row in cell for cell in cells)]
    points = {name: _regret([*conditions.values()], rows) for name, conditions in scores.items()}
    return {row: Regret({name: own[row] for name, own in points.items()}) for row in rows}


def levels(scores: Scores, row: str, overlaps: Mapping[str, float]) -> list[Level]:
    """The row minus the best other one under every condition. `overlaps` are test rows / training rows of the benchmarks
    whose seeds divide the same rows (see `Difference`)."""
    compared = [
        _level(benchmark, condition, cell, row, overlaps.get(benchmark, 0.0))
        for benchmark, conditions in scores.items()
        for condition, cell in conditions.items()
    ]
    tested = [level for level in compared if level.p_level is not None]
    names = ("p_level", "p_not_behind", "p_behind")
    corrected = zip(*(holm([getattr(level, name) for level in tested]) for name in names), strict=True)
    return [
        level if level.p_level is None else replace(level, **dict(zip(names, next(corrected), strict=True)))
        for level in compared
    ]


def _level(benchmark: str, condition: str, cell: Mapping[str, Mapping[int, float]], row: str, overlap: float) -> Level:
    others = {other: np.mean([*seeds.values()]) for other, seeds in cell.items() if other != row}
    best = max(others, key=others.__getitem__)
    differences = [cell[row][seed] - cell[best][seed] for seed in sorted(cell[row].keys() & cell[best].keys())]
    gap = Difference.from_values(differences, overlap=overlap)
    tests = gap.equivalence(MARGIN), gap.not_behind(MARGIN), gap.behind(MARGIN)
    return Level(benchmark, condition, best, gap.mean, gap.interval, *tests)


def _regret(cells: Sequence[Mapping[str, Mapping[int, float]]], rows: Sequence[str]) -> dict[str, float]:
    """The distance of each row to the best one, averaged over conditions, for the seeds that all rows have."""
    seeds = sorted(set.intersection(*(set(cell[row]) for cell in cells for row in rows)))
    if not seeds:
        raise ValueError(f"the rows {', '.join(rows)} have no seed in common; run them with the same seeds")
    means = np.array([[np.mean([cell[row][seed] for seed in seeds]) for row in rows] for cell in cells])
    return dict(zip(rows, (means.max(1, keepdims=True) - means).mean(0).tolist(), strict=True))
