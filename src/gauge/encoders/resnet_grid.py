"""Image -> a grid of units: the last feature map of a ResNet, row by row (DVM, UK Biobank: 128 px -> 4x4 units)."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from gauge.nn.resnet import ResNet
from gauge.types import Encoder

__all__ = ["ResnetGrid"]


class ResnetGrid(Encoder):
    """Units have the width of the map, 2048 or, at depth 18, 512. In training, BatchNorm makes a sample's units depend on
    its batch. `weights` is a state file of torchvision.

    >>> ResnetGrid((3, 128, 128), 256, depth=18).units
    16
    """

    example_shape = (3, 64, 64)
    stride = 32

    def __init__(self, shape: Sequence[int], width: int, depth: int = 50, weights: str | None = None) -> None:
        super().__init__()
        self.layers = ResNet(shape, depth, weights)
        self.units, self.width = self.layers.side**2, self.layers.channels

    def forward(self, x: Float[Tensor, "b ch h w"], observed: Tensor) -> Float[Tensor, "b n c"]:
        return self.layers(x).flatten(2).transpose(1, 2)
