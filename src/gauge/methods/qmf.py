"""QMF: each modality's classifier speaks with the confidence its energy gives it, ranked like its past losses.

conf_m = logsumexp(l_m) / 10, fused = Σ_m sg(conf_m) · l_m; L = CE(fused) + Σ_m CE(l_m) + Σ_m L_rank,m. With r the losses a
sample has gathered so far, from 0 to 1 over the split, and j the sample after i in the batch,
L_rank = mean max(0, sign(r_i - r_j) · (conf_i - conf_j) - |r_i - r_j|).
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gauge.methods.late_fusion import LateFusion, Opinions, as_observed, masked_mean
from gauge.model.frozen import Frozen
from gauge.types import Batch, Method, Prediction, SupportsComplete

__all__ = ["QMF"]

TEMPERATURE = 10.0  # as published
RANGE_FLOOR = 1e-12  # of a history in which all samples are equal


class QMF(Method):
    """Late fusion by confidence. `rows` is the size of the training split, whose losses `history` adds up.

    NOTE[PAPER] qmf-accumulation: the published code takes an optimizer step every 24 batches; ours after every batch.

    NOTE[PAPER] qmf-slack: the ranking loss that QMF starts from adds |r_i - r_j| as a margin. QMF's published code, and
    DyMo's, subtract it, which makes it slack; so do we.
    """

    def __init__(self, classifiers: LateFusion, imputer: SupportsComplete, *, rows: int) -> None:
        super().__init__()
        self.classifiers = classifiers
        self.imputer = Frozen(imputer)
        self.register_buffer("history", torch.zeros(rows, len(classifiers.widths)))
        self.history: Tensor

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """A step in training mode first adds its losses to the history, then ranks by it, as published."""
        assert batch.labels is not None
        opinions = self.classifiers.read(batch)
        losses = opinions.losses(batch.labels)
        if self.training:
            gathered = self.history[batch.index] + torch.where(opinions.there, losses.detach(), 0.0)
            self.history.index_copy_(0, batch.index, gathered.to(self.history.dtype))
        return {
            "task": F.cross_entropy(fuse(opinions), batch.labels),
            "modalities": opinions.total(losses),
            "ranking": ranking(confidence(opinions.logits), self._difficulty(batch.index), opinions.there),
        }

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        return Prediction(fuse(self.classifiers.read(as_observed(self.imputer.complete(batch.check())))))

    def _difficulty(self, index: Int[Tensor, "b"]) -> Float[Tensor, "b m"]:
        """r: what the samples have lost so far, from 0 (least in the split) to 1."""
        least, most = self.history.aminmax(dim=0)
        return (self.history[index] - least) / (most - least).clamp_min(RANGE_FLOOR)


def confidence(logits: Float[Tensor, "b m k"]) -> Float[Tensor, "b m"]:
    return logits.logsumexp(-1) / TEMPERATURE


def fuse(opinions: Opinions) -> Float[Tensor, "b k"]:
    """The logits of all modalities that are there, by confidence; no gradient reaches the confidence here."""
    weights = torch.where(opinions.there, confidence(opinions.logits).detach(), 0.0)
    return (weights[..., None] * opinions.logits).sum(1)


def ranking(
    confidence: Float[Tensor, "b m"], difficulty: Float[Tensor, "b m"], there: Bool[Tensor, "b m"]
) -> Float[Tensor, ""]:
    """What a sample is more confident than its easier neighbour by, beyond their distance; over pairs that are there."""
    apart = difficulty - difficulty.roll(-1, 0)
    excess = apart.sign() * (confidence - confidence.roll(-1, 0)) - apart.abs()
    return masked_mean(excess.clamp_min(0), there & there.roll(-1, 0)).sum()
