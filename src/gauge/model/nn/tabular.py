"""Transformers of tables: one state per column, missing cells hidden from all others; and tables that look at images."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gauge.model.nn.attention import Attention, Block, initialise, small_parameter

FREQUENCY = 0.1  # deviation of the first frequencies, in waves per unit


def by_cell(observed: Tensor, table: Tensor) -> Bool[Tensor, "b f"]:
    """One flag for each cell, where there may be only one for each sample."""
    return observed.reshape(len(table), -1).expand_as(table)


def check_columns(shape: Sequence[int], cardinalities: Sequence[int] | None) -> tuple[int, ...]:
    """The number of categories of every column, 1 for numbers; all columns hold numbers when nothing is said."""
    if len(shape) != 1:
        raise ValueError(f"a table has shape [columns], not {list(shape)}; flatten it or choose another network")
    if cardinalities is None:
        return (1,) * shape[0]
    if len(cardinalities) != shape[0] or min(cardinalities, default=0) < 1:
        raise ValueError(
            f"cardinalities {list(cardinalities)} do not describe a table of {shape[0]} columns; give one number per "
            "column, 1 where it holds numbers and the number of categories elsewhere"
        )
    return tuple(cardinalities)


class ColumnLayout(nn.Module):
    """Which columns hold categories, how many each, and which hold numbers (cardinality 1); it has no state.

    >>> columns = ColumnLayout((3, 1, 2))
    >>> columns.codes(torch.tensor([[2.0, -0.7, 5.0]])).tolist()
    [[2, 1]]
    """

    def __init__(self, cardinalities: Sequence[int]) -> None:
        super().__init__()
        categorical = [column for column, size in enumerate(cardinalities) if size > 1]
        numbers = [column for column, size in enumerate(cardinalities) if size == 1]
        sizes = [cardinalities[column] for column in categorical]
        self.count, self.total = len(cardinalities), sum(sizes)
        self._remember("categorical", categorical)
        self._remember("numbers", numbers)
        self._remember("sizes", sizes)
        self._remember("offsets", [sum(sizes[:place]) for place in range(len(sizes))])
        self._remember("order", _inverse([*categorical, *numbers]))
        self.categorical: Tensor
        self.numbers: Tensor
        self.sizes: Tensor
        self.offsets: Tensor
        self.order: Tensor

    def _remember(self, name: str, values: Sequence[int]) -> None:
        self.register_buffer(name, torch.tensor(values, dtype=torch.long), persistent=False)

    def codes(self, table: Float[Tensor, "b f"]) -> Tensor:
        """The categories of the categorical columns, each from 0 to its size - 1; codes are rounded and kept within their
        column, as an imputer may give any number."""
        return table[:, self.categorical].round().long().clamp_min(0).minimum(self.sizes - 1)

    def in_order(self, *parts: Tensor) -> Tensor:
        """What was made of the categorical columns and of the numbers, in the order of the table."""
        return torch.cat(parts, 1)[:, self.order]


class Numbers(nn.Module):
    """Numbers -> vectors, with weights of each column's own. A number x is read as x and as the sine and cosine of learned
    multiples of it, so that a threshold anywhere is easy to learn (Gorishniy et al. 2022)."""

    def __init__(self, count: int, width: int, waves: int) -> None:
        super().__init__()
        self.frequencies = nn.Parameter(torch.randn(count, waves) * FREQUENCY)
        self.weight = nn.Parameter(torch.randn(count, 2 * waves + 1, width) * (2 * waves + 1) ** -0.5)
        self.offset = small_parameter(count, width)

    def forward(self, x: Float[Tensor, "b f 1"]) -> Float[Tensor, "b f c"]:
        phase = 2 * math.pi * x * self.frequencies
        features = torch.cat([x, phase.sin(), phase.cos()], -1)
        return torch.einsum("bfk,fkc->bfc", features, self.weight) + self.offset


class TabularTransformer(nn.Module):
    """A table and its flags -> the states of CLS and of every column.

    `cardinalities` says how many categories a column has, 1 for a number. Categories share one embedding, numbers one
    Linear, missing cells one token: what tells columns apart is their position. With `waves` every column of numbers has
    weights of its own, which is learned much faster where there are many. A missing cell is hidden as key from every query
    but its own.

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
        self.missing = small_parameter(width)
        self.cls = small_parameter(width)
        self.positions = nn.Embedding(len(cardinalities) + 1, width)
        self.norm = nn.LayerNorm(width)
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
        state = torch.cat([self.cls.to(values.dtype).expand(len(table), 1, -1), values], 1)
        state = self.norm(state + self.positions.weight)
        bias = self_excluding(observed)
        for block in self.blocks:
            state = block(state, bias)
        return state


class CellHeads(nn.Module):
    """States of columns -> the cells of the table, and what it costs to be wrong about them.

    `unrestricted` lets a column's category be looked for among those of all columns.
    """

    def __init__(self, columns: ColumnLayout, width: int, *, unrestricted: bool = False) -> None:
        super().__init__()
        self.columns, self.unrestricted = columns, unrestricted
        self.categories = nn.Linear(width, columns.total) if columns.total else None
        self.numbers = nn.Linear(width, 1) if len(columns.numbers) else None
        category, first = torch.arange(columns.total), columns.offsets[:, None]
        own = (category >= first) & (category < first + columns.sizes[:, None])
        self.register_buffer("own", own, persistent=False)
        self.own: Tensor

    def forward(self, states: Float[Tensor, "b f d"]) -> Float[Tensor, "b f"]:
        """The likeliest category and the expected number of every cell."""
        columns, parts = self.columns, []
        if self.categories is not None:
            scores = self.categories(states[:, columns.categorical])
            if not self.unrestricted:
                scores = scores.masked_fill(~self.own, -torch.inf)
            codes = (scores.argmax(-1) - columns.offsets).clamp_min(0).minimum(columns.sizes - 1)
            parts.append(codes.float())
        if self.numbers is not None:
            parts.append(self.numbers(states[:, columns.numbers])[..., 0].float())
        return columns.in_order(*parts)

    def cost(
        self, states: Float[Tensor, "b f d"], table: Float[Tensor, "b f"], hidden: Bool[Tensor, "b f"]
    ) -> Float[Tensor, ""]:
        """The mean over hidden categories of -log p, p over the categories of all columns, and over hidden numbers of the
        squared error; half of each where there are both."""
        columns, costs = self.columns, []
        if self.categories is not None:
            scores = self.categories(states[:, columns.categorical])
            truth = (columns.codes(table) + columns.offsets)[..., None]
            cost = -(scores.softmax(-1).gather(-1, truth)[..., 0] + 1e-8).log()
            costs.append(_mean(cost, hidden[:, columns.categorical]))
        if self.numbers is not None:
            found = self.numbers(states[:, columns.numbers])[..., 0]
            costs.append(_mean((found - table[:, columns.numbers]).square(), hidden[:, columns.numbers]))
        return torch.stack(costs).mean()


def share_of(share: float, columns: int) -> Int[Tensor, "n"]:
    """How many of 0, 1, ... `columns` entries that share is, to the even neighbour."""
    return torch.tensor([round(share * count) for count in range(columns + 1)])


def self_excluding(observed: Bool[Tensor, "b f"]) -> Float[Tensor, "b 1 s s"]:
    """The additive bias that hides missing columns as keys from every query except themselves; CLS is never hidden."""
    seen = F.pad(observed, (1, 0), value=True)
    itself = torch.eye(seen.shape[1], dtype=torch.bool, device=seen.device)
    return torch.where(seen[:, None, None] | itself, 0.0, -1e9)


class CrossAttention(nn.Module):
    """What a sequence gathers from another one: queries with bias, keys and values without."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dim, dim)
        self.key_value = nn.Linear(dim, 2 * dim, bias=False)
        self.project = nn.Linear(dim, dim)

    def forward(self, sequence: Float[Tensor, "b s c"], other: Float[Tensor, "b n c"]) -> Float[Tensor, "b s c"]:
        key, value = self.key_value(other).chunk(2, -1)
        query, key, value = (self._heads(part) for part in (self.query(sequence), key, value))
        gathered = F.scaled_dot_product_attention(query, key, value)
        return self.project(gathered.transpose(1, 2).flatten(2))

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class InteractionBlock(nn.Module):
    """Self-attention over the table, cross-attention to the image, MLP: all pre-norm and residual."""

    def __init__(self, dim: int, heads: int, mlp_ratio: int = 4) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(dim)
        self.attention = Attention(dim, heads)
        self.cross_norm = nn.LayerNorm(dim)
        self.cross = CrossAttention(dim, heads)
        self.mlp_norm = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, mlp_ratio * dim), nn.GELU(), nn.Linear(mlp_ratio * dim, dim))

    def forward(
        self, table: Float[Tensor, "b s c"], image: Float[Tensor, "b n c"], reads: int | None = None
    ) -> Float[Tensor, "b r c"]:
        """The new states of the first `reads` positions, all when None."""
        state = table[:, :reads] + self.attention(self.attention_norm(table), reads=reads)
        state = state + self.cross(self.cross_norm(state), image)
        return state + self.mlp(self.mlp_norm(state))


class Interaction(nn.Module):
    """States of a table that have looked at an image. `read` makes the tokens of the image, normalised once for all blocks.

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

    def forward(
        self, table: Float[Tensor, "b s c"], image: Float[Tensor, "b n c"], reads: int | None = None
    ) -> Float[Tensor, "b r c"]:
        """The first `reads` positions, all when None; in the last block nothing else is computed."""
        for block in self.blocks[:-1]:
            table = block(table, image)
        return self.norm(self.blocks[-1](table, image, reads))


def _mean(costs: Float[Tensor, "b f"], counted: Bool[Tensor, "b f"]) -> Float[Tensor, ""]:
    """The mean over what counts, 0 where nothing does."""
    return (costs * counted).sum() / counted.sum().clamp_min(1)


def _inverse(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=order.__getitem__)
