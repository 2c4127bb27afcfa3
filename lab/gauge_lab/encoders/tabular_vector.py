"""Table -> one unit: the CLS state of the Transformer over its columns, and one Linear (DVM, UK Biobank)."""

from collections.abc import Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from gauge_lab.encoders._table import TableEncoder

__all__ = ["TabularVector"]


class TabularVector(TableEncoder):
    """For methods that need the table as one vector; the options are those of `tabular`.

    >>> TabularVector((17,), 256, depth=1).units
    1
    """

    def __init__(self, shape: Sequence[int], width: int, *args: Any, **options: Any) -> None:
        super().__init__(shape, width, *args, **options)
        self.project = nn.Linear(self.width, width)
        self.units, self.width = 1, width

    def forward(self, x: Float[Tensor, "b f"], observed: Tensor) -> Float[Tensor, "b 1 c"]:
        return self.project(self.states(x, observed)[:, :1])
