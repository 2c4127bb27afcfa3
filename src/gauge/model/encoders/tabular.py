"""Table -> one unit per column: a Transformer over categories and numbers that hides missing cells (DVM, UK Biobank)."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from gauge.model.nn.tabular import TabularTransformer, by_cell, check_columns
from gauge.types import Encoder

__all__ = ["Tabular"]


class Tabular(Encoder):
    """Units are the states of the columns after attention among them; their width is `inner`. Columns are numeric unless
    `cardinalities` gives their number of categories. `sizes`: depth and heads. `weights` is a
    checkpoint of TIP.

    >>> Tabular((17,), 256, depth=1).units
    17
    """

    example_shape = (5,)

    def __init__(
        self,
        shape: Sequence[int],
        width: int,
        cardinalities: Sequence[int] | None = None,
        inner: int = 512,
        weights: str | None = None,
        **sizes: int,
    ) -> None:
        super().__init__()
        columns = check_columns(shape, cardinalities)
        self.units, self.width = len(columns), inner
        self.layers = TabularTransformer(columns, inner, weights=weights, **sizes)

    def forward(self, x: Float[Tensor, "b f"], observed: Tensor) -> Float[Tensor, "b f c"]:
        return self.layers(x, by_cell(observed, x))[:, 1:]
