"""Paired comparisons of rows on the same samples and seeds."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.stats import ttest_rel

from gauge.experiments.results import Result, load_predictions
from gauge.training.settings import Settings

Seeds = dict[int, tuple[Result, Path]]
REFERENCES = ("gauge:v2", "dymo", "gauge:masked", "gauge")


class Paired(Settings):
    """One row minus another under one protocol, in points, seed by seed.

    `p_values` compare the predictions of each seed sample by sample (McNemar, DeLong); they do not cover the variation
    between trainings, and there are none if samples repeat under several subsets, as these are not independent.
    `p_over_seeds` is a paired t-test over seeds, None for fewer than three. `commit` lists the commits of all results.
    """

    benchmark: str
    row: str
    other: str
    protocol: str
    seeds: tuple[int, ...]
    differences: tuple[float, ...]
    p_values: tuple[float, ...]
    p_over_seeds: float | None
    commit: str

    @property
    def mean(self) -> float:
        return float(np.mean(self.differences))

    @property
    def deviation(self) -> float:
        return float(np.std(self.differences, ddof=1)) if len(self.differences) > 1 else 0.0


def paired(results: Sequence[tuple[Result, Path]], references: Sequence[str] = REFERENCES) -> list[Paired]:
    """Every row minus every reference row under each protocol, over the seeds that both have.

    A row without training of its own varies only with its backbone; for other seeds it counts with the backbone that they
    start from.
    """
    cells: dict[tuple[str, str], Seeds] = {}
    for result, path in results:
        cells.setdefault((str(result.row), result.protocol), {})[result.seed] = (result, path)
    pairs = [
        _pair(seeds, cells[other, protocol])
        for (row, protocol), seeds in cells.items()
        for other in references
        if other != row and (other, protocol) in cells
    ]
    return [pair for pair in pairs if pair is not None]


def _pair(row: Seeds, other: Seeds) -> Paired | None:
    row, other = _on_backbones(row, other), _on_backbones(other, row)
    seeds = sorted(row.keys() & other.keys())
    if not seeds:
        return None
    both = [(row[seed], other[seed]) for seed in seeds]
    (first, _), (second, _) = both[0]
    values = np.array([[100 * result.value for result, _ in pair] for pair in both])
    differences = values[:, 0] - values[:, 1]
    spread = len(seeds) > 2 and float(np.ptp(differences)) > 0
    return Paired(
        benchmark=first.benchmark,
        row=str(first.row),
        other=str(second.row),
        protocol=first.protocol,
        seeds=tuple(seeds),
        differences=tuple(round(float(value), 4) for value in differences),
        p_values=() if first.protocol.startswith("every") else tuple(_sample_test(*pair) for pair in both),
        commit=", ".join(sorted({result.commit for pair in both for result, _ in pair})),
        p_over_seeds=float(ttest_rel(values[:, 0], values[:, 1]).pvalue) if spread else None,
    )


def _on_backbones(row: Seeds, other: Seeds) -> Seeds:
    """The row, with the seeds of the other one as well if nothing is trained in it."""
    if any(result.config.get("epochs") != 0 for result, _ in row.values()):
        return row
    return {seed: row.get(seed) or row[seed % len(row)] for seed in {*row, *other}}


def _sample_test(row: tuple[Result, Path], other: tuple[Result, Path]) -> float:
    (second, labels), (first, _) = load_predictions(row[1]), load_predictions(other[1])
    return row[0].metric.paired(first, second, labels)[0]
