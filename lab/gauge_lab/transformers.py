"""The Transformers of TIP: over the columns of a table with missing cells hidden, and from a table to an image."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gauge.nn.attention import Attention, Block, split_heads
from gauge.nn.initialise import initialise, small_parameter
from gauge.nn.tabular import ColumnLayout, Numbers
from gauge.types import Tokens


class TabularTransformer(nn.Module):
    """A table and its flags -> the states of CLS and of every column.

    `cardinalities` holds the number of categories of each column, 1 for numbers. Categories share one embedding, numbers
    one Linear and missing cells one token; positions tell columns apart. With `waves` each numeric column has its own
    weights, which learns much faster with many columns. A missing cell is hidden as key from every query but its own.

    >>> table, observed = torch.tensor([[2.0, -0.7]]), torch.tensor([[True, False]])
    >>> TabularTransformer((3, 1), 16, depth=1, heads=2)(table, observed).shape
    torch.Size([1, 3, 16])
    """

    def __init__(
        self, cardinalities: Sequence[int], width: int = 512, *, depth: int = 4, heads: int = 8, waves: int = 0
    ) -> None:
        super().__init__()
        self.columns = ColumnLayout(cardinalities)
        self.categories = nn.Embedding(self.columns.total, width) if self.columns.total else None
        self.scale: nn.Module | None = None
        if numbers := len(self.columns.numbers):
            self.scale = Numbers(numbers, width, waves) if waves else nn.Linear(1, width)
        self.missing, self.cls = small_parameter(width), small_parameter(width)
        self.positions, self.norm = nn.Embedding(len(cardinalities) + 1, width), nn.LayerNorm(width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        initialise(self)

    def forward(self, table: Float[Tensor, "b f"], observed: Bool[Tensor, "b f"]) -> Float[Tensor, "b s c"]:
        table = torch.where(observed, table, 0.0)
        parts = []
        if self.categories is not None:
            parts.append(self.categories(self.columns.codes(table) + self.columns.offsets))
        if self.scale is not None:
            parts.append(self.scale(table[:, self.columns.numbers, None]))
        values = self.columns.in_order(*parts)
        values = torch.where(observed[..., None], values, self.missing.to(values.dtype))
        state = torch.cat([self.cls.to(values.dtype).expand(table.shape[0], 1, -1), values], 1)
        state = self.norm(state + self.positions.weight)
        bias = self_excluding(observed)
        for block in self.blocks:
            state = block(state, bias)
        return state


def self_excluding(observed: Bool[Tensor, "b f"]) -> Float[Tensor, "b 1 s s"]:
    """The additive bias that hides missing columns as keys from every query except themselves; CLS is never hidden."""
    seen = F.pad(observed, (1, 0), value=True)
    itself = torch.eye(seen.shape[1], dtype=torch.bool, device=seen.device)
    return torch.where(seen[:, None, None] | itself, 0.0, -1e9)


class CrossAttention(nn.Module):
    """Attention from one sequence to another: queries with bias, keys and values without."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key_value = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim, bias=False)
        self.project = nn.Linear(dim, dim)

    def forward(self, sequence: Float[Tensor, "b s c"], other: Tokens) -> Float[Tensor, "b s c"]:
        key, value = self.key_value(other).chunk(2, -1)
        query, key, value = split_heads(self.heads, self.query(sequence), key, value)
        gathered = F.scaled_dot_product_attention(query, key, value)
        return self.project(gathered.transpose(1, 2).flatten(2))


class InteractionBlock(nn.Module):
    """Self-attention over the table, cross-attention to the image, MLP: all pre-norm and residual."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.attention_norm, self.attention = nn.LayerNorm(dim), Attention(dim, heads)
        self.cross_norm, self.cross = nn.LayerNorm(dim), CrossAttention(dim, heads)
        self.mlp_norm = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, table: Float[Tensor, "b s c"], image: Tokens, *, first: bool = False) -> Float[Tensor, "b r c"]:
        """The new states of all positions, or of the `first` alone."""
        normed = self.attention_norm(table)
        state = table[:, :1] + self.attention.first(normed) if first else table + self.attention(normed)
        state = state + self.cross(self.cross_norm(state), image)
        return state + self.mlp(self.mlp_norm(state))


class Interaction(nn.Module):
    """States of a table after attention to an image. `read` makes the image's tokens, normalised once for all blocks.

    >>> look = Interaction(32, 16, depth=1, heads=2)
    >>> look(torch.zeros(2, 6, 16), look.read(torch.zeros(2, 4, 32))).shape
    torch.Size([2, 6, 16])
    """

    def __init__(self, channels: int, width: int = 512, *, depth: int = 4, heads: int = 8) -> None:
        super().__init__()
        self.read = nn.Sequential(nn.Linear(channels, width), nn.LayerNorm(width))
        self.blocks = nn.ModuleList(InteractionBlock(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        initialise(self)

    def forward(self, table: Float[Tensor, "b s c"], image: Tokens, *, first: bool = False) -> Float[Tensor, "b r c"]:
        """All positions, or the `first` alone; the last block computes nothing else."""
        for block in self.blocks[:-1]:
            table = block(table, image)
        return self.norm(self.blocks[-1](table, image, first=first))
