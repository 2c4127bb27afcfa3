"""Table -> one unit per column: a Transformer over categories and numbers that hides missing cells (DVM, UK Biobank)."""

from jaxtyping import Float
from torch import Tensor

from gauge_lab.encoders._table import TableEncoder

__all__ = ["Tabular"]


class Tabular(TableEncoder):
    """Units are the states of the columns after attention among them; their width is `inner`.

    >>> Tabular((17,), 256, depth=1).units
    17
    """

    def forward(self, x: Float[Tensor, "b f"], observed: Tensor) -> Float[Tensor, "b f c"]:
        return self.states(x, observed)[:, 1:]
