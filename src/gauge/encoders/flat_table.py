"""Table -> one unit: all cells and their flags side by side through an MLP, categories one-hot (the table as a whole)."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gauge.encoders._vector import Vector
from gauge.nn.tabular import ColumnLayout, by_cell, check_columns

__all__ = ["FlatTable"]


class FlatTable(Vector):
    """A missing cell is zero, and a flag marks it as missing. The options are those of `cells`.

    >>> FlatTable((3,), 32, cardinalities=(4, 1, 1)).units
    1
    """

    example_shape = (5,)
    whole = True

    def __init__(
        self, shape: Sequence[int], width: int, cardinalities: Sequence[int] | None = None, hidden: int = 256
    ) -> None:
        columns = ColumnLayout(check_columns(shape, cardinalities))
        size = columns.total + len(columns.numbers) + columns.count
        super().__init__(nn.Sequential(nn.Linear(size, hidden), nn.GELU(), nn.Linear(hidden, width)), width)
        self.columns = columns

    def forward(self, x: Float[Tensor, "b f"], observed: Tensor) -> Float[Tensor, "b 1 c"]:
        observed = by_cell(observed, x)
        columns, flags = self.columns, observed.to(x.dtype)
        parts = [torch.where(observed, x, 0.0).index_select(1, columns.numbers), flags]
        if columns.total:
            hot = flags.new_zeros(x.shape[0], columns.total)
            codes = columns.codes(x) + columns.offsets
            parts.insert(1, hot.scatter(1, codes, flags.index_select(1, columns.categorical)))
        return self.layers(torch.cat(parts, 1))[:, None]
