"""MultiAE: one joint code of whatever is observed, learnt by decoding every modality from it (Ngiam et al. 2011).

z(S) = W2 relu(W1 [v_1 ... v_M]) with v_m the vector of modality m, zero outside S. Pre-training, over random subsets S:
Σ_m l_m(x_m, decoder_m(z(S))), the mean squared error of numbers and the mean -Σ x log p of text. Then, the encoders frozen:
cross-entropy of Linear(z(S)).
"""

from collections.abc import Mapping
from functools import partial
from typing import Self

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gauge.masks import draw_subsets, subsets
from gauge.model.nn.likelihoods import Categorical, Likelihood
from gauge.model.nn.streams import side_by_side
from gauge.model.units import VectorEncoder
from gauge.types import Batch, Method, Prediction, Trainable, over_values

__all__ = ["MultiAE", "AutoEncoder"]


class AutoEncoder(Trainable):
    """Encoders, joint code and decoders: from any subset, all modalities.

    NOTE[PAPER] recovery-gaps: published training splits are complete; here what a sample lacks is neither read nor asked
    for, and a subset of which it has nothing shows all it has.
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
        self.decoders = nn.ModuleDict(decoders)
        self.likelihoods = dict(likelihoods)
        self.subsets_per_step = subsets_per_step
        self.register_buffer("subsets", subsets(count), persistent=False)
        self.subsets: Tensor

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """The errors of all modalities, averaged over distinct subsets that are drawn once for the batch."""
        batch = batch.filled({name: values.new_zeros(()) for name, values in batch.inputs.items()})
        vectors, there = self.encoder(batch)
        visible = visible_under(there, draw_subsets(batch.key, self.subsets, self.subsets_per_step))
        codes = self.fuse(torch.where(visible[..., None], vectors, 0.0)).flatten(0, 1)
        errors = side_by_side([partial(self._error, name, codes, batch) for name in self.decoders])
        return {"reconstruction": torch.stack(errors).sum()}

    def _error(self, name: str, codes: Float[Tensor, "rb c"], batch: Batch) -> Float[Tensor, ""]:
        repeats = len(codes) // len(batch)
        x = batch.inputs[name].repeat(repeats, *[1] * (batch.inputs[name].ndim - 1))
        observed = over_values(batch.observed[name].repeat(repeats, *[1] * (batch.observed[name].ndim - 1)), x)
        decoded, likelihood, asked = self.decoders[name](codes), self.likelihoods[name], observed.expand_as(x)
        if isinstance(likelihood, Categorical):
            return likelihood.cost(decoded, x, observed).sum() / asked[..., 0].sum().clamp_min(1)
        return torch.where(observed, decoded - x, 0.0).square().sum() / asked.sum().clamp_min(1)


class MultiAE(Method):
    """A linear classifier on the pre-trained code. The code goes on learning, the encoders of the modalities do not.

    With `subsets_per_step` (the † of tables) a step averages over that many random subsets; else it sees what there is.

    NOTE[PAPER] frozen-parts: published code leaves frozen networks in training mode, so their BatchNorm statistics drift
    and dropout stays on (CelebA); here they stay in eval mode.
    """

    def __init__(
        self, encoder: VectorEncoder, fuse: nn.Module, num_classes: int, *, subsets_per_step: int | None = None
    ) -> None:
        super().__init__()
        self.encoder = encoder.eval().requires_grad_(False)
        self.fuse = fuse
        self.head = nn.Linear(encoder_width(encoder), num_classes)
        self.subsets_per_step = subsets_per_step
        self.register_buffer("subsets", subsets(len(encoder.encoders)), persistent=False)
        self.subsets: Tensor

    def train(self, mode: bool = True) -> Self:
        """The encoders stay in eval mode."""
        super().train(mode)
        self.encoder.eval()
        return self

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        assert batch.labels is not None
        logits = self(batch, chosen_subsets(batch, self.subsets, self.subsets_per_step))
        return {"task": F.cross_entropy(logits.flatten(0, 1), batch.labels.repeat(len(logits)))}

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        return Prediction(self(batch.check(), self.subsets[-1:])[0])

    def forward(self, batch: Batch, chosen: Bool[Tensor, "r m"]) -> Float[Tensor, "r b k"]:
        with torch.no_grad():
            vectors, there = self.encoder(batch)
        return self.head(self.fuse(torch.where(visible_under(there, chosen)[..., None], vectors, 0.0)))


def chosen_subsets(batch: Batch, table: Bool[Tensor, "s m"], count: int | None) -> Bool[Tensor, "r m"]:
    """`count` random subsets for the batch, or the full one alone when None."""
    return table[-1:] if count is None else draw_subsets(batch.key, table, count)


def visible_under(there: Bool[Tensor, "b m"], chosen: Bool[Tensor, "r m"]) -> Bool[Tensor, "r b m"]:
    """What is there of every subset: all that is where it would leave nothing."""
    visible = chosen[:, None] & there
    return torch.where(visible.any(-1, keepdim=True), visible, there)


def encoder_width(encoder: VectorEncoder) -> int:
    """The width that all modalities share."""
    (width,) = {int(part.width) for part in encoder.encoders.values()}  # type: ignore[arg-type]
    return width
