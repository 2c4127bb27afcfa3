"""Reading: a batch as the network reads it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gauge.model.gates import Biased
from gauge.model.network import Network
from gauge.types import Batch, Units


@dataclass(frozen=True)
class Reading:
    """A batch as the network reads it: the completed input, its units, and the classifier that sees the units in `visible`
    (all when None). Trust also reads the imputer's `uncertainty` about each unit, and the `head_logits` of heads that read
    single modalities."""

    completed: Batch
    units: Units
    classifier: Network | Biased
    visible: Tensor | None = None
    uncertainty: Tensor | None = None
    head_logits: Tensor | None = None

    @property
    def seen(self) -> Tensor:
        """Which units the network sees: [b, n]."""
        return torch.ones_like(self.units.observed) if self.visible is None else self.visible
