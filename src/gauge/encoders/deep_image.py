"""Image -> one unit, from a deeper stack with BatchNorm, for classifiers of single images where only accuracy counts."""

from collections.abc import Sequence

from torch import nn

from gauge.encoders._vector import Vector
from gauge.nn.conv import CHANNELS, deep_trunk

__all__ = ["DeepImage"]


class DeepImage(Vector):
    """Two 3x3 convolutions with BatchNorm before each halving, then the mean over the remaining positions.

    >>> DeepImage((3, 28, 28), 128).units
    1
    """

    example_shape = (3, 28, 28)

    def __init__(self, shape: Sequence[int], width: int, channels: Sequence[int] = CHANNELS) -> None:
        trunk = deep_trunk((shape[0], *channels))  # built first: the order decides the initial weights
        super().__init__(
            nn.Sequential(*trunk, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels[-1], width)), width
        )
