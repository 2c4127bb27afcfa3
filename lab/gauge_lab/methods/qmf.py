"""QMF: each modality's classifier is weighted by a confidence from its energy, trained to rank like its past losses."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gauge.nn.losses import cross_entropy
from gauge.paper.units import Frozen
from gauge.plus.late_fusion import HeadOutputs, LateFusion, masked_mean
from gauge.types import Method, SupportsComplete
from gauge.values import Batch, Prediction

__all__ = ["QMF"]


class QMF(Method):
    """Late fusion by confidence. `history` accumulates the losses of the training split, which has `rows` samples.

        conf_m = logsumexp(l_m) / 10,   fused = Σ_m sg(conf_m) · l_m,   L = CE(fused) + Σ_m CE(l_m) + Σ_m L_rank,m
        L_rank = mean max(0, sign(r_i - r_j) · (conf_i - conf_j) - |r_i - r_j|)

    with r the losses a sample has gathered so far, from 0 to 1 over the split, and j the sample after i in the batch.

    Zhang et al. 2023.

    NOTE[PAPER] qmf-accumulation: the published code takes an optimizer step every 24 batches; ours after every batch.

    NOTE[PAPER] qmf-slack: |r_i - r_j| is a margin in the original ranking loss; as in QMF's code it is subtracted here.
    """

    def __init__(self, classifiers: LateFusion, imputer: SupportsComplete, *, rows: int) -> None:
        super().__init__()
        self.classifiers, self.imputer = classifiers, Frozen(imputer)
        self.history = nn.Buffer(torch.zeros(rows, len(classifiers.widths)))

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """In training mode a step first adds its losses to the history, then ranks by it, as published."""
        outputs = self.classifiers.read(batch)
        losses = outputs.losses(batch)
        if self.training:
            past = self.history[batch.index] + torch.where(outputs.available, losses.detach(), 0.0)
            self.history.index_copy_(0, batch.index, past.to(self.history.dtype))
        return {
            "task": cross_entropy(batch, fuse(outputs)),
            "modalities": outputs.total(losses),
            "ranking": ranking(confidence(outputs.logits), self._difficulty(batch.index), outputs.available),
        }

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        return Prediction(fuse(self.classifiers.read(self.imputer.complete(batch.check()).as_observed())))

    def _difficulty(self, index: Int[Tensor, "b"]) -> Float[Tensor, "b m"]:
        """r: the accumulated losses of the samples, from 0 (lowest of the split) to 1."""
        least, most = self.history.aminmax(dim=0)
        # in some histories all samples are equal
        return (self.history[index] - least) / (most - least).clamp_min(1e-12)


def confidence(logits: Float[Tensor, "b m k"]) -> Float[Tensor, "b m"]:
    return logits.logsumexp(-1) / 10.0  # the published temperature


def fuse(outputs: HeadOutputs) -> Float[Tensor, "b k"]:
    """The logits of the available modalities, weighted by confidence; no gradient reaches the confidence here."""
    weights = torch.where(outputs.available, confidence(outputs.logits).detach(), 0.0)
    return (weights[..., None] * outputs.logits).sum(1)


def ranking(
    confidence: Float[Tensor, "b m"], difficulty: Float[Tensor, "b m"], available: Bool[Tensor, "b m"]
) -> Float[Tensor, ""]:
    """How much more confident a sample is than its easier neighbour, beyond their distance; over available pairs."""
    apart = difficulty - difficulty.roll(-1, 0)
    excess = apart.sign() * (confidence - confidence.roll(-1, 0)) - apart.abs()
    return masked_mean(excess.clamp_min(0), available & available.roll(-1, 0)).sum()
