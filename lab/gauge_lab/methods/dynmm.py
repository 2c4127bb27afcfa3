"""DynMM: a gate chooses for each sample one of the single-modality classifiers or the one that reads all modalities."""

from typing import Self

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from gauge.nn.losses import cross_entropy
from gauge.paper.units import Frozen
from gauge.plus.late_fusion import LateFusion
from gauge.types import Method, SupportsComplete
from gauge.values import Batch, Prediction
from gauge_lab.methods.concat import Concat

__all__ = ["DynMM"]


class DynMM(Method):
    """A hard choice between M + 1 trained branches, made from the vectors of the single-modality ones.

        g = softmax(gate([x_1; ...; x_M])), made one-hot with a straight-through gradient; logits = Σ_i g_i · branch_i;
        L = CE + 0.1 · mean g_multimodal.

    Xue and Marculescu 2023.

    NOTE[PAPER] dynmm-frozen: published branches get no gradient but stay in training mode; ours stay in eval mode.
    """

    def __init__(self, unimodal: LateFusion, concat: Concat, imputer: SupportsComplete) -> None:
        super().__init__()
        self.unimodal = unimodal.eval().requires_grad_(False)
        self.concat = concat.eval().requires_grad_(False)
        self.imputer = Frozen(imputer)
        widths = tuple(unimodal.widths.values())
        hidden = max(widths)
        self.gate = nn.Sequential(nn.Linear(sum(widths), hidden), nn.ReLU(), nn.Linear(hidden, len(widths) + 1))

    def train(self, mode: bool = True) -> Self:
        """The branches stay in eval mode."""
        super().train(mode)
        self.unimodal.eval()
        self.concat.eval()
        return self

    def forward(self, batch: Batch) -> tuple[Float[Tensor, "b k"], Float[Tensor, "b branches"]]:
        """The logits of the chosen branches, and the choice: one-hot, with the gradient of a softmax."""
        with torch.no_grad():
            outputs = self.unimodal.read(batch)
            branches = torch.cat([outputs.logits, self.concat(batch)[:, None]], 1)
        scores = self.gate(torch.cat(outputs.vectors, 1))
        possible = F.pad(outputs.available, (0, 1), value=True)
        soft = scores.masked_fill(~possible, -torch.inf).softmax(1)
        hard = torch.zeros_like(soft).scatter(1, soft.argmax(1, keepdim=True), 1.0)
        choice = hard + (soft - soft.detach())
        return (choice[..., None] * branches).sum(1), choice

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        logits, choice = self(batch)
        # the cost of the branch that reads everything, as published
        return {"task": cross_entropy(batch, logits), "cost": 0.1 * choice[:, -1].mean()}

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        return Prediction(self(self.imputer.complete(batch.check()).as_observed())[0])
