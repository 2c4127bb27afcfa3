"""Image -> one unit: the convolution trunk of conv_grid, flattened, and one Linear (PolyMNIST's view as one vector)."""

from gauge.encoders._vector import NetworkVector
from gauge.nn.conv import conv_image

__all__ = ["ConvFlat"]


class ConvFlat(NetworkVector):
    """For methods that need one vector per view (width 512 or 128 as published); `channels` are those of the trunk.

    >>> ConvFlat((3, 28, 28), 512).units
    1
    """

    example_shape = (3, 28, 28)
    network = staticmethod(conv_image)
