"""Zero: every missing value becomes 0."""

from typing import Self

from gauge.data import Dataset
from gauge.types import Imputer
from gauge.values import Batch

__all__ = ["Zero"]


class Zero(Imputer):
    """The simplest imputer."""

    @classmethod
    def from_dataset(cls, train: Dataset) -> Self:
        return cls()

    def complete(self, batch: Batch) -> Batch:
        return batch.blanked()
