"""Late fusion: one classifier for each modality on its own; those of the observed modalities vote."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gauge.model.frozen import Frozen
from gauge.model.nn.streams import side_by_side
from gauge.types import Batch, Encoder, Method, Prediction, SupportsComplete

__all__ = ["LateFusion"]


def as_observed(completed: Batch) -> Batch:
    """The batch with what an imputer filled in taken for observed."""
    return replace(completed, observed={name: torch.ones_like(flags) for name, flags in completed.observed.items()})


@dataclass(frozen=True)
class Opinions:
    """What every modality says on its own, and which of them are there."""

    vectors: tuple[Float[Tensor, "b _"], ...]
    logits: Float[Tensor, "b m k"]
    there: Bool[Tensor, "b m"]

    def losses(self, labels: Int[Tensor, "b"]) -> Float[Tensor, "b m"]:
        """The cross-entropy of every classifier for every sample."""
        count = self.logits.shape[1]
        each = F.cross_entropy(self.logits.flatten(0, 1), labels.repeat_interleave(count), reduction="none")
        return each.reshape(self.there.shape)

    def total(self, values: Float[Tensor, "b m"]) -> Float[Tensor, ""]:
        """The values summed over modalities, each averaged over the samples that have it."""
        return masked_mean(values, self.there).sum()


def masked_mean(values: Float[Tensor, "b m"], there: Bool[Tensor, "b m"]) -> Float[Tensor, "m"]:
    """The mean over what is there, zero where nothing is."""
    weight = there.to(values.dtype)
    return (values * weight).sum(0) / weight.sum(0).clamp_min(1)


class LateFusion(Method):
    """An encoder and a linear head for each modality; the log-probabilities of the observed modalities add up.

    What a single modality can tell, at its best: a ceiling for methods that see no more than it. With an imputer all
    modalities vote, on completed inputs. Training takes what is really observed, and `rectify` puts a ReLU before a head.

    NOTE[PAPER] fusion-gaps: the published training splits of unimodal, concat, QMF, PDF and DynMM are complete. Here a
    modality that a sample lacks takes no part in its losses, votes and gates, and is a vector of zeros to concat.

    NOTE[PAPER] unimodal-selection: published classifiers train one by one, each kept at its own best epoch. Ours train
    side by side, which changes no update (they share no parameter), and are kept at the best epoch of their vote.
    """

    def __init__(
        self,
        encoders: Mapping[str, Encoder],
        num_classes: int,
        imputer: SupportsComplete | None = None,
        *,
        rectify: bool = True,
    ) -> None:
        super().__init__()
        self.encoders = nn.ModuleDict(encoders)
        self.widths = {name: encoder.units * encoder.width for name, encoder in encoders.items()}
        self.heads = nn.ModuleDict({name: nn.Linear(width, num_classes) for name, width in self.widths.items()})
        self.imputer = None if imputer is None else Frozen(imputer)
        self.rectify = rectify

    def opinions(self, batch: Batch) -> Float[Tensor, "b m k"]:
        """The logits of every modality's own classifier, whether its values were observed or imputed."""
        return self._judge(batch).logits

    def read(self, batch: Batch) -> Opinions:
        """What every modality says, with zeros where nothing was observed."""
        return self._judge(batch.filled({name: values.new_zeros(()) for name, values in batch.inputs.items()}))

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """The cross-entropy of every classifier over the samples that have its modality."""
        assert batch.labels is not None
        opinions = self.read(batch)
        return {"task": opinions.total(opinions.losses(batch.labels))}

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        batch = batch.check()
        opinions = self.read(batch if self.imputer is None else as_observed(self.imputer.complete(batch)))
        return Prediction((opinions.logits.log_softmax(-1) * opinions.there[..., None]).sum(1))

    def _judge(self, batch: Batch) -> Opinions:
        pairs = side_by_side([partial(self._opinion, name, batch) for name in self.encoders])
        vectors, logits = zip(*pairs, strict=True)
        return Opinions(vectors, torch.stack(logits, 1), batch.any_observed())

    def _opinion(self, name: str, batch: Batch) -> tuple[Float[Tensor, "b _"], Float[Tensor, "b k"]]:
        vector = self.encoders[name](batch.inputs[name], batch.observed[name]).flatten(1)
        if self.rectify:
            vector = torch.relu(vector)
        return vector, self.heads[name](vector)
