"""Heads: a linear classifier for each modality, which reads that modality alone."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from gauge.model.units import UnitEncoder
from gauge.types import Units


class Heads(nn.ModuleList):
    """The head of each modality of an encoder. It reads the modality's whole unit or, where there is none, the mean of its
    observed units."""

    def __init__(self, encoder: UnitEncoder, dim: int, num_classes: int) -> None:
        super().__init__(nn.Linear(dim, num_classes) for _ in encoder.unit_counts)
        self.pooling = nn.Buffer(head_pooling(encoder), persistent=False)

    def logits(self, units: Units) -> Float[Tensor, "b m k"]:
        """The logits of all heads; those of missing modalities judge what was imputed, or are meaningless."""
        vectors = self.weights(units).to(units.content.dtype) @ units.content
        return torch.stack([head(vector) for head, vector in zip(self, vectors.unbind(1), strict=True)], 1)

    def weights(self, units: Units) -> Float[Tensor, "b m n"]:
        """The weight of each unit in what each head reads: equal for its observed units, or for all if none is."""
        observed = self.pooling * units.observed[:, None]
        pooling = torch.where(observed.any(-1, keepdim=True), observed, self.pooling)
        return pooling / pooling.sum(-1, keepdim=True)


def head_pooling(encoder: UnitEncoder) -> Float[Tensor, "m n"]:
    """Ones for the units that the head of each modality reads: its whole unit, or all where it has none."""
    own = encoder.modality == torch.arange(len(encoder.unit_counts))[:, None]
    last = own & F.pad(encoder.modality.diff() != 0, (0, 1), value=True)
    has_whole = torch.tensor([encoder.has_whole(name) for name in encoder.unit_counts])
    return torch.where(has_whole[:, None], last, own).float()
