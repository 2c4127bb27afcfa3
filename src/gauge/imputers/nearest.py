"""Nearest (hot deck): what is missing comes from the training sample most alike in what both have observed."""

from collections.abc import Mapping
from typing import Self

import torch
from torch import Tensor

from gauge.data import Dataset
from gauge.data.dataset import as_values
from gauge.randomness import permutation
from gauge.types import Batch, Imputer, over_values

__all__ = ["Nearest"]

DISTANCES_AT_ONCE = 2**24


class Nearest(Imputer):
    """Real values from real donors. Likeness is the mean squared difference over jointly observed features, each
    modality scaled to unit variance and weighted equally; integers (tokens, categories) count as equal or different.
    A feature is taken from the nearest donor that has it.
    """

    def __init__(self, donors: Mapping[str, Tensor], observed: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.modalities = tuple(donors)
        for name, values in donors.items():
            there = over_values(observed[name], values)
            values = torch.where(there, values, torch.zeros((), dtype=values.dtype, device=values.device))
            self.register_buffer(f"values_{name}", values)
            self.register_buffer(f"observed_{name}", observed[name])
            self.register_buffer(f"scale_{name}", _scale(as_values(values), observed[name]))

    @classmethod
    def of(cls, train: Dataset, donors: int = 1000, seed: int = 0) -> Self:
        rows = permutation(len(train), seed, "donors", device=train.device)[:donors].sort().values
        return cls(
            {name: values[rows] for name, values in train.inputs.items()},
            {name: flags[rows] for name, flags in train.observed.items()},
        )

    def complete(self, batch: Batch) -> Batch:
        donors = len(self.get_buffer(f"observed_{self.modalities[0]}"))
        widest = max(self._flags(name).shape[1] for name in self.modalities)
        chunks = torch.arange(len(batch), device=batch.index.device).split(
            max(1, DISTANCES_AT_ONCE // (donors * widest))
        )
        filled: dict[str, list[Tensor]] = {name: [] for name in self.modalities}
        for rows in chunks:
            distance = self._distance(batch, rows)
            for name in self.modalities:
                filled[name].append(self._borrow(name, distance))
        return batch.filled({name: torch.cat(parts) for name, parts in filled.items()})

    def _distance(self, batch: Batch, rows: Tensor) -> Tensor:
        """[rows, donors]: the mean over the modalities that both have something of."""
        total: Tensor | float = 0.0
        shared: Tensor | float = 0.0
        for name in self.modalities:
            mine, observed = batch.inputs[name][rows], batch.observed[name][rows]
            theirs = as_values(self.get_buffer(f"values_{name}"))
            difference, count = _joint(
                mine, observed, theirs, self.get_buffer(f"observed_{name}"), self.get_buffer(f"scale_{name}")
            )
            total = total + difference / count.clamp_min(1)
            shared = shared + (count > 0)
        assert isinstance(total, Tensor)
        assert isinstance(shared, Tensor)
        return torch.where(shared > 0, total / shared.clamp_min(1), torch.finfo(torch.float32).max)

    def _borrow(self, name: str, distance: Tensor) -> Tensor:
        values, flags = as_values(self.get_buffer(f"values_{name}")), self._flags(name)
        donor = torch.where(flags, distance[..., None], torch.inf).argmin(1)
        if flags.shape[1] == 1:
            return values[donor[:, 0]]
        return values[donor, torch.arange(flags.shape[1], device=donor.device)]

    def _flags(self, name: str) -> Tensor:
        return self.get_buffer(f"observed_{name}").reshape(len(self.get_buffer(f"observed_{name}")), -1)


def _scale(values: Tensor, observed: Tensor) -> Tensor:
    """1 / deviation: for each column of a table, for the whole of anything larger; 1 for integers."""
    if not values.is_floating_point():
        return torch.ones((), device=values.device)
    weight = over_values(observed, values).expand_as(values).float()
    values = torch.where(weight > 0, values, 0.0)
    axes = (0,) if values.ndim == 2 else tuple(range(values.ndim))
    count = weight.sum(axes).clamp_min(1)
    mean = (values * weight).sum(axes) / count
    return ((values - mean).square() * weight).sum(axes).div(count).sqrt().clamp_min(1e-6).reciprocal()


def _joint(x: Tensor, x_observed: Tensor, y: Tensor, y_observed: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """Summed differences over jointly observed features, and their number, for every pair."""
    x_flags = over_values(x_observed, x).expand_as(x).flatten(1)
    y_flags = over_values(y_observed, y).expand_as(y).flatten(1)
    x_weight, y_weight = x_flags.float(), y_flags.float()
    count = x_weight @ y_weight.T
    if not x.is_floating_point():
        differ = (x.flatten(1)[:, None] != y.flatten(1)) & x_flags[:, None] & y_flags
        return differ.sum(-1).float(), count
    x_scaled = torch.where(x_flags, (x.float() * scale.float()).flatten(1), 0.0)
    y_scaled = torch.where(y_flags, (y.float() * scale.float()).flatten(1), 0.0)
    difference = x_scaled.square() @ y_weight.T + x_weight @ y_scaled.square().T - 2 * x_scaled @ y_scaled.T
    return difference.clamp_min(0), count
