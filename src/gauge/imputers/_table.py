"""Shared by the imputers of tables: finding the table, reading its cells, and donors for all other modalities."""

from jaxtyping import Bool, Float
from torch import Tensor

from gauge.data import Dataset
from gauge.imputers.nearest import Nearest
from gauge.model.nn.tabular import by_cell
from gauge.types import Batch


def find_table(train: Dataset, imputer: str) -> str:
    """The modality whose cells have their own flags."""
    tables = [name for name, features in train.layout.items() if features is not None]
    if len(tables) != 1:
        raise ValueError(f"{imputer} fills one table with a flag for each cell; the data has {len(tables)}")
    return tables[0]


def find_donors(train: Dataset, count: int = 1000, seed: int = 0) -> Nearest | None:
    """Training samples from which whole modalities are imputed; None where the table is the only modality."""
    return Nearest.of(train, count, seed) if len(train.layout) > 1 else None


def cells_of(batch: Batch, table: str) -> tuple[Float[Tensor, "b f"], Bool[Tensor, "b f"]]:
    """The table with zeros where nothing was observed, and a flag for each cell."""
    values = batch.filled({table: batch.inputs[table].new_zeros(())}).inputs[table]
    return values, by_cell(batch.observed[table], values)


def filled(batch: Batch, table: str, values: Float[Tensor, "b f"], donors: Nearest | None) -> Batch:
    """The batch with `values` in the missing cells of its table; other modalities are imputed from donors."""
    return (batch if donors is None else donors.complete(batch)).filled({table: values})
