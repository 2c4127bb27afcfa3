"""Long text as symbol numbers -> one unit: embeddings, two strided convolutions, the maximum over positions."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from gauge.nn.conv import Transpose
from gauge.types import Encoder

__all__ = ["ConvTokens"]


class ConvTokens(Encoder):
    """Reads symbol numbers below `symbols`; 0 pads short texts. What it finds counts wherever it is. `strides` are those of
    the convolutions, larger for longer texts.

    >>> ConvTokens((100,), 32, symbols=26).units
    1
    """

    example_shape = (20,)
    units = 1

    def __init__(
        self, shape: Sequence[int], width: int, symbols: int = 64, channels: int = 64, strides: Sequence[int] = (1, 2)
    ) -> None:
        super().__init__()
        kernels = (8, 6)
        if len(shape) != 1 or shape[0] < sum(kernels):
            raise ValueError(
                f"a text has shape [symbols], at least {sum(kernels)}, not {list(shape)}; pad it with zeros"
            )
        self.width, self.symbols = width, symbols
        embedding = 16
        layers: list[nn.Module] = [nn.Embedding(symbols, embedding, padding_idx=0), Transpose()]
        for before, kernel, stride in zip((embedding, channels), kernels, strides, strict=True):
            layers += [nn.Conv1d(before, channels, kernel, stride, kernel // 2), nn.ReLU()]
        self.layers, self.read_out = nn.Sequential(*layers), nn.Linear(channels, width)

    def forward(self, x: Tensor, observed: Tensor) -> Float[Tensor, "b 1 c"]:
        states = self.layers(x.long().clamp(0, self.symbols - 1))
        return self.read_out(states.amax(2))[:, None]
