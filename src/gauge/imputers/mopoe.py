"""MoPoE: a multimodal VAE whose posterior of any observed subset is a product of Gaussian experts (Sutter et al. 2021)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gauge.choices import pick
from gauge.data import Dataset
from gauge.masks import subsets
from gauge.nn import conv
from gauge.nn.likelihoods import Categorical, Laplace, Likelihood
from gauge.nn.mlp import mlp, mlp_decoder
from gauge.nn.streams import side_by_side
from gauge.randomness import derive, normal, uniform
from gauge.types import Imputer
from gauge.values import Batch, over_values

__all__ = ["MoPoE", "Coder", "Balance"]


@dataclass(frozen=True)
class Coder:
    """How one modality is encoded and decoded: encoder x -> [b, 2·latent + 2·style] (mean and log-variance of each), decoder
    [b, style + latent] -> the input of the likelihood."""

    shape: tuple[int, ...]
    encoder: nn.Module
    decoder: nn.Module
    likelihood: Likelihood = field(default_factory=Laplace)


@dataclass(frozen=True)
class Balance:
    """The weights of the loss terms; modalities that are not named have weight 1."""

    beta: float = 2.5
    beta_style: float = 1.0
    weights: Mapping[str, float] = field(default_factory=dict)
    style_weights: Mapping[str, float] = field(default_factory=dict)


class Coders(NamedTuple):
    """The constructors of a coder, given a shape and the number of outputs or inputs."""

    encoder: Callable[[Sequence[int], int], nn.Module]
    decoder: Callable[[Sequence[int], int], nn.Module]
    likelihood: Likelihood


def coders_of(
    modalities: Iterable[str], chosen: Mapping[str, str | Coders], channels: Sequence[int], hidden: int | None
) -> dict[str, Coders]:
    """Return the coders of each modality: those that were `chosen`, by name or as constructors, otherwise `conv_image`."""
    known = {
        "conv_image": Coders(
            partial(conv.conv_image, channels=channels, hidden=hidden or 512),
            partial(conv.conv_image_decoder, channels=channels),
            Laplace(),
        ),
        "mlp": Coders(partial(mlp, hidden=hidden or 400), partial(mlp_decoder, hidden=hidden or 400), Laplace()),
    }
    every = {name: chosen.get(name, "conv_image") for name in modalities}
    return {name: pick(known, kind, "coder") if isinstance(kind, str) else kind for name, kind in every.items()}


class MoPoE(Imputer):
    """One coder for every modality, one latent for all of them, and `style` further numbers for each. Trained on the
    stratified mixture of all 2^M - 1 subset posteriors. Imputation decodes one draw, by the sample's key, from the
    posterior of its observed modalities (or the mean of that); styles are drawn from N(0, I).

        q(z | S) = N(μ, v),   1/v = Σ_{m in S} 1/v_m (+ 1 when S is the full set),   μ = v Σ_{m in S} μ_m / v_m
        loss = Σ_m w_m · -log p(x_m | z, y_m) + β (mean_S KL q(z | S) + β_style Σ_m u_m KL q(y_m | x_m)),   KL to N(0, I)

    z is shared; y_m is the style of one modality, in models with styles.

    NOTE[PAPER] imputer-noise: the published imputer draws anew on every call, also at test time; ours is seeded per
    sample and epoch, so that every method sees the same completed input.

    >>> data = Dataset("train", {"photo": torch.rand(4, 1, 8, 8), "pulse": torch.rand(4, 6)}, torch.zeros(4).long())
    >>> imputer = MoPoE.from_dataset(data, 3, {"pulse": "mlp"}, hidden=16, weights={"pulse": 10.0})
    >>> list(imputer.loss(data.batch(torch.arange(4))))
    ['reconstruction', 'kl']
    """

    def __init__(
        self, coders: Mapping[str, Coder], *, style: int = 0, balance: Balance | None = None, sample: bool = True
    ) -> None:
        super().__init__()
        self.shapes = {name: tuple(coder.shape) for name, coder in coders.items()}
        self.encoders = nn.ModuleDict({name: coder.encoder for name, coder in coders.items()})
        self.decoders = nn.ModuleDict({name: coder.decoder for name, coder in coders.items()})
        self.likelihoods = {name: coder.likelihood for name, coder in coders.items()}
        self.style, self.balance, self.sample = style, balance or Balance(), sample
        for name in (*self.balance.weights, *self.balance.style_weights):
            pick(self.shapes, name, "modality")
        style_weights = torch.tensor([self.balance.style_weights.get(name, 1.0) for name in coders])
        self.style_weights = nn.Buffer(style_weights, persistent=False)
        self.subsets = nn.Buffer(subsets(len(coders)), persistent=False)

    @classmethod
    def from_dataset(
        cls,
        train: Dataset,
        latent: int = 512,
        coders: Mapping[str, str | Coders] | None = None,
        *,
        style: int = 0,
        channels: Sequence[int] = conv.CHANNELS,
        hidden: int | None = None,
        sample: bool = True,
        reversed_text: bool = False,
        **balance: Any,
    ) -> Self:
        """`coders` are those of each modality: `conv_image` (by default), `mlp`, or constructors of your own. `channels` and
        `hidden` are sizes of the two named ones, by default those published; that of `mlp` decodes values from 0 to 1.
        `reversed_text` is the published likelihood of text. The other options are the fields of `Balance`."""
        chosen = coders or {}
        for name in chosen:
            pick(train.shapes, name, "modality")
        kinds = coders_of(train.shapes, chosen, channels, hidden)
        if reversed_text:
            texts = {name: kind for name, kind in kinds.items() if isinstance(kind.likelihood, Categorical)}
            kinds |= {name: kind._replace(likelihood=Categorical(reversed=True)) for name, kind in texts.items()}
        outputs = 2 * (latent + style)
        encoders = {name: _fitted(name, kinds[name].encoder, shape, outputs) for name, shape in train.shapes.items()}
        modality_coders = {
            name: Coder(shape, encoders[name], kinds[name].decoder(shape, latent + style), kinds[name].likelihood)
            for name, shape in train.shapes.items()
        }
        weights = Balance(**{name: value for name, value in balance.items() if value is not None})
        return cls(modality_coders, style=style, balance=weights, sample=sample)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Reconstruction from the stratified mixture, and β times the mean KL over all subsets with observed modalities.
        Sums over dimensions, means over the batch. Missing modalities are neither read nor scored."""
        batch = self._readable(batch)
        mean, precision, styles = self._experts(batch)
        observed = batch.any_observed()
        in_subset = self.subsets[:, None] & observed
        mu, variance = self._product(mean, precision, in_subset)
        valid = in_subset.any(-1)
        kl = 0.5 * (mu.square() + variance - 1 - variance.log()).sum(-1)
        kl = (kl * valid).sum(0) / valid.sum(0).clamp_min(1)
        strata = self._strata(batch, valid)
        rows = torch.arange(len(batch), device=strata.device)
        z = self._draw(batch.key, mu[strata, rows], variance[strata, rows])
        parts = zip(self.shapes, styles.unbind(), strict=True)
        costs = [partial(self._cost, batch, name, z, style) for name, style in parts]
        terms = {"reconstruction": torch.stack(side_by_side(costs)).sum(), "kl": self.balance.beta * kl.mean()}
        if self.style:
            terms["style"] = self.balance.beta * self.balance.beta_style * self._style_kl(styles, observed)
        return terms

    def _cost(self, batch: Batch, name: str, z: Tensor, style: Tensor) -> Float[Tensor, ""]:
        """-log p(x_m | z, y_m), weighted."""
        x = batch.inputs[name]
        decoded = self._decoded(name, z, batch.key, style)
        cost = self.likelihoods[name].cost(decoded, x, over_values(batch.observed[name], x))
        return self.balance.weights.get(name, 1.0) * cost.mean()

    @torch.no_grad()
    def posterior(
        self, batch: Batch, visible: Bool[Tensor, "*s b m"] | None = None
    ) -> tuple[Float[Tensor, "*s b z"], Float[Tensor, "*s b z"]]:
        """Mean and variance of the latent given the observed modalities of each sample, or those in `visible`."""
        clean = self._readable(batch.check() if self.may_inspect(batch) else batch)
        mean, precision, _ = self._experts(clean)
        return self._product(mean, precision, clean.any_observed() if visible is None else visible)

    @torch.no_grad()
    def complete(self, batch: Batch) -> Batch:
        mean, variance = self.posterior(batch)
        z = self._draw(batch.key, mean, variance) if self.sample else mean
        if not self.may_inspect(batch):  # selecting rows would look at the flags; decoding all rows does not
            decoded = side_by_side([partial(self._mean, name, z, batch.key) for name in self.shapes])
            return batch.filled(dict(zip(self.shapes, decoded, strict=True)))
        filling = {}
        for name in self.shapes:
            rows = (~batch.observed[name].reshape(len(batch), -1).all(1)).nonzero()[:, 0]
            if len(rows):
                values = torch.zeros_like(batch.inputs[name])
                values[rows] = self._mean(name, z[rows], batch.key[rows]).to(values.dtype)
                filling[name] = values
        return batch.filled(filling)

    def unexportable(self) -> str | None:
        return "it draws at random by a sample's key; make it with sample=False" if self.sample else None

    def _mean(self, name: str, z: Tensor, key: Tensor) -> Tensor:
        return self.likelihoods[name].mean(self._decoded(name, z, key))

    def _readable(self, batch: Batch) -> Batch:
        """The batch with its modalities in this model's order, and zeros where nothing was observed."""
        self.check_shapes(batch, self.shapes)
        inputs, observed = ({name: tensors[name] for name in self.shapes} for tensors in (batch.inputs, batch.observed))
        return replace(batch, inputs=inputs, observed=observed).blanked()

    def _experts(
        self, batch: Batch
    ) -> tuple[Float[Tensor, "m b z"], Float[Tensor, "m b z"], Float[Tensor, "m b styles"]]:
        """Mean and precision of each modality's Gaussian, and mean and log-variance of its style side by side."""
        codes = torch.stack(side_by_side([partial(self.encoders[name], batch.inputs[name]) for name in self.shapes]))
        content, styles = codes.split([codes.shape[-1] - 2 * self.style, 2 * self.style], -1)
        mean, log_variance = content.chunk(2, -1)
        style_mean, style_log_variance = styles.chunk(2, -1)
        return mean, 1 / (tamed(log_variance).exp() + 1e-8), torch.cat([style_mean, tamed(style_log_variance)], -1)

    def _product(
        self, mean: Float[Tensor, "m b z"], precision: Float[Tensor, "m b z"], members: Bool[Tensor, "*s b m"]
    ) -> tuple[Float[Tensor, "*s b z"], Float[Tensor, "*s b z"]]:
        """The precision-weighted product of the member experts; the full set includes the N(0, I) prior."""
        weight = members.to(mean.dtype)
        prior = members.all(-1, keepdim=True).to(mean.dtype) + (~members.any(-1, keepdim=True)).to(mean.dtype)
        total = torch.einsum("...bm,mbz->...bz", weight, precision) + prior
        return torch.einsum("...bm,mbz->...bz", weight, precision * mean) / total, 1 / total

    def _strata(self, batch: Batch, valid: Bool[Tensor, "s b"]) -> Tensor:
        """The subset each row is decoded from: equal shares of the (shuffled) batch, the rest from the full set."""
        count, rows = len(self.subsets), torch.arange(len(batch), device=batch.key.device)
        if share := len(batch) // count:
            chosen = (rows // share).clamp_max(count - 1)
        else:
            chosen = (uniform(derive(batch.key, "strata"), 1)[:, 0] * count).long().clamp_max(count - 1)
        return torch.where(valid[chosen, rows], chosen, count - 1)

    def _draw(self, key: Int[Tensor, "b"], mu: Tensor, variance: Tensor) -> Tensor:
        return mu + variance.sqrt() * normal(derive(key, "mopoe"), mu.shape[-1]).to(mu.dtype)

    def _decoded(
        self, name: str, z: Float[Tensor, "b z"], key: Int[Tensor, "b"], style: Float[Tensor, "b styles"] | None = None
    ) -> Tensor:
        """The decoder's output for a latent; a style is drawn from its posterior if there is one, else from N(0, I)."""
        if not self.style:
            return self.decoders[name](z)
        drawn = normal(derive(key, "style", name), self.style).to(z.dtype)
        if style is not None:
            mean, log_variance = style.chunk(2, -1)
            drawn = mean + (0.5 * log_variance).exp() * drawn
        elif not self.sample:
            drawn = torch.zeros_like(drawn)
        return self.decoders[name](torch.cat([drawn, z], 1))

    def _style_kl(self, styles: Float[Tensor, "m b styles"], observed: Bool[Tensor, "b m"]) -> Float[Tensor, ""]:
        mean, log_variance = styles.chunk(2, -1)
        kl = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(-1)
        return ((kl * observed.T).mean(1) * self.style_weights).sum()


def tamed(log_variance: Tensor) -> Tensor:
    """Unchanged up to 5, logarithmic beyond: finite when exponentiated, with a gradient everywhere.

    NOTE[PAPER] wide-posteriors: published code has no limit. The deep CelebA encoders reach 60 within three steps, and the
    loss becomes infinite; trained posteriors lie below 0, where nothing changes.
    """
    widest = 5.0  # log-variance, far above that of any trained posterior
    return log_variance.clamp_max(widest) + (log_variance - widest).clamp_min(0).log1p()


def _fitted(name: str, encoder: Callable[..., nn.Module], shape: Sequence[int], outputs: int) -> nn.Module:
    try:
        return encoder(shape, outputs)
    except ValueError as error:
        raise ValueError(f"the coder of modality {name!r} does not fit: {error}") from error
