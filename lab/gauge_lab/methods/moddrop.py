"""ModDrop: every training sample loses each of its modalities with probability p, but never all of them."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from gauge.nn.losses import cross_entropy
from gauge.paper.network import Network
from gauge.paper.units import UnitEncoder
from gauge.randomness import derive, uniform
from gauge.types import Method
from gauge.values import Batch, Prediction

__all__ = ["ModDrop"]

RATE = 0.5  # every benchmark


class ModDrop(Method):
    """The shared network, trained with randomly missing modalities. A missing unit loses its content but stays visible to
    attention.

    L = CE(f(x ∘ keep), y), keep_m ~ Bernoulli(1 - p) for each sample and modality; where none is left, one of them,
    drawn uniformly, is kept.

    Neverova et al. 2016.
    """

    def __init__(self, encoder: UnitEncoder, classifier: Network, *, rate: float = RATE) -> None:
        super().__init__()
        if not 0 <= rate <= 1:
            raise ValueError(f"rate {rate} is no probability; give the share of modalities to drop, from 0 to 1")
        self.encoder, self.classifier, self.rate = encoder, classifier, rate

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        units = self.encoder(batch)
        kept = keep_some(batch.key, batch.any_observed(), self.rate)
        tokens = units.keep(kept[:, units.modality] & units.observed).tokens
        return {"task": cross_entropy(batch, self.classifier(tokens))}

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        return Prediction(self.classifier(self.encoder(batch.check()).tokens))


def keep_some(key: Int[Tensor, "b"], available: Bool[Tensor, "b m"], rate: float) -> Bool[Tensor, "b m"]:
    """Which available modalities are kept: each with probability 1 - rate, and always at least one.

    NOTE[PAPER] moddrop-gaps: the published training splits are complete. Here only available modalities can be kept.
    """
    draws = torch.where(available, uniform(derive(key, "moddrop"), available.shape[1]), -1.0)
    # where every draw is below the rate, the highest one belongs to a uniformly drawn modality
    return available & (draws >= draws.amax(1, keepdim=True).clamp_max(rate))
