"""Vector: what every encoder that gives one unit has in common."""

from jaxtyping import Float
from torch import Tensor, nn

from gauge.types import Encoder


class Vector(Encoder):
    """One unit, made by layers that end in [b, width]; unit gating is then modality gating. Only ever subclassed."""

    units = 1

    def __init__(self, layers: nn.Module, width: int) -> None:
        super().__init__()
        self.width = width
        self.layers = layers

    def forward(self, x: Float[Tensor, "b *f"], observed: Tensor) -> Float[Tensor, "b 1 c"]:
        return self.layers(x)[:, None]
