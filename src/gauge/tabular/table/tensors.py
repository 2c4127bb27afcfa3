"""Rows of a table as tensors, for the network: all that imports torch of what is not the network itself."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from gauge.data.dataset import Dataset, as_values
from gauge.tabular.table.schema import Encoded
from gauge.values import Batch


def dataset(encoded: Encoded, split: str, rows: np.ndarray, labels: np.ndarray) -> Dataset:
    """Return some of the rows as a split; `labels` are those of all."""
    inputs, observed = tensors(encoded.take(rows))
    return Dataset(split, inputs, torch.from_numpy(labels[rows]).long(), observed)


def batches(encoded: Encoded, device: torch.device, size: int = 1024) -> Iterator[Batch]:
    """Yield the rows that have values, `size` at a time; `index` is their position in the table."""
    full = np.flatnonzero(~encoded.empty)
    for start in range(0, len(full), size):
        rows = full[start : start + size]
        own = encoded.take(slice(start, start + size) if len(full) == len(encoded.empty) else rows)
        inputs, observed = (
            {name: as_values(each).to(device, non_blocking=True) for name, each in part.items()}
            for part in tensors(own)
        )
        yield Batch(inputs, observed, index=torch.from_numpy(rows).to(device))


def tensors(encoded: Encoded) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return values and flags, which share memory with the arrays."""
    inputs, observed = (
        {name: torch.from_numpy(each) for name, each in part.items()} for part in (encoded.inputs, encoded.observed)
    )
    return inputs, observed
