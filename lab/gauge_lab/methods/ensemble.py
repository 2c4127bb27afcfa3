"""Ensemble: trained methods whose probabilities are averaged, several trainings of one method as a rule."""

import math
from collections.abc import Sequence

import torch
from torch import nn

from gauge.types import Method
from gauge.values import Batch, Prediction

__all__ = ["Ensemble"]


class Ensemble(Method):
    """A sample's prediction depends on the rest of its batch if that of a member does.

        p(x) = mean_j p_j(x)

    Nothing is learned: the members keep their weights.

    Lakshminarayanan et al. 2017.

    >>> from gauge.plus.late_fusion import LateFusion
    >>> from gauge.encoders.mlp import Mlp
    >>> voters = [LateFusion({"scan": Mlp((3,), 4)}, num_classes=2) for _ in range(3)]
    >>> Ensemble(voters).predict(Batch({"scan": torch.rand(5, 3)}, {"scan": torch.ones(5).bool()})).logits.shape
    torch.Size([5, 2])
    """

    def __init__(self, members: Sequence[Method]) -> None:
        super().__init__()
        if not members:
            raise ValueError("an ensemble has no members; give at least one trained method")
        self.members = nn.ModuleList(members).requires_grad_(False)
        self.looks_across_batch = any(member.looks_across_batch for member in members)

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        members = (member for member in self.members if isinstance(member, Method))
        logits = [member.predict(batch).logits.float().log_softmax(-1) for member in members]
        return Prediction(torch.stack(logits).logsumexp(0) - math.log(len(logits)))
