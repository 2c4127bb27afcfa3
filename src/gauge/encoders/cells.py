"""Table -> one unit per column, each cell read on its own: categories by an embedding, numbers by waves (any table)."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from gauge.nn.tabular import ColumnLayout, Numbers, check_columns
from gauge.types import Encoder

__all__ = ["Cells"]


class Cells(Encoder):
    """Each column has its own weights. Columns are numeric unless `cardinalities` gives their number of categories.

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
        self.categories = nn.Embedding(self.columns.total, width) if self.columns.total else None
        self.numbers = Numbers(len(self.columns.numbers), width, waves)

    def forward(self, x: Float[Tensor, "b f"], observed: Tensor) -> Float[Tensor, "b f c"]:
        parts = [self.numbers(x.index_select(1, self.columns.numbers)[..., None])]
        if self.categories is not None:
            parts.insert(0, self.categories(self.columns.codes(x) + self.columns.offsets))
        return self.columns.in_order(*parts)
