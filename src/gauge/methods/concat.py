"""Concat: the vectors of all modalities side by side, one linear classifier; what is missing is imputed at test time.

logits = W [x_1; ...; x_M] + b
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from gauge.methods.late_fusion import as_observed
from gauge.model.frozen import Frozen
from gauge.model.units import VectorEncoder
from gauge.types import Batch, Method, Prediction, SupportsComplete

__all__ = ["Concat"]


class Concat(Method):
    """Early fusion at its plainest: it has no way to know that an input was imputed.

    NOTE[PAPER] fusion-gaps: a modality that a training sample lacks is a vector of zeros.
    """

    def __init__(self, encoder: VectorEncoder, imputer: SupportsComplete, *, num_classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.imputer = Frozen(imputer)
        self.head = nn.Linear(sum(encoder.encoders[name].width for name in encoder.encoders), num_classes)  # type: ignore[misc]

    def forward(self, batch: Batch) -> Float[Tensor, "b k"]:
        return self.head(self.encoder(batch)[0].flatten(1))

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        assert batch.labels is not None
        return {"task": F.cross_entropy(self(batch), batch.labels)}

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        return Prediction(self(as_observed(self.imputer.complete(batch.check()))))
