"""Image of side 32 -> one unit: four convolutions of stride 2 and one Linear (MST's SVHN)."""

from gauge.encoders._vector import NetworkVector
from gauge.nn.conv import conv_vector

__all__ = ["ConvVector"]


class ConvVector(NetworkVector):
    """No normalisation layers, so a sample's unit never depends on its batch.

    >>> ConvVector((3, 32, 32), 32).units
    1
    """

    example_shape = (3, 32, 32)
    network = staticmethod(conv_vector)
