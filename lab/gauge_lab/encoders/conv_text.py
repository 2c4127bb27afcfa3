"""Short one-hot text -> one unit: three convolutions over eight positions and one Linear (MST's text)."""

from gauge.encoders._vector import NetworkVector
from gauge.nn.conv import conv_text

__all__ = ["ConvText"]


class ConvText(NetworkVector):
    """Reads [8, symbols], one row for each position; a row may also hold probabilities, as imputers return them.

    >>> ConvText((8, 71), 32).units
    1
    """

    example_shape = (8, 71)
    network = staticmethod(conv_text)
