"""Concat: the vectors of all modalities side by side, one linear classifier; missing values are imputed at test time."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gauge.nn.losses import cross_entropy
from gauge.paper.units import Frozen
from gauge.types import Method, SupportsComplete
from gauge.values import Batch, Prediction
from gauge_lab.vectors import VectorEncoder

__all__ = ["Concat"]


class Concat(Method):
    """The simplest early fusion: it cannot tell imputed from observed inputs.

        logits = W [x_1; ...; x_M] + b

    NOTE[PAPER] fusion-gaps: a modality that is missing in a training sample is a vector of zeros.
    """

    def __init__(self, encoder: VectorEncoder, imputer: SupportsComplete, *, num_classes: int) -> None:
        super().__init__()
        self.encoder, self.imputer = encoder, Frozen(imputer)
        self.head = nn.Linear(sum(part.width for part in encoder.encoders.values()), num_classes)  # type: ignore[misc]

    def forward(self, batch: Batch) -> Float[Tensor, "b k"]:
        return self.head(self.encoder(batch)[0].flatten(1))

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        return {"task": cross_entropy(batch, self(batch))}

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        return Prediction(self(self.imputer.complete(batch.check()).as_observed()))
