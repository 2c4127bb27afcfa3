"""Pretrained networks as encoders, frozen or fine-tuned: a unit for each token of a text, or for each cell of an image.

LoRA: W + 2 · up · down for every linear map W of the attention, with up = 0 at first; W itself does not change
"""

import math
import re
from abc import abstractmethod
from collections.abc import Sequence
from typing import Literal, Self, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import parametrize

from gauge.choices import pick
from gauge.data.images import HALF
from gauge.types import Encoder, is_traced

GRID = 4  # cells of an image, down and across
ATTENTION = re.compile("attention|attn", re.IGNORECASE)  # in the name of a module

Tune = Literal["head", "lora", "all"]
"""What is trained of a pretrained encoder: only the projection after it, low-rank changes of its attention, or all."""


class LowRank(nn.Module):
    """A weight with a change of low rank, which is zero at first."""

    def __init__(self, weight: Float[Tensor, "o i"]) -> None:
        super().__init__()
        rank = min(8, *weight.shape)  # the rank of LoRA
        self.down = nn.Parameter(nn.init.kaiming_uniform_(weight.new_empty(rank, weight.shape[1]), a=math.sqrt(5)))
        self.up = nn.Parameter(weight.new_zeros(weight.shape[0], rank))

    def forward(self, weight: Float[Tensor, "o i"]) -> Float[Tensor, "o i"]:
        return weight + 2.0 * self.up @ self.down  # the scale of LoRA


class PretrainedNetwork(nn.Module):
    """A network that returns its last hidden state. Unless it is tuned it stays in eval mode, without gradients; its batch
    norms always do, as the blank inputs of missing values would change their statistics."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network.eval().requires_grad_(False)
        self.tuned: Tune = "head"

    def tune(self, kind: Tune) -> None:
        """Make what `kind` says trainable. "head" ends a training: low-rank changes become part of the weights."""
        pick(dict.fromkeys(get_args(Tune)), kind, "tune")
        for linear, _ in self._low_rank():
            parametrize.remove_parametrizations(linear, "weight")
        self.network.requires_grad_(kind == "all")
        if kind == "lora":
            attention = [
                module
                for name, module in self.network.named_modules()
                if isinstance(module, nn.Linear) and ATTENTION.search(name)
            ]
            if not attention:
                raise ValueError(
                    f"{type(self.network).__name__} has no attention of nn.Linear modules, which tune='lora' changes; use "
                    "tune='all' or 'head'"
                )
            for linear in attention:
                parametrize.register_parametrization(linear, "weight", LowRank(linear.weight))
        self.tuned = kind

    def rate_factors(self, rate: float | None, decay: float) -> dict[nn.Parameter, float]:
        """As in `Encoder`; `decay` applies where all weights are trained."""
        if self.tuned == "lora":
            changes = [change for _, change in self._low_rank()]
            # over the learning rate of the settings: 5e-4 with 5e-3
            return {parameter: rate or 0.1 for change in changes for parameter in change.parameters()}
        if self.tuned == "all":
            # over the learning rate of the settings: 5e-5 with 5e-3
            return {each: (rate or 0.01) * decay**depth for each, depth in depths(self.network).items()}
        return {}

    def train(self, mode: bool = True) -> Self:
        super().train(mode and self.tuned != "head")
        batch_norms = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
        for module in self.modules():
            if isinstance(module, batch_norms):
                module.eval()
        return self

    def forward(self, **inputs: Tensor) -> Tensor:
        traced = is_traced(next(iter(inputs.values())))
        # 64 samples per pass: large networks need much memory for each
        parts = [inputs.values()] if traced else zip(*(x.split(64) for x in inputs.values()), strict=True)
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.tuned != "head"):
            return torch.cat([self.network(**dict(zip(inputs, part, strict=True))).last_hidden_state for part in parts])

    def _low_rank(self) -> list[tuple[nn.Linear, LowRank]]:
        linear = [module for module in self.network.modules() if isinstance(module, nn.Linear)]
        return [(each, change) for each in linear for change in each.modules() if isinstance(change, LowRank)]


def depths(network: nn.Module) -> dict[nn.Parameter, int]:
    """How many layers each parameter is below the last one. Layers are the entries of the `nn.ModuleList` with the most
    parameters and of those of the same length beside it; what comes before them, such as embeddings, is one below the first,
    and what follows belongs to the last.

    >>> network = nn.Sequential(nn.Embedding(5, 3), nn.ModuleList([nn.LayerNorm(3), nn.LayerNorm(3)]), nn.Linear(3, 3))
    >>> [depths(network)[parameter] for parameter in network.parameters()]
    [2, 1, 1, 0, 0, 0, 0]
    """
    lists = [(name, module) for name, module in network.named_modules() if isinstance(module, nn.ModuleList)]
    sizes = [sum(each.numel() for each in module.parameters()) for _, module in lists]
    path, layers = lists[sizes.index(max(sizes))] if lists else ("", nn.ModuleList())
    count, parent = len(layers), path.rpartition(".")[0]
    beside = [each for name, each in lists if name.rpartition(".")[0] == parent and len(each) == count]
    inside = {
        each: count - 1 - index for list_ in beside for index, layer in enumerate(list_) for each in layer.parameters()
    }
    depth, result = count, {}
    for parameter in network.parameters():
        depth = inside.get(parameter, 0 if inside and depth < count else depth)
        result[parameter] = depth
    return result


class PretrainedEncoder(Encoder):
    """An encoder whose `network` was trained before. It is frozen until `tune` is called."""

    network: PretrainedNetwork

    @abstractmethod
    def example(self) -> tuple[Tensor, str]:
        """One sample, and what it is."""

    def tune(self, kind: Tune) -> Self:
        """The encoder itself, with trainable weights: "lora" trains low-rank changes of the attention, "all" everything,
        "head" nothing. Call it with "head" after training, to merge low-rank changes into the weights."""
        self.network.tune(kind)
        if kind != "head" and not self._units().requires_grad:
            raise ValueError(
                f"no gradient reaches the weights of {type(self.network.network).__name__} that tune={kind!r} trains; use "
                "another kind of tune"
            )
        return self

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
        with torch.enable_grad():
            return self(example.to(device), torch.ones(1, dtype=torch.bool, device=device))

    def rate_factors(self, rate: float | None, decay: float) -> dict[nn.Parameter, float]:
        return self.network.rate_factors(rate, decay)


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
