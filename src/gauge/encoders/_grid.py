"""The base of encoders that read an image as a grid of units: a trunk, a 1x1 convolution and a 2x2 max-pool."""

from abc import abstractmethod
from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from gauge.nn.conv import CHANNELS, Halve, for_convolution, square_side, trunk_sides
from gauge.types import Encoder


class Grid(Encoder):
    """Units in row-major order, from `make_trunk(channels)`, which halves the side once for every stage."""

    example_shape = (3, 28, 28)

    @staticmethod
    @abstractmethod
    def make_trunk(channels: Sequence[int]) -> nn.Module: ...

    def __init__(self, shape: Sequence[int], width: int, channels: Sequence[int] = CHANNELS) -> None:
        super().__init__()
        self.width, self.stride = width, 2 ** (len(channels) + 1)
        self.units = (trunk_sides(square_side(shape), len(channels))[-1] // 2) ** 2
        if not self.units:
            raise ValueError(
                f"side {shape[1]} is too small for {len(channels)} halvings and a pool; give fewer channels than {channels}"
            )
        self.trunk = self.make_trunk((shape[0], *channels))
        self.read_out = nn.Sequential(nn.Conv2d(channels[-1], width, 1), Halve())

    def forward(self, x: Float[Tensor, "b ch h w"], observed: Tensor) -> Float[Tensor, "b n c"]:
        return self.read_out(self.trunk(for_convolution(x))).flatten(2).transpose(1, 2)
