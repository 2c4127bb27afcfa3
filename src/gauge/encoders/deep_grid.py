"""Image -> a grid of units: two normalised 3x3 convolutions before each halving, then a 2x2 max-pool (28 px -> 2x2)."""

from gauge.encoders._grid import Grid
from gauge.nn.conv import deep_trunk

__all__ = ["DeepGrid"]


class DeepGrid(Grid):
    """As `conv_grid`, with BatchNorm: in training, a sample's units depend on its batch, and learning is faster.

    >>> DeepGrid((3, 28, 28), 128).units
    4
    """

    make_trunk = staticmethod(deep_trunk)
