"""MultiAE: one joint code of the observed modalities, learnt by decoding every modality from it (Ngiam et al. 2011)."""

from collections.abc import Mapping
from functools import partial
from typing import Self

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gauge.masks import draw_subsets, subsets, visible_under
from gauge.nn.likelihoods import Categorical, Likelihood
from gauge.nn.losses import cross_entropy
from gauge.nn.streams import side_by_side
from gauge.types import Method, Trainable
from gauge.values import Batch, Prediction, over_values
from gauge_lab.vectors import VectorEncoder

__all__ = ["MultiAE", "AutoEncoder"]


class AutoEncoder(Trainable):
    """Encoders, joint code and decoders: reconstructs all modalities from any subset.

    NOTE[PAPER] recovery-gaps: published training splits are complete; here missing values are neither read nor scored, and a
    subset of which a sample has nothing shows all it has (`visible_under`).
    """

    def __init__(
        self,
        encoder: VectorEncoder,
        decoders: Mapping[str, nn.Module],
        likelihoods: Mapping[str, Likelihood],
        *,
        subsets_per_step: int,
    ) -> None:
        super().__init__()
        width, count = encoder_width(encoder), len(encoder.encoders)
        self.encoder = encoder
        layers = nn.Linear(count * width, width), nn.ReLU(), nn.Linear(width, width)
        self.fuse = nn.Sequential(nn.Flatten(-2), *layers)  # [..., m, c] -> [..., c]
        self.decoders, self.likelihoods = nn.ModuleDict(decoders), dict(likelihoods)
        self.subsets_per_step = subsets_per_step
        self.subsets = nn.Buffer(subsets(count), persistent=False)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """The errors of all modalities, averaged over distinct subsets drawn once for the batch."""
        batch = batch.blanked()
        vectors, available = self.encoder(batch)
        visible = visible_under(available, draw_subsets(batch.key, self.subsets, self.subsets_per_step))
        codes = self.fuse(torch.where(visible[..., None], vectors, 0.0)).flatten(0, 1)
        errors = side_by_side([partial(self._error, name, codes, batch) for name in self.decoders])
        return {"reconstruction": torch.stack(errors).sum()}

    def _error(self, name: str, codes: Float[Tensor, "rb c"], batch: Batch) -> Float[Tensor, ""]:
        repeats = len(codes) // len(batch)
        x, flags = (torch.cat([values] * repeats) for values in (batch.inputs[name], batch.observed[name]))
        observed, decoded, likelihood = over_values(flags, x), self.decoders[name](codes), self.likelihoods[name]
        scored = observed.expand_as(x)
        if isinstance(likelihood, Categorical):
            return likelihood.cost(decoded, x, observed).sum() / scored[..., 0].sum().clamp_min(1)
        return torch.where(observed, decoded - x, 0.0).square().sum() / scored.sum().clamp_min(1)


class MultiAE(Method):
    """A linear classifier on the pre-trained code, which is trained further; the encoders are not. With `subsets_per_step`
    (the † of tables) a step averages over that many random subsets, otherwise it uses all observed modalities.

        z(S) = W2 relu(W1 [v_1 ... v_M]),   v_m the vector of modality m, zero outside S
        pre-training, over random subsets S:   Σ_m l_m(x_m, decoder_m(z(S)))
        then, with frozen encoders:            L = CE(Linear(z(S)))

    with l the mean squared error of numbers and the mean -Σ x log p of text.

    Ngiam et al. 2011.

    NOTE[PAPER] frozen-parts: published code leaves frozen networks in training mode; here they stay in eval mode.
    """

    def __init__(
        self, encoder: VectorEncoder, fuse: nn.Module, num_classes: int, *, subsets_per_step: int | None = None
    ) -> None:
        super().__init__()
        self.encoder, self.fuse = encoder.eval().requires_grad_(False), fuse
        self.head = nn.Linear(encoder_width(encoder), num_classes)
        self.subsets_per_step = subsets_per_step
        self.subsets = nn.Buffer(subsets(len(encoder.encoders)), persistent=False)

    def train(self, mode: bool = True) -> Self:
        """The encoders stay in eval mode."""
        super().train(mode)
        self.encoder.eval()
        return self

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        chosen = draw_subsets(batch.key, self.subsets, self.subsets_per_step)
        return {"task": cross_entropy(batch, self(batch, chosen))}

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        return Prediction(self(batch.check(), self.subsets[-1:])[0])

    def forward(self, batch: Batch, chosen: Bool[Tensor, "r m"]) -> Float[Tensor, "r b k"]:
        with torch.no_grad():
            vectors, available = self.encoder(batch)
        return self.head(self.fuse(torch.where(visible_under(available, chosen)[..., None], vectors, 0.0)))


def encoder_width(encoder: VectorEncoder) -> int:
    """The width that all modalities share."""
    (width,) = {int(part.width) for part in encoder.encoders.values()}  # type: ignore[arg-type]
    return width
