"""ModDrop: every training sample loses each of its modalities with probability p, and never all of them.

L = CE(f(x ∘ keep), y), keep_m ~ Bernoulli(1 - p) for each sample and modality; where none is left one of them, drawn
uniformly, comes back.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int
from torch import Tensor

from gauge.model.network import Network
from gauge.model.units import UnitEncoder
from gauge.randomness import derive, uniform
from gauge.types import Batch, Method, Prediction

__all__ = ["ModDrop"]

RATE = 0.5  # every benchmark


class ModDrop(Method):
    """The shared network, trained to cope with gaps by making them. A missing unit keeps its place and loses its content;
    attention still sees it."""

    def __init__(self, encoder: UnitEncoder, classifier: Network, *, rate: float = RATE) -> None:
        super().__init__()
        if not 0 <= rate <= 1:
            raise ValueError(f"rate {rate} is no probability; give the share of modalities to drop, from 0 to 1")
        self.encoder = encoder
        self.classifier = classifier
        self.rate = rate

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        assert batch.labels is not None
        units = self.encoder(batch)
        kept = keep_some(batch.key, batch.any_observed(), self.rate)
        tokens = units.keep(kept[:, units.modality] & units.observed).tokens
        return {"task": F.cross_entropy(self.classifier(tokens), batch.labels)}

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        return Prediction(self.classifier(self.encoder(batch.check()).tokens))


def keep_some(key: Int[Tensor, "b"], there: Bool[Tensor, "b m"], rate: float) -> Bool[Tensor, "b m"]:
    """Which of the modalities that are there stay: each with probability 1 - rate, and always one.

    NOTE[PAPER] moddrop-gaps: the published training splits are complete. Here the modality that comes back is one of those
    the sample has.
    """
    draws = torch.where(there, uniform(derive(key, "moddrop"), there.shape[1]), -1.0)
    # where every draw is below the rate, the highest one is that of a uniformly drawn modality
    return there & (draws >= draws.amax(1, keepdim=True).clamp_max(rate))
