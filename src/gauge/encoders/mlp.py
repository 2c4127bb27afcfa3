"""Any fixed-size input -> one unit: flatten, a hidden layer, the unit."""

from gauge.encoders._vector import NetworkVector
from gauge.nn.mlp import mlp

__all__ = ["Mlp"]


class Mlp(NetworkVector):
    """Flattens a sample and makes one vector of it, by one hidden layer.

    Parameters
    ----------
    shape
        That of one sample.
    width
        Of the unit.
    **options
        `hidden`, the width of the hidden layer, is 64 by default; with 400 it is MST's encoder of MNIST.

    Examples
    --------
    >>> Mlp((7,), 32).units
    1
    """

    example_shape = (7,)
    network = staticmethod(mlp)
