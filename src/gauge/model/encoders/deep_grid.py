"""Image -> a grid of units: two normalised 3x3 convolutions before each halving, then a 2x2 max-pool (28 px -> 2x2)."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from gauge.model.nn.conv import CHANNELS, deep_trunk, square_side, trunk_sides
from gauge.types import Encoder

__all__ = ["DeepGrid"]


class DeepGrid(Encoder):
    """Units in row-major order. BatchNorm makes a sample's units depend on its batch in training, and learns faster than
    norms that do not.

    >>> DeepGrid((3, 28, 28), 128).units
    4
    """

    example_shape = (3, 28, 28)

    def __init__(self, shape: Sequence[int], width: int, channels: Sequence[int] = CHANNELS) -> None:
        super().__init__()
        self.width = width
        self.stride = 2 ** (len(channels) + 1)
        self.units = (trunk_sides(square_side(shape), len(channels))[-1] // 2) ** 2
        if not self.units:
            raise ValueError(
                f"images of side {shape[1]} are too small for {len(channels)} halvings and a pool; use fewer"
            )
        self.trunk = deep_trunk((shape[0], *channels))
        self.read_out = nn.Sequential(nn.Conv2d(channels[-1], width, 1), nn.MaxPool2d(2))

    def forward(self, x: Float[Tensor, "b ch h w"], observed: Tensor) -> Float[Tensor, "b n c"]:
        return self.read_out(self.trunk(x)).flatten(2).transpose(1, 2)
