"""GAUGE+: whole units beside fine ones, a head for each modality, and one answer from the network and all heads.

L = mean CE(network) over random subsets + Σ_m mean CE(head_m) over the samples that have modality m
logits = Σ_j w_j(observed) · log p_j, j over the network and the heads of observed modalities, w from validation data

With `Gating(granularity="trust")` L has a term for trust, and p_j is mixed with the uniform distribution by the trust in
what head j reads (see `Combination`), so that heads of imputed modalities can answer too; trained with corrupted evidence
but without trust, by the share that is sound. With an imputer L also has the CE of the gated network on imputed inputs.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gauge.data import Dataset
from gauge.masks import AnyCells, AnyModalities, Corruption, Protocol, draw_subsets, subsets
from gauge.methods.any_subset import under_subsets
from gauge.methods.late_fusion import HeadOutputs
from gauge.model.combination import Combination
from gauge.model.frozen import Frozen
from gauge.model.gates import Biased, hiding_bias
from gauge.model.gauge import UNGATED, Gating, Gauge
from gauge.model.network import Network
from gauge.model.reading import Reading
from gauge.model.trust import TrustHead, known_rightness, trust_term
from gauge.model.units import UnitEncoder
from gauge.randomness import sample_keys
from gauge.types import Batch, Method, Prediction, SupportsComplete, Units

__all__ = ["GaugePlus"]

MASKS, ROWS = 16, 4096  # masks of each validation sample that the weights are learned from, and samples at most
SOUND = Corruption()


class GaugePlus(Method):
    """A `Gauge`, gated or not, whose modalities also answer alone. A head reads its modality's whole unit or, where it has
    none, the mean of its observed units.

    Without `heads`, or without `combines`, the network's answer is the answer.

    >>> from gauge.model.encoders.mlp import Mlp
    >>> encoder = UnitEncoder({"scan": Mlp((3,), 8), "blood": Mlp((5,), 8)}, dim=8)
    >>> model = GaugePlus(encoder, Network(lambda sequence, attn_bias=None: sequence, dim=8, num_classes=3))
    >>> flags = {"scan": torch.tensor([True]), "blood": torch.tensor([False])}
    >>> model.predict(Batch({"scan": torch.rand(1, 3), "blood": torch.rand(1, 5)}, flags)).logits.shape
    torch.Size([1, 3])
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
        corrupt: Corruption = SOUND,
    ) -> None:
        """`corrupt`: what is wrong in training batches, so that the combination is learned from such samples too. With an
        imputer, `subsets_per_step=0` trains the network on imputed inputs alone."""
        super().__init__()
        modalities, dim, classes = len(encoder.unit_counts), classifier.head.in_features, classifier.head.out_features
        self.gauge = Gauge(encoder, classifier, imputer, gating=gating, head_classes=classes if heads else 0)
        self.subsets_per_step, self.corrupt = subsets_per_step, corrupt
        self.heads = nn.ModuleList(nn.Linear(dim, classes) for _ in range(modalities)) if heads else None
        self.combination = Combination(1 + modalities, modalities) if heads and combines else None
        self.subsets = nn.Buffer(subsets(modalities), persistent=False)
        self.pooling = nn.Buffer(head_pooling(encoder), persistent=False)

    @property
    def encoder(self) -> UnitEncoder:
        return self.gauge.encoder

    @property
    def imputer(self) -> Frozen | None:
        return self.gauge.imputer

    @property
    def gating(self) -> Gating:
        return self.gauge.gating

    def loss(self, batch: Batch, weights: Float[Tensor, "b"] | None = None) -> dict[str, Tensor]:
        """One encoding, which the heads read and the network sees under several subsets of the modalities. Each sample
        counts `weights` times. Heads do not learn from modalities that are known to be wrong."""
        assert batch.labels is not None
        reading = self.read(batch)
        under = reading if reading.visible is None else self._under_subsets(reading)
        prediction = self.gauge.decide(under)
        terms = {"task": batch.cross_entropy(prediction.logits, weights)}
        if reading.visible is None and self.subsets_per_step:
            masked = self._under_subsets(reading)
            terms["masked"] = batch.cross_entropy(masked.classifier(masked.units.tokens, None), weights)
        if reading.head_logits is not None:
            heads = HeadOutputs((), reading.head_logits, _right_modalities(batch))
            losses = heads.losses(batch)
            terms["heads"] = heads.total(losses if weights is None else losses * weights[:, None])
        if prediction.trust is not None:
            right, known = known_rightness(self.encoder, batch, reading)
            times = len(prediction.trust) // len(batch)
            terms["trust"] = trust_term(prediction.trust, right.repeat(times, 1), known.repeat(times, 1) & under.seen)
        return terms

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        return self.decide(self.read(batch.check()))

    def read(self, batch: Batch) -> Reading:
        reading = self.gauge.read(batch)
        return reading if self.heads is None else replace(reading, head_logits=self._head_logits(reading.units))

    def reference(self, units: Units) -> Tensor | None:
        return self.gauge.reference(units)

    def decide(self, reading: Reading) -> Prediction:
        """The network's answer, or the product of all answers; evidence and gates are those of the network."""
        prediction = self.gauge.decide(reading)
        return replace(prediction, logits=self.combine(prediction, reading))

    def combine(self, prediction: Prediction, reading: Reading) -> Float[Tensor, "b k"]:
        """The logits of the product of the network's answer with those of the heads."""
        if self.combination is None:
            return prediction.logits
        return self.combination(*self._all_answers(prediction, reading))

    @torch.no_grad()
    def prepare(self, train: Dataset, val: Dataset | None = None) -> None:
        """The calibration of the trust and the weights of the combination, from validation samples under masks of every
        kind, corrupted as in training; no more of them than training samples, so that few labels are few in all."""
        if val is None:
            return
        self.to(val.device)
        rows = min(len(val), len(train), ROWS)
        if self.gauge.trust is not None:
            self._calibrate(self.gauge.trust, val, rows)
        if self.combination is None:
            return
        answers = []
        for batch in self._masked(val, rows):
            reading = self.read(batch)
            logits, present, share, trust = self._all_answers(self.gauge.decide(reading), reading)
            answers.append((logits, present, share, batch.labels, *([] if trust is None else [trust])))
        self.combination.learn(*map(torch.cat, zip(*answers, strict=True)), rows=rows)

    def _calibrate(self, trust: TrustHead, val: Dataset, rows: int) -> None:
        trust.reset()
        parts = []
        for batch in self._masked(val, rows):
            reading = self.read(batch)
            trusted = self.gauge.decide(reading).trust
            assert trusted is not None
            parts.append((trusted, *known_rightness(self.encoder, batch, reading), ~reading.units.observed))
        trust.calibrate(*map(torch.cat, zip(*parts, strict=True)))

    def _masked(self, val: Dataset, rows: int) -> Iterator[Batch]:
        """The first samples under masks of every kind: any subset of the modalities, unless the imputer needs some of them,
        and of a table any share of its cells."""
        protocols: list[Protocol] = [] if self.gauge.imputer and self.gauge.imputer.needs_image else [AnyModalities()]
        protocols += [AnyCells()] if any(val.feature_counts.values()) else []
        for number in range(MASKS):
            for index in torch.arange(rows, device=val.device).split(512):
                key = sample_keys(index, number, "combination")
                draws = [protocol.keep(val.feature_counts, key) for protocol in protocols]
                keep = {name: _both(*(draw[name] for draw in draws)) for name in val.feature_counts}
                yield val.batch(index, keep=keep, key=key, corrupt=self.corrupt)

    def _head_logits(self, units: Units) -> Float[Tensor, "b m k"]:
        """The logits of all heads; those of missing modalities judge what was imputed, or are meaningless."""
        assert self.heads is not None
        pooling = self._pooling(units)
        vectors = pooling.to(units.content.dtype) @ units.content
        return torch.stack([head(vector) for head, vector in zip(self.heads, vectors.unbind(1), strict=True)], 1)

    def _pooling(self, units: Units) -> Float[Tensor, "b m n"]:
        """The weight of each unit in what each head reads: equal for its observed units, or for all if none is."""
        observed = self.pooling * units.observed[:, None]
        pooling = torch.where(observed.any(-1, keepdim=True), observed, self.pooling)
        return pooling / pooling.sum(-1, keepdim=True)

    def _all_answers(
        self, prediction: Prediction, reading: Reading
    ) -> tuple[Float[Tensor, "b j k"], Bool[Tensor, "b j"], Float[Tensor, "b m"], Float[Tensor, "b j"] | None]:
        """All answers, the network's first; which of them are present; the observed share of each modality; the trust in
        what each answer reads, 1 for the network, which weighs its units itself."""
        assert reading.head_logits is not None
        batch = reading.completed
        logits = torch.cat([prediction.logits[:, None], reading.head_logits], 1)
        present = batch.any_observed()
        share = torch.stack([flags.reshape(flags.shape[0], -1).float().mean(1) for flags in batch.observed.values()], 1)
        trust = None
        if prediction.trust is not None:
            read = (self._pooling(reading.units) @ prediction.trust[..., None])[..., 0]
            trust = F.pad(read, (1, 0), value=1.0)
            present = present | (self.imputer is not None)
        elif self.corrupt:
            trust = F.pad(torch.full_like(share, self.corrupt.sound), (1, 0), value=1.0)
        return logits.float(), F.pad(present, (1, 0), value=True), share, trust

    def _under_subsets(self, reading: Reading) -> Reading:
        chosen = draw_subsets(reading.completed.key, self.subsets, self.subsets_per_step)
        units, visible = under_subsets(reading.units, chosen)
        classifier = Biased(self.gauge.classifier, hiding_bias(visible))
        head_logits = None if reading.head_logits is None else reading.head_logits.repeat(len(chosen), 1, 1)
        completed = _repeated(reading.completed, len(chosen))
        return Reading(completed, units.keep(visible), classifier, visible, head_logits=head_logits)


def head_pooling(encoder: UnitEncoder) -> Float[Tensor, "m n"]:
    """Ones for the units that the head of each modality reads: its whole unit, or all where it has none."""
    own = encoder.modality == torch.arange(len(encoder.unit_counts))[:, None]
    last = own & F.pad(encoder.modality.diff() != 0, (0, 1), value=True)
    has_whole = torch.tensor([encoder.has_whole(name) for name in encoder.unit_counts])
    return torch.where(has_whole[:, None], last, own).float()


def _right_modalities(batch: Batch) -> Bool[Tensor, "b m"]:
    """The modalities with observed values, but for those that are known to be wrong as a whole."""
    if batch.truth is None:
        return batch.any_observed()
    wrong = torch.stack([flags.reshape(len(batch), -1).all(1) for flags in batch.truth.wrong.values()], 1)
    return batch.any_observed() & ~wrong


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
