"""regrid(): a trained UnitEncoder whose images have another number of units."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from gauge.paper.units import UnitEncoder
from gauge.types import Encoder, UnsupportedError


class Upsampled(Encoder):
    """grid x grid units from an encoder that emits one per `stride` pixels; images are enlarged bilinearly."""

    def __init__(self, encoder: Encoder, grid: int) -> None:
        super().__init__()
        assert encoder.stride is not None
        self.encoder, self.side = encoder, grid * encoder.stride
        self.units, self.width = grid**2, encoder.width

    def forward(self, x: Float[Tensor, "b ch h w"], observed: Tensor) -> Float[Tensor, "b n c"]:
        return self.encoder(F.interpolate(x, (self.side, self.side), mode="bilinear", align_corners=False), observed)


def regrid(encoder: UnitEncoder, grid: int) -> UnitEncoder:
    """The same encoder with every image enlarged to give grid x grid units. Their positions start anew; everything else is
    shared."""
    encoders = {
        name: Upsampled(each, grid) if isinstance(each, Encoder) and each.stride else each
        for name, each in encoder.encoders.items()
    }
    changed = [name for name in encoders if encoders[name] is not encoder.encoders[name]]
    if not changed:
        raise UnsupportedError(
            f"none of the encoders of {list(encoders)} makes a grid of its images; use a grid encoder"
        )
    width, shared = encoder.modality_embedding.embedding_dim, encoder.shared_embedding
    other = UnitEncoder(encoders, width, shared_embedding=shared)  # type: ignore[arg-type]
    other.project, other.norms, other.modality_embedding = encoder.project, encoder.norms, encoder.modality_embedding
    positions = [each.position_embedding.split(list(each.unit_counts.values())) for each in (encoder, other)]
    with torch.no_grad():
        for name, old, new in zip(encoders, *positions, strict=True):
            if name not in changed:
                new.copy_(old)
    return other
