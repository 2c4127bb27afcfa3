"""Image -> one unit, from a deeper stack with BatchNorm, for classifiers of single images where only accuracy counts."""

from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from gauge.model.encoders._vector import Vector

__all__ = ["DeepImage"]


class DeepImage(Vector):
    """Two 3x3 convolutions with BatchNorm before each halving, then the mean over the remaining positions.

    >>> DeepImage((3, 28, 28), 128).units
    1
    """

    example_shape = (3, 28, 28)

    def __init__(self, shape: Sequence[int], width: int, channels: Sequence[int] = (32, 64, 128)) -> None:
        layers: list[nn.Module] = []
        for before, after in pairwise((shape[0], *channels)):
            layers += [*_normed(before, after), *_normed(after, after), nn.MaxPool2d(2, ceil_mode=True)]
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels[-1], width)]
        super().__init__(nn.Sequential(*layers), width)


def _normed(before: int, after: int) -> tuple[nn.Module, ...]:
    return nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()
