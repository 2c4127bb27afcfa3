"""Any fixed-size input -> one unit: flatten, a hidden layer, the unit."""

import math
from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["Mlp"]


class Mlp(nn.Module):
    """The single-vector case, in which unit gating is modality gating.

    >>> Mlp((7,), 32).units
    1
    """

    units = 1
    example_shape = (7,)

    def __init__(self, shape: Sequence[int], width: int, hidden: int = 64) -> None:
        super().__init__()
        self.width = width
        self.layers = nn.Sequential(
            nn.Flatten(),
            nn.Linear(math.prod(shape), hidden),
            nn.ReLU(),
            nn.Linear(hidden, width),
            nn.Unflatten(1, (1, width)),
        )

    def forward(self, x: Float[Tensor, "b *f"], observed: Tensor) -> Float[Tensor, "b 1 c"]:
        return self.layers(x)
