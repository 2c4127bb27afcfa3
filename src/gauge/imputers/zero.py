"""Zero: every missing value becomes 0."""

from typing import Self

import torch

from gauge.data import Dataset
from gauge.types import Batch, Imputer

__all__ = ["Zero"]


class Zero(Imputer):
    """The fill that pretends nothing."""

    @classmethod
    def of(cls, train: Dataset) -> Self:
        return cls()

    def complete(self, batch: Batch) -> Batch:
        return batch.filled({name: torch.zeros_like(values) for name, values in batch.inputs.items()})
