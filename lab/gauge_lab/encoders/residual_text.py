"""Long one-hot text -> one unit: a residual network with BatchNorm and dropout over 256 positions (CelebA's text)."""

from gauge.encoders._vector import NetworkVector
from gauge_lab.coders import residual_text

__all__ = ["ResidualText"]


class ResidualText(NetworkVector):
    """In training, a sample's unit depends on its batch; `base` is the width of the first of seven stages.

    >>> ResidualText((256, 71), 32, base=4).units
    1
    """

    example_shape = (256, 71)
    network = staticmethod(residual_text)
