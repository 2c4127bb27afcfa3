"""AsVector: the units of an encoder side by side, projected to one vector of the encoder's width."""

from jaxtyping import Float
from torch import Tensor, nn

from gauge.types import Encoder


class AsVector(Encoder):
    """For a modality that has an encoder of units but none of a single vector.

    >>> from gauge.encoders.columns import Columns
    >>> AsVector(Columns((17,), 32)).units
    1
    """

    def __init__(self, fine: Encoder) -> None:
        super().__init__()
        self.fine, self.units, self.width = fine, 1, fine.width
        self.project = nn.Linear(fine.units * fine.width, fine.width)

    def forward(self, x: Tensor, observed: Tensor) -> Float[Tensor, "b 1 c"]:
        return self.project(self.fine(x, observed).flatten(1))[:, None]
