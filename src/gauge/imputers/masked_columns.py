"""Masked columns: missing table cells by a Transformer trained to restore hidden ones; other modalities from donors."""

from collections.abc import Mapping, Sequence
from typing import Self

import torch
from torch import Tensor, nn

from gauge.data import Dataset
from gauge.imputers._table import TableImputer, cells_of, doubts, filled, find_donors, find_table
from gauge.imputers.nearest import Nearest
from gauge.nn.tabular import CellHeads, TabularTransformer, check_columns, share_of
from gauge.randomness import choose, derive
from gauge.values import Batch

__all__ = ["MaskedColumns"]


class MaskedColumns(TableImputer):
    """TIP without an image: trained to restore half of a row's observed cells from the other half. Whole modalities (images,
    texts) are imputed as in `nearest`.

    >>> inputs = {"blood": torch.tensor([[0.0, 0.3], [2, 0.1], [1, 0.7], [2, 0.5]])}
    >>> train = Dataset("train", inputs, torch.zeros(4).long(), {"blood": torch.ones(4, 2).bool()})
    >>> list(MaskedColumns.from_dataset(train, cardinalities=(3, 1)).loss(train.batch(torch.arange(4))))
    ['reconstruction']
    """

    def __init__(
        self,
        table: str,
        cardinalities: Sequence[int],
        donors: Nearest | None = None,
        *,
        width: int = 32,
        depth: int = 2,
        heads: int = 4,
        masked: float = 0.5,
    ) -> None:
        super().__init__()
        self.name = table
        self.table = TabularTransformer(cardinalities, width, depth=depth, heads=heads)
        self.heads = CellHeads(self.table.columns, width)
        self.donors = donors
        self.masked = nn.Buffer(share_of(masked, len(cardinalities)), persistent=False)

    @classmethod
    def from_dataset(
        cls,
        train: Dataset,
        cardinalities: Sequence[int] | None = None,
        donors: int = 1000,
        seed: int = 0,
        **sizes: float,
    ) -> Self:
        """The table is the modality whose cells have their own flags. Columns are numeric unless `cardinalities` gives their
        number of categories. `sizes`: width, depth, heads, and the share `masked` of cells hidden in training."""
        table = find_table(train, "masked_columns")
        columns = check_columns(train.shapes[table], cardinalities)
        return cls(table, columns, find_donors(train, donors, seed), **sizes)  # type: ignore[arg-type]

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Missing cells are neither read, hidden nor scored."""
        table, observed = cells_of(batch, self.name)
        hidden = choose(derive(batch.key, "masked"), observed, self.masked)
        states = self.table(table, observed & ~hidden)[:, 1:]
        return {"reconstruction": self.heads.cost(states, table, hidden)}

    @torch.no_grad()
    def complete(self, batch: Batch) -> Batch:
        table, observed = cells_of(batch, self.name)
        return filled(batch, self.name, self.heads(self.table(table, observed)[:, 1:]), self.donors)

    @torch.no_grad()
    def uncertainty(self, batch: Batch) -> Mapping[str, Tensor]:
        """The uncertainty of cells is that of `tip`, that of other modalities the distance of the donor."""
        table, observed = cells_of(batch, self.name)
        own = doubts(self.heads, lambda seen: self.table(table, seen)[:, 1:], observed, batch.key, self.masked)
        return {**({} if self.donors is None else self.donors.uncertainty(batch)), self.name: own}
