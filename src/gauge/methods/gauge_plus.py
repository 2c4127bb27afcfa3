"""GAUGE+: whole units beside fine ones, a head for each modality, and one answer from the network and all heads.

L = mean CE(network) over random subsets + Σ_m mean CE(head_m) over the samples that have modality m
logits = Σ_j w_j(observed) · log p_j, j over the network and the heads of observed modalities, w from validation data
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gauge.data import Dataset
from gauge.masks import AnyCells, AnyModalities, Protocol, draw_subsets, subsets
from gauge.methods.any_subset import under_subsets
from gauge.methods.late_fusion import masked_mean
from gauge.model.combination import Combination
from gauge.model.gates import Biased, hiding_bias
from gauge.model.gauge import Gating, Gauge, Reading
from gauge.model.network import Network
from gauge.model.units import UnitEncoder
from gauge.randomness import sample_keys
from gauge.types import Batch, Method, Prediction, SupportsComplete, Units

__all__ = ["GaugePlus"]

MASKS, ROWS = 16, 4096  # masks of each validation sample that the weights are learned from, and samples at most
UNGATED = Gating(granularity="none")


class GaugePlus(Method):
    """A `Gauge`, gated or not, whose modalities also answer alone. A head reads its modality's whole unit or, where it has
    none, the mean of its observed units.

    Without `heads`, or without `combines`, the network's answer is the answer.
    """

    def __init__(
        self,
        encoder: UnitEncoder,
        classifier: Network,
        imputer: SupportsComplete | None = None,
        *,
        subsets_per_step: int = 2,
        gating: Gating = UNGATED,
        heads: bool = True,
        combines: bool = True,
    ) -> None:
        super().__init__()
        self.gauge = Gauge(encoder, classifier, imputer, gating=gating)
        self.subsets_per_step = subsets_per_step
        modalities, dim, classes = len(encoder.layout), classifier.head.in_features, classifier.head.out_features
        self.heads = nn.ModuleList(nn.Linear(dim, classes) for _ in range(modalities)) if heads else None
        self.combination = Combination(1 + modalities, modalities) if heads and combines else None
        self.subsets = nn.Buffer(subsets(modalities), persistent=False)
        self.pooling = nn.Buffer(head_pooling(encoder), persistent=False)

    @property
    def encoder(self) -> UnitEncoder:
        return self.gauge.encoder

    @property
    def imputer(self) -> nn.Module | None:
        return self.gauge.imputer

    @property
    def gating(self) -> Gating:
        return self.gauge.gating

    def loss(self, batch: Batch, weights: Float[Tensor, "b"] | None = None) -> dict[str, Tensor]:
        """One encoding, which the heads read and the network sees under several subsets of the modalities. Each sample
        counts `weights` times."""
        assert batch.labels is not None
        reading = self.gauge.read(batch)
        under = reading if reading.visible is None else self._under_subsets(reading)
        logits = self.gauge.decide(under).logits
        terms = {"task": batch.cross_entropy(logits, weights)}
        if self.heads is not None:
            each = self._head_logits(reading.units)
            costs = F.cross_entropy(each.flatten(0, 1), batch.labels.repeat_interleave(each.shape[1]), reduction="none")
            costs = costs.reshape(each.shape[:2])
            costs = costs if weights is None else costs * weights[:, None]
            terms["heads"] = masked_mean(costs, batch.any_observed()).sum()
        return terms

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        return self.decide(self.read(batch.check()))

    def read(self, batch: Batch) -> Reading:
        return self.gauge.read(batch)

    def decide(self, reading: Reading) -> Prediction:
        """The network's answer, or the product of all answers; evidence and gates are those of the network."""
        prediction = self.gauge.decide(reading)
        return replace(prediction, logits=self.combine(prediction.logits, reading))

    def combine(self, logits: Float[Tensor, "b k"], reading: Reading) -> Float[Tensor, "b k"]:
        """The product of the network's answer, as logits, with those of the heads."""
        return logits if self.combination is None else self.combination(*self._all_answers(logits, reading))

    @torch.no_grad()
    def prepare(self, train: Dataset, val: Dataset | None = None) -> None:
        """The weights of the combination, from validation samples under masks of every kind."""
        if self.combination is None or val is None:
            return
        self.to(val.device)
        answers = []
        for batch in _masked(val):
            reading = self.read(batch)
            answers.append((*self._all_answers(self.gauge.decide(reading).logits, reading), batch.labels))
        self.combination.learn(*map(torch.cat, zip(*answers, strict=True)), rows=min(len(val), ROWS))

    def _head_logits(self, units: Units) -> Float[Tensor, "b m k"]:
        """The logits of all heads; those of missing modalities are meaningless."""
        assert self.heads is not None
        pooling = self.pooling * units.observed[:, None]
        pooling = pooling / pooling.sum(-1, keepdim=True).clamp_min(1)
        vectors = pooling.to(units.content.dtype) @ units.content
        return torch.stack([head(vector) for head, vector in zip(self.heads, vectors.unbind(1), strict=True)], 1)

    def _all_answers(
        self, logits: Float[Tensor, "b k"], reading: Reading
    ) -> tuple[Float[Tensor, "b j k"], Bool[Tensor, "b j"], Float[Tensor, "b m"]]:
        """All answers, the network's first; which of them are present; the observed share of each modality."""
        batch = reading.completed
        logits = torch.cat([logits[:, None], self._head_logits(reading.units)], 1)
        share = torch.stack([flags.reshape(len(batch), -1).float().mean(1) for flags in batch.observed.values()], 1)
        return logits.float(), F.pad(batch.any_observed(), (1, 0), value=True), share

    def _under_subsets(self, reading: Reading) -> Reading:
        chosen = draw_subsets(reading.completed.key, self.subsets, self.subsets_per_step)
        units, visible = under_subsets(reading.units, chosen)
        classifier = Biased(self.gauge.classifier, hiding_bias(visible))
        return Reading(_repeated(reading.completed, len(chosen)), units.keep(visible), classifier, visible)


def head_pooling(encoder: UnitEncoder) -> Float[Tensor, "m n"]:
    """Ones for the units that the head of each modality reads: its whole unit, or all where it has none."""
    table = encoder.modality == torch.arange(len(encoder.layout))[:, None]
    last = table & ~F.pad(table[:, 1:], (0, 1))
    has_whole = torch.tensor([encoder.has_whole(name) for name in encoder.layout])
    return torch.where(has_whole[:, None], last, table).float()


def _masked(val: Dataset) -> Iterator[Batch]:
    """Samples under masks of every kind: of each any subset of its modalities, of a table any share of its cells."""
    protocols: list[Protocol] = [AnyModalities(), *([AnyCells()] if any(val.layout.values()) else [])]
    for number in range(MASKS):
        for index in torch.arange(min(len(val), ROWS), device=val.device).split(512):
            key = sample_keys(index, number, "combination")
            draws = [protocol.keep(val.layout, key) for protocol in protocols]
            yield val.batch(index, keep={name: _both(*(draw[name] for draw in draws)) for name in val.layout}, key=key)


def _both(first: Tensor, second: Tensor | None = None) -> Tensor:
    if second is None:
        return first
    return first[:, None] & second if second.ndim == 2 else first & second


def _repeated(batch: Batch, count: int) -> Batch:
    def repeat(values: Tensor) -> Tensor:
        return values.repeat(count, *[1] * (values.ndim - 1))

    inputs = {name: repeat(values) for name, values in batch.inputs.items()}
    observed = {name: repeat(flags) for name, flags in batch.observed.items()}
    return Batch(inputs, observed, None, repeat(batch.index), repeat(batch.key))
