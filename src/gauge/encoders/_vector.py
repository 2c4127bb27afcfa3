"""Base classes of encoders that emit one unit; unit gating is then modality gating."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from gauge.types import Encoder


class Vector(Encoder):
    """One unit, from layers that end in [b, width]."""

    units = 1

    def __init__(self, layers: nn.Module, width: int) -> None:
        super().__init__()
        self.width, self.layers = width, layers

    def forward(self, x: Float[Tensor, "b *f"], observed: Tensor) -> Float[Tensor, "b 1 c"]:
        return self.layers(x)[:, None]


class NetworkVector(Vector):
    """One unit, from `network(shape, width, **options)`."""

    network: ClassVar[Callable[..., nn.Module]]

    def __init__(self, shape: Sequence[int], width: int, **options: Any) -> None:
        super().__init__(self.network(shape, width, **options), width)
