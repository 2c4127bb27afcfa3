"""Any fixed-size input -> one unit: flatten, a hidden layer, the unit."""

from gauge.encoders._vector import NetworkVector
from gauge.nn.mlp import mlp

__all__ = ["Mlp"]


class Mlp(NetworkVector):
    """`hidden` is 64 by default; with 400 it is MST's encoder of MNIST.

    >>> Mlp((7,), 32).units
    1
    """

    example_shape = (7,)
    network = staticmethod(mlp)
