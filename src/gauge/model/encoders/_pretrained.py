"""Frozen pretrained networks as encoders: one unit for each token of a text, or for each cell of a 4 x 4 image grid."""

import math
from collections.abc import Sequence
from typing import Any, Self

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from gauge.data.images import HALF
from gauge.types import Encoder, is_traced

GRID = 4  # cells of an image, down and across
MAX_BATCH = 64  # samples per pass: large networks need much memory for each


class FrozenNetwork(nn.Module):
    """A network that always stays in eval mode, without gradients. Returns its last hidden state."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network.eval().requires_grad_(False)

    def train(self, mode: bool = True) -> Self:
        return super().train(False)

    @torch.no_grad()
    def forward(self, **inputs: Tensor) -> Tensor:
        traced = is_traced(next(iter(inputs.values())))
        parts = [inputs.values()] if traced else zip(*(x.split(MAX_BATCH) for x in inputs.values()), strict=True)
        return torch.cat([self.network(**dict(zip(inputs, part, strict=True))).last_hidden_state for part in parts])


class PretrainedTokens(Encoder):
    """Reads texts as token numbers plus one, 0 after their end. The network also reads `prefix` and `suffix` ([CLS], [SEP])
    around each; they get no units."""

    def __init__(self, network: nn.Module, length: int, prefix: Sequence[int] = (), suffix: Sequence[int] = ()) -> None:
        super().__init__()
        self.network, self.units = FrozenNetwork(network), length
        self.prefix = nn.Buffer(torch.tensor(prefix, dtype=torch.long), persistent=False)
        self.suffix = nn.Buffer(torch.tensor(suffix, dtype=torch.long), persistent=False)
        self.width = _width(self, torch.ones(1, length, dtype=torch.long), f"texts of {length} tokens")

    def forward(self, x: Tensor, observed: Tensor) -> Float[Tensor, "b n c"]:
        mask, start, after = x > 0, len(self.prefix), len(self.suffix)
        end = start + mask.sum(1, keepdim=True)
        tokens = F.pad((x.long() - 1).clamp_min(0), (start, after))
        tokens[:, :start] = self.prefix
        tokens.scatter_(1, end + torch.arange(after, device=x.device), self.suffix.expand(x.shape[0], -1))
        read = torch.arange(tokens.shape[1], device=x.device) < end + after
        states = self.network(input_ids=tokens, attention_mask=read.long())
        return torch.where(mask[..., None], states[:, start : start + self.units], 0.0)


class PretrainedGrid(Encoder):
    """Reads images with colours from 0 to 1; the states of the patches are averaged over 4 x 4 cells, row by row."""

    units = GRID * GRID

    def __init__(
        self, network: nn.Module, side: int, mean: Sequence[float] = HALF, std: Sequence[float] = HALF
    ) -> None:
        super().__init__()
        self.network = FrozenNetwork(network)
        self.mean = nn.Buffer(torch.tensor(mean)[:, None, None], persistent=False)
        self.std = nn.Buffer(torch.tensor(std)[:, None, None], persistent=False)
        self.width = _width(self, torch.zeros(1, 3, side, side), f"images of {side} x {side} pixels")

    def forward(self, x: Float[Tensor, "b 3 h w"], observed: Tensor) -> Float[Tensor, "b n c"]:
        states = self.network(pixel_values=(x - self.mean) / self.std)
        return F.adaptive_avg_pool2d(as_map(states), GRID).flatten(2).transpose(1, 2)


def as_map(states: Tensor) -> Float[Tensor, "b c h w"]:
    """Patches as a square map, without the tokens before them (CLS, registers); maps are returned unchanged.

    >>> as_map(torch.zeros(2, 1 + 9, 16)).shape
    torch.Size([2, 16, 3, 3])
    """
    if states.ndim == 4:
        return states
    side = math.isqrt(states.shape[1])
    return states[:, -side * side :].transpose(1, 2).unflatten(2, (side, side))


def _width(encoder: Any, example: Tensor, what: str) -> int:
    """The width of the units, found by a trial pass that also checks the network."""
    name = type(encoder.network.network).__name__
    try:
        first, again = (encoder(example, torch.ones(1, dtype=torch.bool)) for _ in range(2))
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{name} does not read {what} ({reason}); give a model that does") from error
    if not torch.equal(first, again):
        raise ValueError(f"{name} gives a different output each time; give a model that reads all of its input")
    return first.shape[2]
