"""Contrastive (learned hot deck): missing values come from the training sample nearest in a space all modalities share.

    z_m = e_m(x_m) / ‖e_m(x_m)‖,   loss = mean over pairs m ≠ m' of -log softmax_j(z_m[i] · z_m'[j] / t)[i]   (InfoNCE)

Modalities of one sample are pulled together and those of different samples apart, so the space keeps what modalities share,
such as the class, and drops what is private to each, such as the background of a photo.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Self

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gauge.data import Dataset
from gauge.data.dataset import as_values
from gauge.imputers.nearest import draw_donors
from gauge.nn.contrast import pair_costs
from gauge.nn.conv import deep_trunk
from gauge.nn.mlp import mlp
from gauge.types import Imputer
from gauge.values import Batch, over_values

__all__ = ["Contrastive"]


class Contrastive(Imputer):
    """Images are read by small convolutions, everything else by one hidden layer. A donor's values are real ones, so an
    imputed image is sharp, if perhaps the wrong one. No sample is its own donor, because training samples with hidden
    values would otherwise find these values again. `looks_across_batch` is False, as only the loss compares samples.

    >>> data = Dataset("train", {"photo": torch.rand(4, 1, 8, 8), "pulse": torch.rand(4, 6)}, torch.zeros(4).long())
    >>> imputer = Contrastive.from_dataset(data, donors=3, width=8)
    >>> list(imputer.loss(data.batch(torch.arange(4))))
    ['contrast']
    """

    def __init__(
        self,
        encoders: Mapping[str, nn.Module],
        donors: Mapping[str, Tensor],
        observed: Mapping[str, Tensor],
        width: int,
        rows: Int[Tensor, "d"],
    ) -> None:
        super().__init__()
        self.rows = nn.Buffer(rows, persistent=False)
        self.encoders, self.temperature = nn.ModuleDict(encoders), 0.1
        for name, values in donors.items():
            values = torch.where(over_values(observed[name], values), values, values.new_zeros(()))
            self.register_buffer(f"values_{name}", values)
            self.register_buffer(f"observed_{name}", observed[name])
        self.codes = nn.Buffer(torch.zeros(len(rows), len(donors), width))

    @classmethod
    def from_dataset(
        cls,
        train: Dataset,
        donors: int = 1000,
        *,
        width: int = 32,
        channels: Sequence[int] = (8, 16, 32),
        seed: int = 0,
    ) -> Self:
        """`width` is that of the shared space, `channels` those of the convolutions."""
        rows = draw_donors(train, donors, seed)
        chosen = train.take(rows)
        encoders = {name: _encoder(shape, width, channels) for name, shape in train.shapes.items()}
        imputer = cls(encoders, chosen.inputs, chosen.observed, width, rows).to(train.device)
        imputer.end_epoch()
        return imputer

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Every modality finds the others of its sample among those of the batch."""
        codes = self._codes(batch).transpose(0, 1)
        observed = _observed(codes)
        with torch.autocast(codes.device.type, enabled=False):
            scale = codes.new_full((len(codes), len(codes)), 1 / self.temperature)
            costs = pair_costs(codes, scale, observed.T)
        both = observed[:, None] & observed & ~torch.eye(len(codes), dtype=torch.bool, device=codes.device)[..., None]
        return {"contrast": torch.where(both, costs, 0.0).sum() / both.sum().clamp_min(1)}

    @torch.no_grad()
    def end_epoch(self) -> None:
        """Update the codes of the donors, which depend on the encoders."""
        parts = torch.arange(len(self.codes), device=self.codes.device).split(256)
        with self._evaluating():
            self.codes.copy_(torch.cat([self._codes(self._donors(rows)) for rows in parts]))

    @torch.no_grad()
    def complete(self, batch: Batch) -> Batch:
        with self._evaluating():
            distance = self._distance(batch)
        return batch.filled({name: self._borrow(name, distance) for name in self.encoders})

    def unexportable(self) -> str:
        return "ONNX has no operator for the distances between codes; choose another imputer"

    def _distance(self, batch: Batch) -> Float[Tensor, "b d"]:
        """Distances from 0 to 2. A donor that is the sample itself has distance 2, so it is used only if there is no
        other."""
        codes = self._codes(batch)
        pairs = zip(codes.unbind(1), self.codes.unbind(1), strict=True)
        apart = torch.stack([torch.cdist(*pair, compute_mode="donot_use_mm_for_euclid_dist") for pair in pairs], -1)
        jointly = _observed(codes)[:, None] & _observed(self.codes)
        # distance of the codes of equal values, which differ by rounding
        itself = jointly.any(-1) & ((apart < 1e-4) | ~jointly).all(-1)
        return (1 - _mean(codes) @ _mean(self.codes).T).masked_fill(itself, 2.0)

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """BatchNorm with fixed statistics, so that no sample depends on its batch, and full precision, so that the nearest
        donor is the same under autocast."""
        training = self.training
        self.eval()
        try:
            with torch.autocast(self.codes.device.type, enabled=False):
                yield
        finally:
            self.train(training)

    def _codes(self, batch: Batch) -> Float[Tensor, "b m z"]:
        """The place of each modality in the shared space; 0 where nothing was observed."""
        clean = batch.blanked()
        codes = [F.normalize(encode(clean.inputs[name].float()), dim=1) for name, encode in self.encoders.items()]
        observed = torch.stack(
            [batch.observed[name].reshape(codes[0].shape[0], -1).any(1) for name in self.encoders], 1
        )
        return torch.stack(codes, 1) * observed[..., None]

    def _donors(self, rows: Tensor) -> Batch:
        names = tuple(self.encoders)
        inputs = {name: as_values(self.get_buffer(f"values_{name}")[rows]) for name in names}
        return Batch(inputs, {name: self.get_buffer(f"observed_{name}")[rows] for name in names}, index=rows)

    def _borrow(self, name: str, distance: Float[Tensor, "b d"]) -> Tensor:
        """The values of the nearest donor that has them."""
        values, columns = as_values(self.get_buffer(f"values_{name}")), self._nearest(name, distance)
        if len(columns) == 1:
            return values[columns[0]]
        return torch.stack([values[donor, column] for column, donor in enumerate(columns)], 1)

    def _nearest(self, name: str, distance: Float[Tensor, "b d"]) -> list[Int[Tensor, "b"]]:
        """For each feature of a modality the nearest donor that has it."""
        observed = self.get_buffer(f"observed_{name}")
        flags: Bool[Tensor, "d f"] = observed.reshape(len(observed), -1)
        return [torch.where(flags[:, column], distance, torch.inf).argmin(1) for column in range(flags.shape[1])]


def _observed(codes: Float[Tensor, "x y z"]) -> Bool[Tensor, "x y"]:
    return (codes != 0).any(-1)


def _mean(codes: Float[Tensor, "b m z"]) -> Float[Tensor, "b z"]:
    return F.normalize(codes.sum(1), dim=1)


def _encoder(shape: tuple[int, ...], width: int, channels: Sequence[int]) -> nn.Module:
    if len(shape) != 3:
        return mlp(shape, width)
    positions = [math.ceil(side / 2 ** len(channels)) for side in shape[1:]]
    head = nn.Linear(channels[-1] * math.prod(positions), width)
    return nn.Sequential(deep_trunk((shape[0], *channels)), nn.Flatten(), head)
