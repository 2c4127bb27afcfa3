"""Mean: every missing value becomes the mean of the observed training values."""

from collections.abc import Mapping
from typing import Self

import torch
from torch import Tensor

from gauge.data import Dataset
from gauge.types import Imputer
from gauge.values import Batch, over_values

__all__ = ["Mean"]


class Mean(Imputer):
    """One mean for each feature or pixel; 0 where no training value is observed."""

    def __init__(self, means: Mapping[str, Tensor]) -> None:
        super().__init__()
        for name, values in means.items():
            self.register_buffer(f"mean_{name}", values)

    @classmethod
    def from_dataset(cls, train: Dataset) -> Self:
        sums = {name: torch.zeros(shape, device=train.device) for name, shape in train.shapes.items()}
        counts = {name: torch.zeros_like(values) for name, values in sums.items()}
        for batch in train.batches(1024):
            for name, values in batch.inputs.items():
                observed = over_values(batch.observed[name], values)
                sums[name] += torch.where(observed, values, 0.0).sum(0)
                counts[name] += observed.sum(0)
        return cls({name: sums[name] / counts[name].clamp_min(1) for name in sums})

    def complete(self, batch: Batch) -> Batch:
        return batch.filled({name: self.get_buffer(f"mean_{name}") for name in batch.modalities})
