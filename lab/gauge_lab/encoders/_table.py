"""The base of encoders that read a table by a Transformer over its columns, which hides missing cells."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from gauge.nn.tabular import by_cell, check_columns
from gauge.types import Encoder
from gauge_lab.transformers import TabularTransformer


class TableEncoder(Encoder):
    """Columns are numeric unless `cardinalities` gives their number of categories. `inner` is the width of the Transformer,
    `sizes` are its depth and heads."""

    example_shape = (5,)

    def __init__(
        self,
        shape: Sequence[int],
        width: int,
        cardinalities: Sequence[int] | None = None,
        inner: int = 512,
        **sizes: int,
    ) -> None:
        super().__init__()
        columns = check_columns(shape, cardinalities)
        self.units, self.width = len(columns), inner
        self.layers = TabularTransformer(columns, inner, **sizes)

    def states(self, x: Float[Tensor, "b f"], observed: Tensor) -> Float[Tensor, "b f+1 c"]:
        """The states of CLS and of every column after attention among them."""
        return self.layers(x, by_cell(observed, x))
