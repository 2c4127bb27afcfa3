"""Late fusion: a separate classifier for each modality; those of the observed modalities vote."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gauge.data import Dataset
from gauge.masks import Corruption
from gauge.nn.shards import at_least_one
from gauge.nn.streams import side_by_side
from gauge.paper.units import Frozen, UnitEncoder
from gauge.plus._votes import SOUND, Votes, head_votes, learn_weights, masked_samples, validation_rows
from gauge.plus.combination import Combination
from gauge.plus.heads import Heads
from gauge.types import Encoder, Method, Prepared, SupportsComplete
from gauge.values import Batch, Prediction

__all__ = ["LateFusion", "WeightedVote"]


@dataclass(frozen=True)
class HeadOutputs:
    """The vectors and logits of every modality's own classifier, and which modalities are available."""

    vectors: tuple[Float[Tensor, "b _"], ...]
    logits: Float[Tensor, "b m k"]
    available: Bool[Tensor, "b m"]

    def losses(self, batch: Batch) -> Float[Tensor, "b m"]:
        """The cross-entropy of every classifier for every sample."""
        assert batch.labels is not None
        labels = batch.labels.repeat_interleave(self.logits.shape[1], 0)
        return F.cross_entropy(self.logits.flatten(0, 1), labels, reduction="none").reshape(self.available.shape)

    def total(self, values: Float[Tensor, "b m"]) -> Float[Tensor, ""]:
        """The values summed over modalities, each averaged over the samples that have it."""
        return masked_mean(values, self.available).sum()


def masked_mean(values: Float[Tensor, "b m"], mask: Bool[Tensor, "b m"]) -> Float[Tensor, "m"]:
    """The mean over the masked samples of each column, zero where there are none."""
    weight = mask.to(values.dtype)
    return (values * weight).sum(0) / at_least_one(weight.sum(0), len(values))


def head_loss(
    logits: Float[Tensor, "b m k"], batch: Batch, weights: Float[Tensor, "b"] | None = None
) -> Float[Tensor, ""]:
    """The cross-entropy of every head, averaged over the samples that have its modality, summed over the heads. Each sample
    counts `weights` times. Heads do not learn from modalities that are known to be wrong."""
    heads = HeadOutputs((), logits, _right_modalities(batch))
    losses = heads.losses(batch)
    return heads.total(losses if weights is None else losses * weights[:, None])


def _right_modalities(batch: Batch) -> Bool[Tensor, "b m"]:
    """The modalities with observed values, except those that are known to be wrong as a whole."""
    if batch.truth is None:
        return batch.any_observed()
    wrong = torch.stack([flags.reshape(len(batch), -1).all(1) for flags in batch.truth.wrong.values()], 1)
    return batch.any_observed() & ~wrong


class LateFusion(Method):
    """An encoder and a linear head for each modality; the log-probabilities of the observed modalities add up. With an
    imputer all modalities vote, on completed inputs. `rectify` puts a ReLU before each head.

    L = Σ_m mean CE(head_m) over the samples that have modality m
    logits = Σ_m w_m(observed) · log p_m over the observed modalities, w = 1 for equal votes, or learned from validation data

    NOTE[PAPER] fusion-gaps: the published training splits of unimodal, concat, QMF, PDF and DynMM are complete. Here a
    missing modality is left out of a sample's losses, votes and gates, and is a vector of zeros for concat.

    NOTE[PAPER] unimodal-selection: published classifiers are kept at their own best epochs, ours at that of their vote.
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

    def head_logits(self, batch: Batch) -> Float[Tensor, "b m k"]:
        """The logits of every modality's own classifier, whether its values were observed or imputed."""
        return self._judge(batch).logits

    def read(self, batch: Batch) -> HeadOutputs:
        """The vectors and logits of every modality, from zeros where nothing was observed."""
        return self._judge(batch.blanked())

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """The cross-entropy of every classifier over the samples that have its modality."""
        outputs = self.read(batch)
        return {"task": outputs.total(outputs.losses(batch))}

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        batch = batch.check()
        outputs = self.read(batch if self.imputer is None else self.imputer.complete(batch).as_observed())
        return Prediction((outputs.logits.log_softmax(-1) * outputs.available[..., None]).sum(1))

    def _judge(self, batch: Batch) -> HeadOutputs:
        pairs = side_by_side([partial(self._output, name, batch) for name in self.encoders])
        vectors, logits = zip(*pairs, strict=True)
        return HeadOutputs(vectors, torch.stack(logits, 1), batch.any_observed())

    def _output(self, name: str, batch: Batch) -> tuple[Float[Tensor, "b _"], Float[Tensor, "b k"]]:
        vector = self.encoders[name](batch.inputs[name], batch.observed[name]).flatten(1)
        if self.rectify:
            vector = torch.relu(vector)
        return vector, self.heads[name](vector)


class WeightedVote(Prepared):
    """An encoder and a linear head for each modality, and nothing that reads two of them: GAUGE+ without its network. The
    votes of the observed modalities are calibrated and weighed on validation data, as the votes of GAUGE+ are.

    `corrupt`: what is wrong in training batches, so that the weights are learned from such samples too. Unless it `weighs`,
    all votes are equal.
    """

    shardable = True

    def __init__(self, encoder: UnitEncoder, heads: Heads, *, corrupt: Corruption = SOUND, weighs: bool = True) -> None:
        super().__init__()
        self.encoder, self.heads, self.corrupt, self.weighs = encoder, heads, corrupt, weighs
        self.combination = Combination(len(heads), len(heads), heads.num_classes)
        for embedding in (encoder.modality_embedding.weight, encoder.position_embedding):
            embedding.requires_grad_(False)  # tokens have them, and there is no network that reads tokens

    def loss(self, batch: Batch, weights: Float[Tensor, "b"] | None = None) -> dict[str, Tensor]:
        """The cross-entropy of every head over the samples that have its modality, each of which counts `weights` times."""
        return {"task": head_loss(self.heads.logits(self.encoder(batch)), batch, weights)}

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        self.check_finished()
        return Prediction(self.combination(*self.votes(batch.check())))

    @torch.no_grad()
    def prepare(self, train: Dataset, val: Dataset | None = None) -> None:
        """The weights of the votes, from validation samples under masks of every kind, corrupted as in training."""
        self.finished = True
        if val is None:
            return
        self.to(val.device)
        rows = validation_rows(train, val)
        self.combination.count_classes(val.labels[rows])
        if self.weighs:
            learn_weights(self.combination, self.votes, masked_samples(val, rows, corrupt=self.corrupt), len(rows))

    def votes(self, batch: Batch) -> Votes:
        """The vote of every head; those of missing modalities are not present."""
        return head_votes(self.heads.logits(self.encoder(batch)), batch, self.corrupt)
