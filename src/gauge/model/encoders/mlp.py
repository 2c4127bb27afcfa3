"""Any fixed-size input -> one unit: flatten, a hidden layer, the unit."""

from collections.abc import Sequence

from gauge.model.encoders._vector import Vector
from gauge.model.nn.mlp import mlp

__all__ = ["Mlp"]


class Mlp(Vector):
    """A hidden layer of 400 is MST's encoder of MNIST.

    >>> Mlp((7,), 32).units
    1
    """

    example_shape = (7,)

    def __init__(self, shape: Sequence[int], width: int, hidden: int = 64) -> None:
        super().__init__(mlp(shape, width, hidden), width)
