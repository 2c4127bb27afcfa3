"""Image -> a grid of units: a convolution trunk, a 1x1 convolution and a 2x2 max-pool (PolyMNIST: 28 px -> 2x2 units)."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from gauge.model.nn.conv import CHANNELS, conv_trunk, square_side, trunk_sides
from gauge.types import Encoder

__all__ = ["ConvGrid"]


class ConvGrid(Encoder):
    """Units in row-major order; no normalisation layers, so a sample's units never depend on its batch.

    >>> ConvGrid((3, 28, 28), 128).units
    4
    """

    example_shape = (3, 28, 28)
    make_trunk = staticmethod(conv_trunk)

    def __init__(self, shape: Sequence[int], width: int, channels: Sequence[int] = CHANNELS) -> None:
        super().__init__()
        self.width, self.stride = width, 2 ** (len(channels) + 1)
        self.units = (trunk_sides(square_side(shape), len(channels))[-1] // 2) ** 2
        if not self.units:
            raise ValueError(f"side {shape[1]} is too small for {len(channels)} halvings and a pool; use fewer")
        self.trunk = self.make_trunk((shape[0], *channels))
        self.read_out = nn.Sequential(nn.Conv2d(channels[-1], width, 1), nn.MaxPool2d(2))

    def forward(self, x: Float[Tensor, "b ch h w"], observed: Tensor) -> Float[Tensor, "b n c"]:
        return self.read_out(self.trunk(x)).flatten(2).transpose(1, 2)
