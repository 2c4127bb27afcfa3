"""Image of side 64 -> one unit: a residual network with BatchNorm and dropout (CelebA's image)."""

from gauge.encoders._vector import NetworkVector
from gauge_lab.coders import residual_image

__all__ = ["ResidualImage"]


class ResidualImage(NetworkVector):
    """In training, a sample's unit depends on its batch; `base` is the width of the first of five stages.

    >>> ResidualImage((3, 64, 64), 32, base=4).units
    1
    """

    example_shape = (3, 64, 64)
    network = staticmethod(residual_image)
