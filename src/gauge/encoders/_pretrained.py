"""Pretrained networks as frozen encoders: a unit for each token of a text, or for each cell of an image."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Self

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from gauge.data.images import HALF
from gauge.types import Encoder, is_traced

GRID = 4  # cells of an image, down and across


class PretrainedNetwork(nn.Module):
    """A network that returns its last hidden state. It stays in eval mode, without gradients."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network.eval().requires_grad_(False)

    def train(self, mode: bool = True) -> Self:
        return super().train(False)

    def forward(self, **inputs: Tensor) -> Tensor:
        traced = is_traced(next(iter(inputs.values())))
        # 64 samples per pass: large networks need much memory for each
        parts = [inputs.values()] if traced else zip(*(x.split(64) for x in inputs.values()), strict=True)
        with torch.no_grad():
            return torch.cat([self.network(**dict(zip(inputs, part, strict=True))).last_hidden_state for part in parts])


class PretrainedEncoder(Encoder):
    """An encoder whose `network` was trained before and is frozen."""

    network: PretrainedNetwork

    @abstractmethod
    def example(self) -> tuple[Tensor, str]:
        """One sample, and what it is."""

    def measure(self) -> int:
        """The width of the units, found by a trial pass that also checks the network."""
        name, (_, what) = type(self.network.network).__name__, self.example()
        try:
            first, again = self._units(), self._units()
        except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise ValueError(f"{name} does not read {what} ({reason}); give a model that does") from error
        if not first.isfinite().all():
            raise ValueError(f"{name} gives an output with NaN or infinity; give a model without such weights")
        if not torch.equal(first, again):
            raise ValueError(f"{name} gives a different output each time; give a model that reads all of its input")
        return first.shape[2]

    def _units(self) -> Tensor:
        example, _ = self.example()
        device = next(self.buffers()).device
        return self(example.to(device), torch.ones(1, dtype=torch.bool, device=device))


class PretrainedTokens(PretrainedEncoder):
    """Reads texts as token numbers plus one, 0 after their end, `vocabulary` at most. The network also reads `prefix` and
    `suffix` ([CLS], [SEP]) around each; they get no units."""

    def __init__(
        self,
        network: nn.Module,
        length: int,
        prefix: Sequence[int] = (),
        suffix: Sequence[int] = (),
        *,
        vocabulary: int = 1,
    ) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.network, self.units = PretrainedNetwork(network), length
        self.prefix = nn.Buffer(torch.tensor(prefix, dtype=torch.long), persistent=False)
        self.suffix = nn.Buffer(torch.tensor(suffix, dtype=torch.long), persistent=False)
        self.width = self.measure()

    def example(self) -> tuple[Tensor, str]:
        words = torch.full((1, self.units), self.vocabulary)
        return words, f"texts of {self.units} tokens with numbers below {self.vocabulary:,}"

    def forward(self, x: Tensor, observed: Tensor) -> Float[Tensor, "b n c"]:
        mask, start, after = x > 0, len(self.prefix), len(self.suffix)
        end = start + mask.sum(1, keepdim=True)
        tokens = F.pad((x.long() - 1).clamp_min(0), (start, after))
        tokens[:, :start] = self.prefix
        tokens.scatter_(1, end + torch.arange(after, device=x.device), self.suffix.expand(x.shape[0], -1))
        read = torch.arange(tokens.shape[1], device=x.device) < end + after
        states = self.network(input_ids=tokens, attention_mask=read.long())
        return torch.where(mask[..., None], states[:, start : start + self.units], 0.0)


class PretrainedGrid(PretrainedEncoder):
    """Reads images with colours from 0 to 1; the states of the patches are averaged over 4 x 4 cells, row by row."""

    units = GRID * GRID

    def __init__(
        self,
        network: nn.Module,
        side: int,
        mean: Sequence[float] = HALF,
        std: Sequence[float] = HALF,
        *,
        bgr: bool = False,
    ) -> None:
        super().__init__()
        self.network, self.side, self.bgr = PretrainedNetwork(network), side, bgr
        patch = getattr(getattr(network, "config", None), "patch_size", None)
        self.patches = side // patch if isinstance(patch, int) and patch > 0 else None
        self.mean = nn.Buffer(torch.tensor(mean)[:, None, None], persistent=False)
        self.std = nn.Buffer(torch.tensor(std)[:, None, None], persistent=False)
        self.width = self.measure()

    def example(self) -> tuple[Tensor, str]:
        pixels = torch.rand(1, 3, self.side, self.side, generator=torch.Generator().manual_seed(0))
        return pixels, f"images of {self.side} x {self.side} pixels"

    def forward(self, x: Float[Tensor, "b 3 h w"], observed: Tensor) -> Float[Tensor, "b n c"]:
        colours = x.flip(1) if self.bgr else x
        states = self.network(pixel_values=(colours - self.mean) / self.std)
        return F.adaptive_avg_pool2d(as_map(states, self.patches), GRID).flatten(2).transpose(1, 2)


def as_map(states: Tensor, patches: int | None = None) -> Float[Tensor, "b c h w"]:
    """Patches as a square map, without the tokens before them (CLS, registers); maps are returned as they are, channels
    first. `patches` is their number along a side, for networks that do not merge them.

    >>> as_map(torch.zeros(2, 1 + 9, 16)).shape
    torch.Size([2, 16, 3, 3])
    """
    if states.ndim == 4:
        last = states.shape[1] == states.shape[2] != states.shape[3]
        return states.permute(0, 3, 1, 2) if last else states
    side = math.isqrt(states.shape[1])
    side = patches if patches and patches < side else side
    return states[:, -side * side :].transpose(1, 2).unflatten(2, (side, side))
