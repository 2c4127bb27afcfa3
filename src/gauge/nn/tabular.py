"""Columns of tables: their order and kinds, numbers with weights of their own, and heads that tell a cell from its state."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gauge.nn.initialise import small_parameter


def by_cell(observed: Tensor, table: Tensor) -> Bool[Tensor, "b f"]:
    """The flags as one per cell, also where there is only one per sample."""
    return observed.reshape(table.shape[0], -1).expand_as(table)


def check_columns(shape: Sequence[int], cardinalities: Sequence[int] | None) -> tuple[int, ...]:
    """The number of categories of every column, 1 for numeric ones; all columns are numeric by default."""
    if len(shape) != 1:
        raise ValueError(f"a table has shape [columns], not {list(shape)}; flatten it or choose another network")
    if cardinalities is None:
        return (1,) * shape[0]
    if len(cardinalities) != shape[0] or min(cardinalities, default=0) < 1:
        raise ValueError(
            f"cardinalities {list(cardinalities)} do not describe a table of {shape[0]} columns; give one number per "
            "column, 1 for numeric columns and the number of categories for the others"
        )
    return tuple(cardinalities)


class ColumnLayout(nn.Module):
    """Which columns are categorical, with how many categories each, and which are numeric (cardinality 1); no state.

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
        self.categorical, self.numbers, self.sizes = _integers(categorical), _integers(numbers), _integers(sizes)
        self.offsets = _integers([sum(sizes[:index]) for index in range(len(sizes))])
        self.last = _integers([size - 1 for size in sizes])
        self.order = nn.Buffer(_integers([*categorical, *numbers]).argsort(), persistent=False)

    def codes(self, table: Float[Tensor, "b f"]) -> Tensor:
        """The categories of the categorical columns, rounded and clamped to the column's range: imputers may return any
        number."""
        codes = table.index_select(1, self.categorical)
        codes = codes.round().long() if codes.is_floating_point() else codes.long()
        return codes.clamp_min(0).minimum(self.last)

    def in_order(self, *parts: Tensor) -> Tensor:
        """The results for the categorical and the numeric columns, in the order of the table."""
        return torch.cat(parts, 1).index_select(1, self.order)


class Numbers(nn.Module):
    """Numbers -> vectors, with separate weights for each column. A number is read along with sines and cosines of learned
    multiples of it, which makes thresholds easy to learn (Gorishniy et al. 2022)."""

    def __init__(self, count: int, width: int, waves: int) -> None:
        super().__init__()
        # deviation of the first frequencies, in waves per unit
        self.frequencies = nn.Parameter(torch.randn(count, waves) * 0.1)
        self.weight = nn.Parameter(torch.randn(count, 2 * waves + 1, width) * (2 * waves + 1) ** -0.5)
        self.offset = small_parameter(count, width)

    def forward(self, x: Float[Tensor, "b f 1"]) -> Float[Tensor, "b f c"]:
        phase = 2 * math.pi * x * self.frequencies
        features = torch.cat([x, phase.sin(), phase.cos()], -1)
        return torch.baddbmm(self.offset[:, None], features.transpose(0, 1), self.weight).transpose(0, 1)


class CellHeads(nn.Module):
    """States of columns -> the cells of the table, and their reconstruction loss. With `unrestricted` a column's category is
    chosen among those of all columns."""

    def __init__(self, columns: ColumnLayout, width: int, *, unrestricted: bool = False) -> None:
        super().__init__()
        self.columns, self.unrestricted = columns, unrestricted
        self.categories = nn.Linear(width, columns.total) if columns.total else None
        self.numbers = nn.Linear(width, 1) if len(columns.numbers) else None
        category, first, end = torch.arange(columns.total), columns.offsets, columns.offsets + columns.sizes
        self.own = nn.Buffer((category >= first[:, None]) & (category < end[:, None]), persistent=False)

    def forward(self, states: Float[Tensor, "b f d"]) -> Float[Tensor, "b f"]:
        """The most likely category or the expected number of every cell."""
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
        """The mean -log p of hidden categories, with p over the categories of all columns, and the mean squared error of
        hidden numbers; half of each where there are both."""
        columns, costs = self.columns, []
        if self.categories is not None:
            scores = self.categories(states[:, columns.categorical])
            truth = (columns.codes(table) + columns.offsets)[..., None]
            cost = -(scores.softmax(-1).gather(-1, truth)[..., 0] + 1e-8).log()
            costs.append(_mean(cost, hidden[:, columns.categorical]))
        if self.numbers is not None:
            errors = self.numbers(states[:, columns.numbers])[..., 0] - table[:, columns.numbers]
            costs.append(_mean(errors.square(), hidden[:, columns.numbers]))
        return torch.stack(costs).mean()


def share_of(share: float, columns: int) -> Int[Tensor, "n"]:
    """That share of 0, 1, ... `columns` entries, rounded half to even."""
    return torch.tensor([round(share * count) for count in range(columns + 1)])


def _mean(costs: Float[Tensor, "b f"], counted: Bool[Tensor, "b f"]) -> Float[Tensor, ""]:
    """The mean over the counted entries, 0 where there are none."""
    return (costs * counted).sum() / counted.sum().clamp_min(1)


def _integers(values: Sequence[int]) -> Tensor:
    return nn.Buffer(torch.tensor(values, dtype=torch.long), persistent=False)
