"""Long one-hot text -> one unit: a residual network with BatchNorm and dropout over 256 places (CelebA's text)."""

from collections.abc import Sequence

from gauge.model.encoders._vector import Vector
from gauge.model.nn.residual import residual_text

__all__ = ["ResidualText"]


class ResidualText(Vector):
    """In training a sample's unit depends on its batch; `base` is the width of the first of seven stages.

    >>> ResidualText((256, 71), 32, base=4).units
    1
    """

    example_shape = (256, 71)

    def __init__(self, shape: Sequence[int], width: int, base: int = 128) -> None:
        super().__init__(residual_text(shape, width, base), width)
