"""Image -> one unit, from a deeper stack with BatchNorm: what a classifier of single images uses when accuracy is all."""

from collections.abc import Sequence
from itertools import pairwise

from jaxtyping import Float
from torch import Tensor, nn

from gauge.types import Encoder

__all__ = ["DeepImage"]


class DeepImage(Encoder):
    """Two 3x3 convolutions with BatchNorm before each halving, then the mean over what is left of the image.

    >>> DeepImage((3, 28, 28), 128).units
    1
    """

    units = 1
    example_shape = (3, 28, 28)

    def __init__(self, shape: Sequence[int], width: int, channels: Sequence[int] = (32, 64, 128)) -> None:
        super().__init__()
        self.width = width
        layers: list[nn.Module] = []
        for before, after in pairwise((shape[0], *channels)):
            layers += [*_normed(before, after), *_normed(after, after), nn.MaxPool2d(2, ceil_mode=True)]
        self.layers = nn.Sequential(
            *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels[-1], width), nn.Unflatten(1, (1, width))
        )

    def forward(self, x: Float[Tensor, "b ch h w"], observed: Tensor) -> Float[Tensor, "b 1 c"]:
        return self.layers(x)


def _normed(before: int, after: int) -> tuple[nn.Module, ...]:
    return nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()
