"""PDF: modality classifiers weighted by their predicted confidence, corrected at test time by how certain they are."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gauge.nn.losses import cross_entropy
from gauge.paper.units import Frozen
from gauge.plus.late_fusion import HeadOutputs, LateFusion
from gauge.types import Method, SupportsComplete
from gauge.values import Batch, Prediction

__all__ = ["PDF"]

FLOOR = 1e-8  # as published, everywhere


class PDF(Method):
    """Late fusion in which a small network for each modality predicts how likely its classifier is right. These networks are
    linear up to the sigmoid, as published, and do not train the vectors they read.

    c_m predicts p_m(y), holo_m = Σ_{j≠m} ln c_j / Σ_j ln c_j, fused = Σ_m sg(w_m) · l_m, and sg stops gradients:

        training: w = softmax_m(c_m + holo_m),   L = CE(fused) + Σ_m CE(l_m) + Σ_m mean |c_m - sg(p_m(y))|
        test:     w = softmax_m((c_m + holo_m) · min(1, u_m / mean_{j≠m} u_j)),   u_m = mean_k |p_m(k) - 1/K|

    Cao et al. 2024.
    """

    def __init__(self, classifiers: LateFusion, imputer: SupportsComplete) -> None:
        super().__init__()
        self.classifiers, self.imputer = classifiers, Frozen(imputer)
        self.confidences = nn.ModuleDict(
            {
                name: nn.Sequential(nn.Linear(d, 2 * d), nn.Linear(2 * d, d), nn.Linear(d, 1), nn.Sigmoid())
                for name, d in classifiers.widths.items()
            }
        )

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        outputs = self.classifiers.read(batch)
        confidence, losses = self.confidence(outputs), outputs.losses(batch)
        weights = fusion_weights(confidence, outputs).detach()
        right = (-losses.detach()).exp()
        return {
            "task": cross_entropy(batch, (weights[..., None] * outputs.logits).sum(1)),
            "modalities": outputs.total(losses),
            "confidence": outputs.total((confidence - right).abs()),
        }

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        outputs = self.classifiers.read(self.imputer.complete(batch.check()).as_observed())
        weights = fusion_weights(self.confidence(outputs), outputs, reliability(outputs.logits))
        return Prediction((weights[..., None] * outputs.logits).sum(1))

    def confidence(self, outputs: HeadOutputs) -> Float[Tensor, "b m"]:
        """c: the predicted probability that each modality's classifier is right, from its vector."""
        pairs = zip(self.confidences.values(), outputs.vectors, strict=True)
        return torch.cat([network(vector.detach()) for network, vector in pairs], 1)


def fusion_weights(
    confidence: Float[Tensor, "b m"], outputs: HeadOutputs, reliability: Float[Tensor, "b m"] | float = 1.0
) -> Float[Tensor, "b m"]:
    """The softmax of c_m + holo_m, times the reliability, over the available modalities."""
    logs = torch.where(outputs.available, (confidence + FLOOR).log(), 0.0)
    total = logs.sum(1, keepdim=True)
    support = (confidence + (total - logs) / (total + FLOOR)) * reliability
    return support.masked_fill(~outputs.available, -torch.inf).softmax(1)


def reliability(logits: Float[Tensor, "b m k"]) -> Float[Tensor, "b m"]:
    """min(1, u_m / mean of the others), with u_m the distance of each modality's prediction from uniform."""
    distance = (logits.softmax(-1) - 1 / logits.shape[-1]).abs().mean(-1)
    others = distance.sum(1, keepdim=True) - distance
    return (distance * (logits.shape[1] - 1) / (others + FLOOR)).clamp_max(1)
