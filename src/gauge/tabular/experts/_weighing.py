"""Weighing: what each expert counts, and what all together score on rows whose labels had no part in that.

The weights minimise the log loss of rows held out. So that the score of all experts together is no better than it will be
for new rows, these rows are divided into parts, and each part is predicted with weights learned from the others. An expert
that takes long and hardly has a weight is never asked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import ClassVar

import numpy as np
import pandas as pd

from gauge.masks import UpTo
from gauge.tabular.experts._ensemble import UNUSED, Ensemble, Weights
from gauge.tabular.table.rows import Rows
from gauge.training.distributed import broadcast
from gauge.training.metrics import SCORES, log_losses, scores


@dataclass(frozen=True)
class HeldOutLogits:
    """The log-probabilities of all experts for `rows` held out, first as they are, then with further values hidden; for each
    of these the share of columns that are left, the right class, the part of its row, and what the row counts."""

    rows: int
    logits: np.ndarray
    share: np.ndarray
    labels: np.ndarray
    part: np.ndarray
    counts: np.ndarray
    hidden_copies: ClassVar[int] = 2  # of each row held out, with further values hidden

    @classmethod
    def collect(
        cls, ensemble: Ensemble, rows: Rows, labels: np.ndarray, part: np.ndarray, counts: np.ndarray, rate: float
    ) -> "HeldOutLogits":
        """With up to `rate` of the values hidden."""
        every = np.arange(len(rows))
        asked = [(rows, every)]
        for number in range(cls.hidden_copies):
            hidden = rows.hide(UpTo(rate), number)
            left = np.flatnonzero(~hidden.encoded.empty)
            asked.append((hidden.take(left), left))
        logits = np.concatenate([ensemble.votes(each) for each, _ in asked])
        share = np.concatenate([each.observed().mean(1) for each, _ in asked])
        row = np.concatenate([left for _, left in asked])
        return cls(len(rows), logits, share, labels[row], part[row], counts[row])

    def learn(self, experts: Sequence[int], chosen: np.ndarray) -> Weights:
        """The weights of some of the experts that are best for the chosen rows. Rows as they are count as much as all
        copies with hidden values."""
        plain = np.flatnonzero(chosen[: self.rows])
        if not len(plain):
            return Weights.equal(len(experts))
        index = np.concatenate([*[plain] * (self.hidden_copies - 1), np.flatnonzero(chosen)])
        votes, own = self.logits[index][:, list(experts)], self.counts[plain]
        rows = own.sum() ** 2 / np.square(own).sum()  # of equal weight, which would say as much (Kish 1965)
        return Weights.learn(votes, self.share[index], self.labels[index], self.counts[index], rows)

    def cross_fitted(self, experts: Sequence[int]) -> np.ndarray:
        """The probabilities for rows as they are and then their copies, each with weights that come from the other parts."""
        probabilities = np.empty((len(self.logits), self.logits.shape[2]))
        for part in np.unique(self.part):
            own = np.flatnonzero(self.part == part)
            weights = self.learn(experts, self.part != part)
            probabilities[own] = weights.combine(self.logits[own][:, list(experts)], self.share[own])
        return probabilities


def weigh(
    ensemble: Ensemble,
    rows: Rows,
    labels: np.ndarray,
    part: np.ndarray,
    counts: np.ndarray,
    *,
    rate: float,
    slow: Sequence[str] = (),
) -> pd.DataFrame:
    """Learn the weights of experts from rows held out, each of which `counts`, nothing for `slow` ones without which the log
    loss of these rows is no larger, and return the leaderboard: what each scores alone, by rows that count the same, and
    what it weighs, the least log loss first; `combined` is all."""
    max_rows = 2000  # held out that weights are learned from
    if len(rows) > max_rows:
        chosen = np.linspace(0, len(rows) - 1, max_rows).astype(int)
        rows, labels, part, counts = rows.take(chosen), labels[chosen], part[chosen], counts[chosen]
    names = list(ensemble.experts)
    held_out = HeldOutLogits.collect(ensemble, rows, labels, part, counts, rate)
    kept = list(range(len(names)))
    combined = held_out.cross_fitted(kept)
    for name in slow:
        if others := [index for index in kept if names[index] != name]:
            without = held_out.cross_fitted(others)
            both = (log_losses(each, held_out.labels) for each in (without, combined))
            losses = [np.average(each, weights=held_out.counts) for each in both]
            if broadcast(bool(losses[0] <= losses[1])):
                kept, combined = others, without
    _set_weights(ensemble, held_out, kept)
    each = dict(zip(names, np.exp(held_out.logits[: len(rows)]).swapaxes(0, 1), strict=True))
    weights = [*ensemble.weights(rows).tolist(), 1.0]
    lines = [
        {"expert": name, **scores(probabilities, labels), "weight": weight}
        for (name, probabilities), weight in zip(
            {**each, "combined": combined[: len(rows)]}.items(), weights, strict=True
        )
    ]
    return pd.DataFrame(lines).sort_values("log_loss", kind="stable", ignore_index=True)


def _set_weights(ensemble: Ensemble, held_out: HeldOutLogits, kept: Sequence[int]) -> None:
    """Learn the weights of these experts; the others have none."""
    learned, combination = held_out.learn(kept, np.ones(len(held_out.part), bool)), ensemble.combination
    combination.offset.fill(UNUSED)
    combination.slope.fill(0.0)
    combination.slope[kept] = learned.slope
    # logits are divided by the number of all experts
    combination.offset[kept] = learned.offset + log(len(ensemble.experts) / len(kept))


def unscored(ensemble: Ensemble) -> pd.DataFrame:
    """The leaderboard where no rows were held out: equal weights."""
    names = list(ensemble.experts)
    return pd.DataFrame({"expert": names, **dict.fromkeys(SCORES, np.nan), "weight": 1 / len(names)})
