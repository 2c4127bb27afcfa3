"""Upsampled: a grid encoder that reads its pictures enlarged, and so emits more units (app. on granularity)."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from gauge.types import Encoder


class Upsampled(Encoder):
    """grid x grid units from an encoder that makes one of every `stride` pixels. Enlarging is bilinear: it adds nothing that
    the picture does not show."""

    def __init__(self, encoder: Encoder, grid: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.units, self.width = grid**2, encoder.width
        assert encoder.stride is not None
        self.side = grid * encoder.stride

    def forward(self, x: Float[Tensor, "b ch h w"], observed: Tensor) -> Float[Tensor, "b n c"]:
        return self.encoder(F.interpolate(x, (self.side, self.side), mode="bilinear", align_corners=False), observed)
