"""Image -> a grid of units: a convolution trunk, a 1x1 convolution and a 2x2 max-pool (PolyMNIST: 28 px -> 2x2 units)."""

from gauge.encoders._grid import Grid
from gauge.nn.conv import conv_trunk

__all__ = ["ConvGrid"]


class ConvGrid(Grid):
    """No normalisation layers, so a sample's units never depend on its batch.

    >>> ConvGrid((3, 28, 28), 128).units
    4
    """

    make_trunk = staticmethod(conv_trunk)
