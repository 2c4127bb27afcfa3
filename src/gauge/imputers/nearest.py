"""Nearest (hot deck): missing values come from the training sample most similar in the jointly observed values."""

from collections.abc import Iterator, Mapping
from typing import Self

import torch
from jaxtyping import Int
from torch import Tensor, nn

from gauge.data import Dataset
from gauge.data.dataset import as_values
from gauge.randomness import permutation
from gauge.types import Imputer, is_traced
from gauge.values import Batch, over_values

__all__ = ["Nearest"]


class Nearest(Imputer):
    """The distance is the mean squared difference over jointly observed features, with each modality scaled to unit variance
    and weighted equally; integers are equal or different. Each feature comes from the nearest donor that has it. `rows` are
    the rows of the donors in their split: no sample with a label is its own donor, as training samples with hidden values
    would otherwise find them again. Samples to predict have no label, so their position in a table does not matter."""

    def __init__(
        self, donors: Mapping[str, Tensor], observed: Mapping[str, Tensor], rows: Int[Tensor, "d"] | None = None
    ) -> None:
        super().__init__()
        self.modalities = tuple(donors)
        count = len(next(iter(donors.values())))
        self.rows = nn.Buffer(torch.full((count,), -1) if rows is None else rows, persistent=False)
        for name, values in donors.items():
            values = torch.where(over_values(observed[name], values), values, values.new_zeros(()))
            self.register_buffer(f"values_{name}", values)
            self.register_buffer(f"observed_{name}", observed[name])
            self.register_buffer(f"scale_{name}", _scale(as_values(values), observed[name]))

    @classmethod
    def from_dataset(cls, train: Dataset, donors: int = 1000, seed: int = 0) -> Self:
        rows = permutation(len(train), seed, "donors", device=train.device)[:donors].sort().values
        chosen = train.take(rows)
        return cls(chosen.inputs, chosen.observed, rows)

    def complete(self, batch: Batch) -> Batch:
        parts = [{name: self._borrow(name, part) for name in self.modalities} for part in self._distances(batch)]
        return batch.filled({name: torch.cat([part[name] for part in parts]) for name in self.modalities})

    def _distances(self, batch: Batch) -> Iterator[Tensor]:
        """The distances of all samples to the donors, in parts of several samples."""
        largest = max(self._donors(name)[1].numel() for name in self.modalities)
        rows = torch.arange(batch.index.shape[0], device=batch.index.device)
        chunks = [rows] if is_traced(rows) else rows.split(max(1, 2**24 // largest))  # distances at once
        return (self._distance(batch, rows) for rows in chunks)

    def _donors(self, name: str) -> tuple[Tensor, Tensor, Tensor]:
        """The donors' values, their flags, and the scale of the values."""
        values, observed, scale = (self.get_buffer(f"{part}_{name}") for part in ("values", "observed", "scale"))
        return as_values(values), observed, scale

    def _distance(self, batch: Batch, rows: Tensor) -> Tensor:
        """[rows, donors]: the mean over the modalities in which both have observed values."""
        total = shared = torch.zeros((), device=rows.device)
        for name in self.modalities:
            difference, count = _joint(batch.inputs[name][rows], batch.observed[name][rows], *self._donors(name))
            total = total + difference / count.clamp_min(1)
            shared = shared + (count > 0)
        # donors that share no value lie beyond all others, but still give if there is no other
        distance = torch.where(shared > 0, total / shared.clamp_min(1), 1e30)
        if batch.labels is None:
            return distance
        equal = (distance < 1e-4) | (shared == 0)  # squared distance of equal samples, which rounding makes differ
        # the sample itself lies even farther
        return torch.where(equal & (batch.index[rows][:, None] == self.rows), 1e31, distance)

    def _borrow(self, name: str, distance: Tensor) -> Tensor:
        values, donor = self._donors(name)[0], self._nearest(name, distance)
        if donor.shape[1] == 1:
            return values[donor[:, 0]]
        return values[donor, torch.arange(donor.shape[1], device=donor.device)]

    def _nearest(self, name: str, distance: Tensor) -> Int[Tensor, "b f"]:
        """The nearest donor that has each feature of a modality."""
        observed = self._donors(name)[1]
        flags = observed.reshape(len(observed), -1)
        return torch.where(flags, distance[..., None], torch.inf).argmin(1)


def _scale(values: Tensor, observed: Tensor) -> Tensor:
    """1 / deviation, for each column of a table or over all other values; 1 for integers."""
    if not values.is_floating_point():
        return torch.ones((), device=values.device)
    weight = over_values(observed, values).expand_as(values).float()
    values = torch.where(weight > 0, values, 0.0)
    axes = (0,) if values.ndim == 2 else tuple(range(values.ndim))
    count = weight.sum(axes).clamp_min(1)
    mean = (values * weight).sum(axes) / count
    return ((values - mean).square() * weight).sum(axes).div(count).sqrt().clamp_min(1e-6).reciprocal()


def _joint(x: Tensor, x_observed: Tensor, y: Tensor, y_observed: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """The summed differences over jointly observed features, and the number of these, for every pair."""
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
