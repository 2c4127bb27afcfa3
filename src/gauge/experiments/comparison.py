"""Methods side by side on the same samples and seeds: paired differences, and whether chance would explain them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict
from scipy.stats import ttest_rel

from gauge.experiments.results import Result, load_predictions

Seeds = dict[int, tuple[Result, Path]]
REFERENCES = ("gauge:v2", "dymo", "gauge:masked", "gauge")


class Paired(BaseModel):
    """One row minus another under one protocol, in points, seed by seed.

    `p_values` test each seed's predictions sample by sample (McNemar, DeLong); they know nothing of the luck of training,
    and there are none where every sample was seen under several subsets: such rows are not independent.
    `p_over_seeds` is a paired t-test of the seeds' values; it is None with fewer than three seeds. `commit` is the one that
    the compared results came from, all of them where they differ.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

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
    """Every row minus every reference row under a protocol, over the seeds that both have.

    A row in which nothing is trained has no seeds of its own beyond the backbones it stands on; it gives the result of the
    backbone that the other row's seed starts from.
    """
    cells: dict[tuple[str, str], Seeds] = {}
    for result, path in results:
        cells.setdefault((str(result.row), result.protocol), {})[result.seed] = (result, path)
    pairs = []
    for (row, protocol), ours in cells.items():
        for other in references:
            theirs = cells.get((other, protocol))
            if other != row and theirs:
                pairs.append(_pair(row, other, protocol, ours, theirs))
    return [pair for pair in pairs if pair is not None]


def _pair(
    row: str,
    other: str,
    protocol: str,
    ours: Seeds,
    theirs: Seeds,
) -> Paired | None:
    ours, theirs = _on_backbones(ours, theirs), _on_backbones(theirs, ours)
    seeds = sorted(set(ours) & set(theirs))
    both = [(ours[seed], theirs[seed]) for seed in seeds]
    if not both:
        return None
    values = np.array([[100 * mine[0].value, 100 * their[0].value] for mine, their in both])
    differences = values[:, 0] - values[:, 1]
    spread = len(seeds) > 2 and float(np.ptp(differences)) > 0
    return Paired(
        benchmark=both[0][0][0].benchmark,
        row=row,
        other=other,
        protocol=protocol,
        seeds=tuple(seeds),
        differences=tuple(round(float(value), 4) for value in differences),
        p_values=() if protocol.startswith("every") else tuple(_sample_test(mine, their) for mine, their in both),
        commit=", ".join(sorted({result.commit for pair in both for result, _ in pair})),
        p_over_seeds=float(ttest_rel(values[:, 0], values[:, 1]).pvalue) if spread else None,
    )


def _on_backbones(row: Seeds, other: Seeds) -> Seeds:
    """The row with the other one's seeds as well, if it is one in which nothing is trained."""
    if any(result.config.get("epochs") != 0 for result, _ in row.values()):
        return row
    return {seed: row.get(seed) or row[seed % len(row)] for seed in {*row, *other}}


def _sample_test(mine: tuple[Result, Path], their: tuple[Result, Path]) -> float:
    ours, labels = load_predictions(mine[1])
    theirs, _ = load_predictions(their[1])
    return mine[0].metric.paired(theirs, ours, labels)[0]
