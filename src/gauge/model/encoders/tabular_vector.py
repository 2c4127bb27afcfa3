"""Table -> one unit: the CLS state of the Transformer over its columns, and one Linear (DVM, UK Biobank)."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from gauge.model.nn.tabular import TabularTransformer, by_cell, check_columns
from gauge.types import Encoder

__all__ = ["TabularVector"]


class TabularVector(Encoder):
    """For methods that need the table as one vector; the options are those of `tabular`.

    >>> TabularVector((17,), 256, depth=1).units
    1
    """

    units = 1
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
        self.width = width
        self.layers = TabularTransformer(check_columns(shape, cardinalities), inner, weights=weights, **sizes)
        self.project = nn.Linear(inner, width)

    def forward(self, x: Float[Tensor, "b f"], observed: Tensor) -> Float[Tensor, "b 1 c"]:
        return self.project(self.layers(x, by_cell(observed, x))[:, :1])
