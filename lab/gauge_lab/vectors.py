"""VectorEncoder: every modality as one vector; which modalities a sample shows."""

from collections.abc import Mapping
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gauge.nn.streams import side_by_side
from gauge.types import Encoder
from gauge.values import Batch


def whole_modalities(visible: Bool[Tensor, "b n"], modality: Int[Tensor, "n"], count: int) -> Bool[Tensor, "b m"]:
    """Which of the `count` modalities are visible in all their units."""
    belongs = modality[:, None] == torch.arange(count, device=visible.device)
    return (visible[..., None] | ~belongs).all(1)


def shown_modalities(visible: Bool[Tensor, "b n"], modality: Int[Tensor, "n"], count: int) -> Bool[Tensor, "b m"]:
    """The subset of modalities that each sample shows, for methods that keep parameters or statistics per subset.

    NOTE[PAPER] subset-of-parts: as published, partly visible modalities do not count, unless none is wholly visible.
    """
    whole = whole_modalities(visible, modality, count)
    return torch.where(whole.any(1, keepdim=True), whole, ~whole_modalities(~visible, modality, count))


class VectorEncoder(nn.Module):
    """Every modality of a batch as one vector, without norms or embeddings: [b, m, dim], and which are available: [b, m].
    The vector of a missing modality is zero; with `hide_missing=False` (a completed batch) its values are encoded."""

    def __init__(self, encoders: Mapping[str, Encoder]) -> None:
        super().__init__()
        for name, encoder in encoders.items():
            if encoder.units != 1:
                raise ValueError(f"encoder {name!r} emits {encoder.units} units; give a vector encoder")
        self.encoders = nn.ModuleDict(encoders)

    def forward(self, batch: Batch, *, hide_missing: bool = True) -> tuple[Float[Tensor, "b m c"], Bool[Tensor, "b m"]]:
        read = batch.blanked() if hide_missing else batch.as_observed()
        calls = [partial(encoder, read.inputs[name], read.observed[name]) for name, encoder in self.encoders.items()]
        vectors = torch.cat(side_by_side(calls), 1)
        available = torch.stack([batch.observed[name].reshape(len(batch), -1).any(1) for name in self.encoders], 1)
        return (torch.where(available[..., None], vectors, 0.0) if hide_missing else vectors), available
