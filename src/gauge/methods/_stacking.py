"""Stacking: trained methods that answer together, weighed by what is observed.

logits = Σ_j w_j(observed) · log p_j / J over the J members that are used, w from validation data

Which members are used is decided on validation data too: all sets of members are compared by the loss of weights learned
from one half of the samples on the other half. A member that does not lower it is left out.
"""

import logging
from collections.abc import Mapping, Sequence
from itertools import combinations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gauge.data import Dataset
from gauge.methods._answers import Answers, head_answers, masked_samples, validation_rows
from gauge.model.combination import Combination
from gauge.types import Method
from gauge.values import Batch, Prediction

logger = logging.getLogger(__name__)

SPREAD = 0.5  # prior deviation of u: a factor of 1.6 for a member


class Stacking(Method):
    """Members by name. All are trained already and stay as they are."""

    def __init__(self, members: Mapping[str, Method], modalities: int, num_classes: int) -> None:
        super().__init__()
        self.members = nn.ModuleDict(members).requires_grad_(False)
        self.used = nn.Buffer(torch.ones(len(members), dtype=torch.bool))
        self.combination = Combination(len(members), modalities, num_classes)

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        return Prediction(self.combination(*self.answers(batch.check())))

    def answers(self, batch: Batch) -> Answers:
        """The answer of every member, divided by the number of those that are used."""
        return _of(self.used, *self._answers_and_share(batch))

    @torch.no_grad()
    def prepare(self, train: Dataset, val: Dataset | None = None) -> None:
        """The members that are used and their weights, from validation samples under masks of every kind."""
        if val is None:
            return
        self.to(val.device)
        rows = validation_rows(train, val)
        parts = []
        for batch in masked_samples(val, rows):
            parts.append((*self._answers_and_share(batch), batch.labels, batch.index))
        logits, share, labels, index = map(torch.cat, zip(*parts, strict=True))
        sets = [self._set(chosen) for chosen in _sets(len(self.members))]
        losses = [self._held_out_loss(used, logits, share, labels, index) for used in sets]
        best = min(range(len(sets)), key=losses.__getitem__)
        self.used.copy_(sets[best])
        self._report(losses[best], losses[0])
        with torch.enable_grad():
            _learn(self.combination, _of(self.used, logits, share), labels, len(rows))

    def _answers_and_share(self, batch: Batch) -> tuple[Float[Tensor, "b j k"], Float[Tensor, "b m"]]:
        """The log-probabilities of all members, and the observed share of each modality."""
        answers = torch.stack([member.predict(batch).logits.log_softmax(-1) for member in self._members()], 1)
        logits, _, share, _ = head_answers(answers, batch)
        return logits, share

    def _members(self) -> list[Method]:
        return [member for member in self.members.values() if isinstance(member, Method)]

    def _set(self, chosen: Sequence[int]) -> Bool[Tensor, "j"]:
        used = torch.zeros_like(self.used)
        used[list(chosen)] = True
        return used

    def _held_out_loss(
        self,
        used: Bool[Tensor, "j"],
        logits: Float[Tensor, "n j k"],
        share: Float[Tensor, "n m"],
        labels: Int[Tensor, "n"],
        index: Int[Tensor, "n"],
    ) -> float:
        """The mean loss over two halves of the samples, each with the weights that are best on the other."""
        losses = []
        for half in (0, 1):
            seen, held_out = index % 2 != half, index % 2 == half
            if not (seen.any() and held_out.any()):
                return 0.0
            weights = Combination(len(used), share.shape[1], logits.shape[-1]).to(logits.device)
            with torch.enable_grad():
                _learn(weights, _of(used, logits[seen], share[seen]), labels[seen], len(index[seen].unique()))
            losses.append(F.cross_entropy(weights(*_of(used, logits[held_out], share[held_out])), labels[held_out]))
        return float(torch.stack(losses).mean())

    def _report(self, loss: float, alone: float) -> None:
        names, first = list(self.members), next(iter(self.members))
        used = [name for name, flag in zip(names, self.used.tolist(), strict=True) if flag]
        left = [name for name in names if name not in used]
        logger.info(
            "answers: %s (validation loss %.4f, %s alone %.4f)%s",
            *(", ".join(used), loss, first, alone, f"; not used: {', '.join(left)}" if left else ""),
        )


def _of(used: Bool[Tensor, "j"], logits: Float[Tensor, "n j k"], share: Float[Tensor, "n m"]) -> Answers:
    return Answers(logits / used.sum(), used.expand(len(logits), -1), share)


def _learn(combination: Combination, answers: Answers, labels: Int[Tensor, "n"], rows: int) -> None:
    combination.learn(answers.logits, answers.present, answers.share, labels, rows=rows, spread=SPREAD)


def _sets(count: int) -> list[tuple[int, ...]]:
    """All sets of members, small ones first.

    >>> _sets(2)
    [(0,), (1,), (0, 1)]
    """
    return [chosen for size in range(1, count + 1) for chosen in combinations(range(count), size)]
