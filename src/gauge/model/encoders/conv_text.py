"""Short one-hot text -> one unit: three convolutions over eight places and one Linear (MST's text)."""

from collections.abc import Sequence

from gauge.model.encoders._vector import Vector
from gauge.model.nn.conv import conv_text

__all__ = ["ConvText"]


class ConvText(Vector):
    """Reads [8, symbols], one row for each place; a row may also hold probabilities, as an imputer gives them.

    >>> ConvText((8, 71), 32).units
    1
    """

    example_shape = (8, 71)

    def __init__(self, shape: Sequence[int], width: int) -> None:
        super().__init__(conv_text(shape, width), width)
