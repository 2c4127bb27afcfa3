"""Weighing: what each expert counts, and what all together score on rows whose labels had no part in that.

The weights minimise the log loss of rows held out. Rows that only some of the experts have not seen say how much these count
beside each other: without the others, the answer is the product of theirs. So that the score of all experts together is no
better than it will be for new rows, the rows that none has seen are divided into parts, and each part is answered with
weights learned from all other rows. An expert that takes long and hardly has a weight is never asked.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gauge.masks import UpTo
from gauge.model.combination import Combination
from gauge.tabular.ensemble import UNUSED, Ensemble, combination_inputs
from gauge.tabular.table.rows import Rows
from gauge.training.distributed import broadcast
from gauge.training.metrics import scores

SPREADS = 0.5, 0.3  # prior deviations of u, a factor of 1.6 for an expert, and of s, one of 1.3 for the odds of a class
HIDDEN_COPIES = 2  # of each row held out, with further values hidden
MIN_WEIGHT = 0.05  # share of the weights below which a slow expert is not asked
MAX_ROWS = 2000  # held out that weights are learned from
NO_PART = -1  # of rows that weights are learned from, and that are not scored


@dataclass(frozen=True)
class Unseen:
    """Rows, the numbers of their classes, what each counts and the part it belongs to, and experts that have not seen
    them."""

    ensemble: Ensemble
    rows: Rows
    labels: np.ndarray
    weights: np.ndarray
    part: np.ndarray

    def some(self, count: int) -> Self:
        """At most so many of the rows, evenly drawn."""
        if len(self.rows) <= count:
            return self
        index = np.linspace(0, len(self.rows) - 1, count).astype(int)
        arrays = {name: getattr(self, name)[index] for name in ("labels", "weights", "part")}
        return replace(self, rows=self.rows.take(index), **arrays)


@dataclass(frozen=True)
class Answers:
    """The log-probabilities of all experts, for the `rows` that are scored as they are, and after them for the same with
    further values hidden and for rows that weights are learned from only. For each of these answers which experts are
    `present`, the share of columns that are left, the right class, what it counts, whether it is `plain`, with no further
    value hidden, and the part that its row belongs to."""

    rows: int
    logits: Tensor
    present: Tensor
    share: Tensor
    labels: Tensor
    weights: Tensor
    plain: np.ndarray
    part: np.ndarray

    @classmethod
    def collect(cls, names: Sequence[str], unseen: Unseen, rate: float) -> Self:
        """With up to `rate` of the values hidden; a plain answer counts as much as all copies with hidden values."""
        rows, every = unseen.rows, np.arange(len(unseen.rows))
        asked = [(rows, every)]
        for number in range(HIDDEN_COPIES):
            hidden = rows.hide(UpTo(rate), number)
            left = np.flatnonzero(~hidden.encoded.empty)
            asked.append((hidden.take(left), left))
        own = torch.cat([torch.from_numpy(unseen.ensemble.answers(each)) for each, _ in asked])
        index = [names.index(name) for name in unseen.ensemble.experts]
        logits = own.new_zeros(len(own), len(names), own.shape[2])
        present = torch.zeros(logits.shape[:2], dtype=torch.bool)
        logits[:, index], present[:, index] = own, True
        row, plain = np.concatenate([left for _, left in asked]), np.arange(len(own)) < len(rows)
        return cls(
            rows=len(rows),
            logits=logits,
            present=present,
            share=torch.cat([combination_inputs(np.zeros((len(each), 1, 1)), each)[2] for each, _ in asked]),
            labels=torch.from_numpy(unseen.labels[row]),
            weights=torch.from_numpy(unseen.weights[row] * np.where(plain, HIDDEN_COPIES, 1)),
            plain=plain,
            part=unseen.part[row],
        )

    def and_learn_from(self, other: Self) -> Self:
        """These answers, and others that are not scored."""
        return replace(
            self,
            logits=torch.cat([self.logits, other.logits]),
            present=torch.cat([self.present, other.present]),
            share=torch.cat([self.share, other.share]),
            labels=torch.cat([self.labels, other.labels]),
            weights=torch.cat([self.weights, other.weights]),
            plain=np.concatenate([self.plain, other.plain]),
            part=np.concatenate([self.part, other.part]),
        )

    def learn(self, experts: Sequence[int], chosen: np.ndarray) -> Combination:
        """The weights of some of the experts that are best for the chosen answers."""
        index = np.flatnonzero(chosen & self.present[:, list(experts)].any(1).numpy())
        rows = int(self.plain[index].sum())
        combination = Combination(len(experts), 1, self.logits.shape[2]).double()
        if rows:
            logits, present, share = self._inputs(experts, index)
            combination.learn(
                *(logits, present, share, self.labels[index]),
                rows=rows,
                spreads=SPREADS,
                weights=self.weights[index],
            )
        return combination

    def cross_fitted(self, experts: Sequence[int]) -> np.ndarray:
        """The probabilities for the rows that are scored, each with weights that come from other parts."""
        probabilities = np.empty((self.rows, self.logits.shape[2]))
        for part in np.unique(self.part[: self.rows]):
            own = np.flatnonzero(self.part[: self.rows] == part)
            combination = self.learn(experts, self.part != part)
            probabilities[own] = combination(*self._inputs(experts, own)).softmax(1).numpy()
        return probabilities

    def _inputs(self, experts: Sequence[int], index: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
        present = self.present[index][:, list(experts)]
        return self.logits[index][:, list(experts)] / present.sum(1)[:, None, None], present, self.share[index]


def weigh(unseen: Unseen, others: Unseen | None = None, *, rate: float, slow: Sequence[str] = ()) -> pd.DataFrame:
    """Learn what each expert counts from rows held out, nothing for `slow` ones that hardly do, and return the leaderboard:
    what each scores alone and what it weighs, the least log loss first; `combined` is all. `others` are rows that some of
    the experts have seen and the given ones have not."""
    ensemble, names = unseen.ensemble, list(unseen.ensemble.experts)
    unseen = unseen.some(MAX_ROWS)
    rows, labels = unseen.rows, unseen.labels
    answers = Answers.collect(names, unseen, rate)
    if others is not None and len(rows) < MAX_ROWS:
        answers = answers.and_learn_from(Answers.collect(names, others.some(MAX_ROWS - len(rows)), rate))
    kept = list(range(len(names)))
    _set_weights(ensemble, answers, kept)
    for name in slow:
        fewer = [index for index in kept if names[index] != name]
        if fewer and broadcast(bool(ensemble.weights(rows)[names.index(name)] < MIN_WEIGHT)):
            kept = fewer
            _set_weights(ensemble, answers, kept)
    combined = answers.cross_fitted(kept)
    each = dict(zip(names, answers.logits[: len(rows)].exp().numpy().swapaxes(0, 1), strict=True))
    weights = [*ensemble.weights(rows).tolist(), 1.0]
    lines = [
        {"expert": name, **scores(probabilities, labels), "weight": weight}
        for (name, probabilities), weight in zip({**each, "combined": combined}.items(), weights, strict=True)
    ]
    return pd.DataFrame(lines).sort_values("log_loss", kind="stable", ignore_index=True)


def _set_weights(ensemble: Ensemble, answers: Answers, kept: Sequence[int]) -> None:
    """Learn the weights of these experts; the others have none."""
    learned, combination = answers.learn(kept, np.ones(len(answers.part), bool)), ensemble.combination
    assert combination.shift is not None
    assert learned.shift is not None
    combination.offset.fill_(UNUSED)
    combination.slope.fill_(0.0)
    combination.slope[kept] = learned.slope
    # logits are divided by the number of all experts
    combination.offset[kept] = learned.offset + log(len(ensemble.experts) / len(kept))
    combination.shift.copy_(learned.shift)


def unscored(ensemble: Ensemble) -> pd.DataFrame:
    """The leaderboard where no rows were held out: equal weights."""
    names = list(ensemble.experts)
    return pd.DataFrame(
        {"expert": names, "accuracy": np.nan, "log_loss": np.nan, "auc": np.nan, "weight": 1 / len(names)}
    )
