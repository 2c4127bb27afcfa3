"""What the imputers of a table share: which modality the table is, its cells, and donors for everything beside it."""

from jaxtyping import Bool, Float
from torch import Tensor

from gauge.data import Dataset
from gauge.imputers.nearest import Nearest
from gauge.model.nn.tabular import by_cell
from gauge.types import Batch


def find_table(train: Dataset, imputer: str) -> str:
    """The modality whose cells have flags of their own."""
    tables = [name for name, features in train.layout.items() if features is not None]
    if len(tables) != 1:
        raise ValueError(f"{imputer} fills one table with a flag for each cell; the data has {len(tables)}")
    return tables[0]


def find_donors(train: Dataset, count: int = 1000, seed: int = 0) -> Nearest | None:
    """Training samples that whole modalities are taken from; none where the table is all there is."""
    return Nearest.of(train, count, seed) if len(train.layout) > 1 else None


def cells_of(batch: Batch, table: str) -> tuple[Float[Tensor, "b f"], Bool[Tensor, "b f"]]:
    """The table with zeros where nothing was observed, and a flag for each cell."""
    values = batch.inputs[table]
    clean = batch.filled({table: values.new_zeros(())}).inputs[table]
    return clean, by_cell(batch.observed[table], clean)


def filled(batch: Batch, table: str, values: Float[Tensor, "b f"], donors: Nearest | None) -> Batch:
    """The batch with `values` in the gaps of its table and those of donors in all others."""
    return (batch if donors is None else donors.complete(batch)).filled({table: values})
