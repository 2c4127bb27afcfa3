"""Signal -> units along time: convolutions that halve it while it is long, and the mean over each stretch of time."""

from collections.abc import Sequence

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from gauge.types import Encoder

__all__ = ["ConvSignal"]


class ConvSignal(Encoder):
    """No normalisation layers, so a sample's units never depend on its batch. Stretches are equally long; a signal that
    cannot be divided so is continued with zeros.

    >>> ConvSignal((2, 1000), 32).units
    16
    """

    example_shape = (2, 100)

    def __init__(
        self, shape: Sequence[int], width: int, units: int = 16, channels: Sequence[int] = (16, 32, 32, 64, 64)
    ) -> None:
        super().__init__()
        if len(shape) != 2 or shape[1] < units:
            raise ValueError(f"a signal has shape [channels, samples], at least {units} samples, not {list(shape)}")
        self.units, self.width = units, width
        halvings = 0
        while halvings < min(5, len(channels)) and shape[1] >> (halvings + 1) >= 2 * units:  # at most five
            halvings += 1
        step = units << halvings
        self.padding = -shape[1] % step
        layers: list[nn.Module] = []
        before, kernel = shape[0], 7
        for number, after in enumerate(channels[: max(halvings, 1)]):
            stride = 2 if number < halvings else 1
            layers += [nn.Conv1d(before, after, kernel, stride=stride, padding=kernel // 2), nn.ReLU()]
            before = after
        self.trunk = nn.Sequential(*layers)
        self.read_out = nn.Conv1d(before, width, 1)

    def forward(self, x: Float[Tensor, "b ch t"], observed: Tensor) -> Float[Tensor, "b n c"]:
        states = self.trunk(F.pad(x, (0, self.padding)))
        return self.read_out(states.unflatten(2, (self.units, -1)).mean(3)).transpose(1, 2)
