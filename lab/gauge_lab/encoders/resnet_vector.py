"""Image -> one unit: the mean over the last feature map of a ResNet, and one Linear (DVM, UK Biobank)."""

from collections.abc import Sequence

from torch import nn

from gauge.encoders._vector import Vector
from gauge.nn.resnet import ResNet

__all__ = ["ResnetVector"]


class ResnetVector(Vector):
    """For methods that need the image as one vector; the options are those of `resnet_grid`.

    >>> ResnetVector((3, 128, 128), 256, depth=18).units
    1
    """

    example_shape = (3, 64, 64)

    def __init__(self, shape: Sequence[int], width: int, depth: int = 50, weights: str | None = None) -> None:
        network = ResNet(shape, depth, weights)
        pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        super().__init__(nn.Sequential(network, pool, nn.Linear(network.channels, width)), width)
