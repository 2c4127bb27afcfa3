"""Shared by the imputers of tables: finding the table, reading its cells, and donors for all other modalities."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gauge.data import Dataset
from gauge.imputers.nearest import Nearest
from gauge.nn.tabular import CellHeads, by_cell
from gauge.randomness import choose, derive
from gauge.types import Imputer, UnsupportedError
from gauge.values import Batch


class TableImputer(Imputer):
    """An imputer of the cells of a table, which imputes all other modalities from its `donors`, if there are any."""

    needs_table = True
    donors: Nearest | None


def find_table(train: Dataset, imputer: str) -> str:
    """The modality whose cells have their own flags."""
    tables = [name for name, features in train.feature_counts.items() if features is not None]
    if len(tables) != 1:
        raise UnsupportedError(f"{imputer} fills one table with a flag for each cell; the data has {len(tables)}")
    return tables[0]


def find_donors(train: Dataset, count: int = 1000, seed: int = 0) -> Nearest | None:
    """Training samples from which whole modalities are imputed; None where the table is the only modality."""
    return Nearest.from_dataset(train, count, seed) if len(train.feature_counts) > 1 else None


def cells_of(batch: Batch, table: str) -> tuple[Float[Tensor, "b f"], Bool[Tensor, "b f"]]:
    """The table with zeros where nothing was observed, and a flag for each cell."""
    values = batch.filled({table: batch.inputs[table].new_zeros(())}).inputs[table]
    return values, by_cell(batch.observed[table], values)


def filled(batch: Batch, table: str, values: Float[Tensor, "b f"], donors: Nearest | None) -> Batch:
    """The batch with `values` in the missing cells of its table; other modalities are imputed from donors."""
    return (batch if donors is None else donors.complete(batch)).filled({table: values})


def doubts(
    heads: CellHeads,
    states: Callable[[Bool[Tensor, "b f"]], Float[Tensor, "b f d"]],
    observed: Bool[Tensor, "b f"],
    key: Int[Tensor, "b"],
    hidden: Int[Tensor, "n"],
) -> Float[Tensor, "b f"]:
    """How uncertain the imputed cells are. `states` are those of the columns, given which cells are read; draws hide random
    ones, `hidden[c]` of c that are observed."""
    # draws of imputed numbers, each without some of the observed cells
    draws = [
        heads(states(observed & ~choose(derive(key, "draw", str(number)), observed, hidden))) for number in range(3)
    ]
    return heads.doubt(states(observed), torch.stack(draws))
