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
    """The regret of one row on each benchmark, and its mean and maximum over them with 95 % intervals over seeds."""

    benchmarks: Mapping[str, float]
    mean: float
    mean_interval: tuple[float, float]
    worst: float
    worst_interval: tuple[float, float]


@dataclass(frozen=True)
class Level:
    """One row minus the best other row under one condition, in points, with its 95 % interval. `p_level` tests that they are
    level, `p_not_behind` that the row is not behind by the margin or more; both are corrected by Holm over benchmarks and
    conditions, and None for fewer than three seeds."""

    benchmark: str
    condition: str
    best: str
    difference: float
    interval: tuple[float, float] | None
    p_level: float | None
    p_not_behind: float | None


def regrets(scores: Scores) -> dict[str, Regret]:
    """The regrets of the rows that every condition has. For the intervals seeds are drawn anew, the same for all rows of a
    benchmark, so that the best row may be another one in each draw.

    >>> scores = {"sums": {"complete": {"joint": {0: 90.0, 1: 92.0}, "votes": {0: 60.0, 1: 58.0}}}}
    >>> regrets(scores)["votes"].worst
    32.0
    """
    cells = [cell for conditions in scores.values() for cell in conditions.values()]
    rows = [row for row in cells[0] if all(row in cell for cell in cells)]
    arrays = [_array(list(conditions.values()), rows) for conditions in scores.values()]
    points = np.stack([_regret(array) for array in arrays])
    draw = np.random.default_rng(0)
    drawn = [
        [_regret(array[..., draw.integers(array.shape[-1], size=array.shape[-1])]) for array in arrays]
        for _ in range(2000)  # resamples
    ]
    low, high = np.quantile([np.mean(drawn, axis=1), np.max(drawn, axis=1)], (0.025, 0.975), axis=1)
    return {
        row: Regret(
            dict(zip(scores, points[:, at].tolist(), strict=True)),
            float(points[:, at].mean()),
            (float(low[0, at]), float(high[0, at])),
            float(points[:, at].max()),
            (float(low[1, at]), float(high[1, at])),
        )
        for at, row in enumerate(rows)
    }


def levels(scores: Scores, row: str, overlaps: Mapping[str, float]) -> list[Level]:
    """The row minus the best other one under every condition. `overlaps` are test rows / training rows of the benchmarks
    whose seeds divide the same rows (see `Difference`)."""
    compared = [
        _level(benchmark, condition, cell, row, overlaps.get(benchmark, 0.0))
        for benchmark, conditions in scores.items()
        for condition, cell in conditions.items()
    ]
    tested = [level for level in compared if level.p_level is not None]
    level_ps = iter(holm([level.p_level or 0.0 for level in tested]))
    behind_ps = iter(holm([level.p_not_behind or 0.0 for level in tested]))
    return [
        level if level.p_level is None else replace(level, p_level=next(level_ps), p_not_behind=next(behind_ps))
        for level in compared
    ]


def _level(benchmark: str, condition: str, cell: Mapping[str, Mapping[int, float]], row: str, overlap: float) -> Level:
    others = {other: np.mean([*seeds.values()]) for other, seeds in cell.items() if other != row}
    best = max(others, key=others.__getitem__)
    differences = [cell[row][seed] - cell[best][seed] for seed in sorted(cell[row].keys() & cell[best].keys())]
    gap = Difference.from_values(differences, overlap=overlap)
    return Level(benchmark, condition, best, gap.mean, gap.interval, gap.equivalence(MARGIN), gap.not_behind(MARGIN))


def _array(cells: Sequence[Mapping[str, Mapping[int, float]]], rows: Sequence[str]) -> np.ndarray:
    """[conditions, rows, seeds], for the seeds that all of them have."""
    seeds = sorted(set.intersection(*(set(cell[row]) for cell in cells for row in rows)))
    if not seeds:
        raise ValueError(f"the rows {', '.join(rows)} have no seed in common; run them with the same seeds")
    return np.array([[[cell[row][seed] for seed in seeds] for row in rows] for cell in cells])


def _regret(array: np.ndarray) -> np.ndarray:
    means = array.mean(-1)
    return (means.max(1, keepdims=True) - means).mean(0)
