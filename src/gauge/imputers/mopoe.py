"""MoPoE: a multimodal VAE whose posterior of any observed subset is a product of Gaussian experts (Sutter et al. 2021)."""

from collections.abc import Mapping, Sequence
from typing import Self

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gauge.data import Dataset
from gauge.masks import subsets
from gauge.nn.conv import ConvDecoder, ConvPosterior
from gauge.randomness import derive, normal, uniform
from gauge.types import Batch, over_values

__all__ = ["MoPoE"]

SCALE = 0.75  # of the Laplace likelihood of images, as upstream


class MoPoE(nn.Module):
    """Encoders x -> [b, 2·latent] (mean, log-variance), decoders z -> x, one of each for every modality.

    Trained on the stratified mixture of all 2^M - 1 subset posteriors. Imputation takes the one posterior of what a
    sample has observed, one draw from it that depends on the sample's key alone (or its mean), and decodes only what is
    missing.

    NOTE[PAPER] imputer-noise: the published imputer draws anew on every call, also at test time; ours is seeded per
    sample and epoch, so that every method sees the same completed input.
    """

    def __init__(
        self,
        encoders: Mapping[str, nn.Module],
        decoders: Mapping[str, nn.Module],
        *,
        beta: float = 2.5,
        sample: bool = True,
    ) -> None:
        super().__init__()
        self.encoders = nn.ModuleDict(encoders)
        self.decoders = nn.ModuleDict(decoders)
        self.beta = beta
        self.sample = sample
        self.register_buffer("subsets", subsets(len(encoders)), persistent=False)
        self.subsets: Tensor

    @classmethod
    def of(
        cls,
        train: Dataset,
        latent: int = 512,
        channels: Sequence[int] = (32, 64, 128),
        hidden: int = 512,
        beta: float = 2.5,
        sample: bool = True,
    ) -> Self:
        """For images, at the paper's sizes unless told otherwise."""
        return cls(
            {name: ConvPosterior(shape, latent, channels, hidden) for name, shape in train.shapes.items()},
            {name: ConvDecoder(shape, latent, channels) for name, shape in train.shapes.items()},
            beta=beta,
            sample=sample,
        )

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Reconstruction from the stratified mixture, and β times the mean KL over all subsets with anything observed.

        Sums over dimensions, means over the batch; a modality that is missing is neither read nor scored.
        """
        mean, precision = self._experts(batch)
        observed = batch.any_observed()
        in_subset = self.subsets[:, None] & observed
        mu, variance = self._product(mean, precision, in_subset)
        valid = in_subset.any(-1)
        kl = 0.5 * (mu.square() + variance - 1 - variance.log()).sum(-1)
        kl = (kl * valid).sum(0) / valid.sum(0).clamp_min(1)
        strata = self._strata(batch, valid)
        rows = torch.arange(len(batch), device=strata.device)
        z = self._draw(batch, mu[strata, rows], variance[strata, rows])
        reconstruction = torch.zeros((), device=z.device)
        for name in self.encoders:
            there = over_values(batch.observed[name], batch.inputs[name])
            error = torch.where(there, self.decoders[name](z) - batch.inputs[name], 0.0).abs().flatten(1).sum(1)
            reconstruction = reconstruction + error.mean() / SCALE
        return {"reconstruction": reconstruction, "kl": self.beta * kl.mean()}

    @torch.no_grad()
    def complete(self, batch: Batch) -> Batch:
        observed = batch.any_observed()
        mean, precision = self._experts(batch)
        mu, variance = self._product(mean, precision, observed)
        z = self._draw(batch, mu, variance) if self.sample else mu
        filling = {}
        for name in self.encoders:
            if z.is_cuda:  # to pick rows would make the device wait; decoding them all does not
                filling[name] = self.decoders[name](z)
                continue
            rows = (~batch.observed[name].reshape(len(batch), -1).all(1)).nonzero()[:, 0]
            if len(rows):
                values = torch.zeros_like(batch.inputs[name])
                values[rows] = self.decoders[name](z[rows]).to(values.dtype)
                filling[name] = values
        return batch.filled(filling)

    def _experts(self, batch: Batch) -> tuple[Float[Tensor, "m b z"], Float[Tensor, "m b z"]]:
        """Each modality's own Gaussian: mean and precision. Missing values are overwritten before they are read."""
        batch = batch.filled({name: torch.zeros_like(values) for name, values in batch.inputs.items()})
        mean, log_variance = torch.stack([self.encoders[name](batch.inputs[name]) for name in self.encoders]).chunk(
            2, -1
        )
        return mean, 1 / (log_variance.exp() + 1e-8)

    def _product(
        self, mean: Float[Tensor, "m b z"], precision: Float[Tensor, "m b z"], members: Bool[Tensor, "*s b m"]
    ) -> tuple[Float[Tensor, "*s b z"], Float[Tensor, "*s b z"]]:
        """The precision-weighted product of the member experts; the full set also holds the N(0, I) prior."""
        weight = members.to(mean.dtype)
        prior = members.all(-1, keepdim=True).to(mean.dtype) + (~members.any(-1, keepdim=True)).to(mean.dtype)
        total = torch.einsum("...bm,mbz->...bz", weight, precision) + prior
        return torch.einsum("...bm,mbz->...bz", weight, precision * mean) / total, 1 / total

    def _strata(self, batch: Batch, valid: Bool[Tensor, "s b"]) -> Tensor:
        """The subset each row is decoded from: equal contiguous shares of the (shuffled) batch, the rest to the full set."""
        count = len(self.subsets)
        rows = torch.arange(len(batch), device=batch.key.device)
        share = len(batch) // count
        if share:
            chosen = (rows // share).clamp_max(count - 1)
        else:
            chosen = (uniform(derive(batch.key, "strata"), 1)[:, 0] * count).long().clamp_max(count - 1)
        return torch.where(valid[chosen, rows], chosen, count - 1)

    def _draw(self, batch: Batch, mu: Tensor, variance: Tensor) -> Tensor:
        return mu + variance.sqrt() * normal(derive(batch.key, "mopoe"), mu.shape[-1])
