"""Table -> one unit per column, each cell read on its own: categories by an embedding, numbers by waves (any table)."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gauge.nn.attention import small_parameter
from gauge.nn.tabular import ColumnLayout, check_columns

__all__ = ["Cells"]

FREQUENCY = 0.1  # deviation of the first frequencies, in waves per unit


class Cells(nn.Module):
    """A number x is read as x and as the sine and cosine of learned multiples of it, with weights of its column's own, so
    that a threshold anywhere is easy to learn (Gorishniy et al. 2022). Columns hold numbers unless `cardinalities` says
    how many categories they have.

    >>> Cells((3,), 32, cardinalities=(4, 1, 1)).units
    3
    """

    example_shape = (5,)

    def __init__(
        self, shape: Sequence[int], width: int, cardinalities: Sequence[int] | None = None, waves: int = 8
    ) -> None:
        super().__init__()
        self.columns = ColumnLayout(check_columns(shape, cardinalities))
        self.units, self.width = self.columns.count, width
        numbers = len(self.columns.numbers)
        self.categories = nn.Embedding(self.columns.total, width) if self.columns.total else None
        self.frequencies = nn.Parameter(torch.randn(numbers, waves) * FREQUENCY)
        self.weight = nn.Parameter(torch.randn(numbers, 2 * waves + 1, width) * (2 * waves + 1) ** -0.5)
        self.offset = small_parameter(numbers, width)

    def forward(self, x: Float[Tensor, "b f"], observed: Tensor) -> Float[Tensor, "b f c"]:
        numbers = x[:, self.columns.numbers]
        phase = 2 * math.pi * numbers[..., None] * self.frequencies
        features = torch.cat([numbers[..., None], phase.sin(), phase.cos()], -1)
        parts = [torch.einsum("bfk,fkc->bfc", features, self.weight) + self.offset]
        if self.categories is not None:
            parts.insert(0, self.categories(self.columns.codes(x) + self.columns.offsets))
        return self.columns.in_order(*parts)
