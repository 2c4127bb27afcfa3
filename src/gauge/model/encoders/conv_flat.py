"""Image -> one unit: the convolution trunk of conv_grid, flattened, and one Linear (PolyMNIST's view as one vector)."""

from collections.abc import Sequence

from gauge.model.encoders._vector import Vector
from gauge.model.nn.conv import CHANNELS, conv_image

__all__ = ["ConvFlat"]


class ConvFlat(Vector):
    """For methods that want one vector per view: width 512 or 128 as published.

    >>> ConvFlat((3, 28, 28), 512).units
    1
    """

    example_shape = (3, 28, 28)

    def __init__(self, shape: Sequence[int], width: int, channels: Sequence[int] = CHANNELS) -> None:
        super().__init__(conv_image(shape, width, channels), width)
