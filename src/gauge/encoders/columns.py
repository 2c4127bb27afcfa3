"""Numeric table -> one unit per column: value times a learned direction plus a learned offset, then a ReLU and a mix."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gauge.nn.initialise import small_parameter
from gauge.nn.tabular import check_columns
from gauge.types import Encoder

__all__ = ["Columns"]


class Columns(Encoder):
    """Each column is read separately, so a missing cell affects only its own unit.

    Parameters
    ----------
    shape
        That of one row, (columns,).
    width
        Of the units.

    Examples
    --------
    >>> Columns((17,), 32).units
    17
    """

    example_shape = (5,)

    def __init__(self, shape: Sequence[int], width: int) -> None:
        super().__init__()
        self.units, self.width = len(check_columns(shape, None)), width
        self.direction = nn.Parameter(torch.randn(self.units, width) * width**-0.5)
        self.offset = small_parameter(self.units, width)
        self.mix = nn.Linear(width, width)

    def forward(self, x: Float[Tensor, "b f"], observed: Tensor) -> Float[Tensor, "b f c"]:
        return self.mix(torch.relu(x[..., None] * self.direction + self.offset))
