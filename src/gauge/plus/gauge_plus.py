"""GAUGE+: whole units beside fine ones, a head for each modality, and one prediction from the network and all heads."""

from dataclasses import replace
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from gauge.data import Dataset
from gauge.masks import Corruption, draw_subsets, subsets
from gauge.nn.losses import cross_entropy
from gauge.nn.shards import shared_key
from gauge.paper.gauge import UNGATED, Gating, Gauge
from gauge.paper.network import Biased, Network, hiding_bias
from gauge.paper.units import UnitEncoder
from gauge.plus._votes import SOUND, Votes, head_votes, learn_weights, masked_samples, validation_rows
from gauge.plus.any_subset import under_subsets
from gauge.plus.combination import Combination
from gauge.plus.heads import HeadGradients, Heads, tempered_losses
from gauge.plus.late_fusion import head_loss
from gauge.plus.trust import PlusReading, TrustHead, rightness, signed_taylor_evidence, trust_term
from gauge.types import Prepared
from gauge.values import Batch, Evidence, Prediction

__all__ = ["GaugePlus"]


class GaugePlus(Prepared):
    """A `Gauge`, gated or not, whose modalities also predict alone. A head reads its modality's whole unit or, where it has
    none, the mean of its observed units.

        L = mean CE(network) over random subsets + Σ_m mean CE(head_m) over the samples that have modality m
        logits = Σ_j w_j(observed) · log p_j, j over the network and the heads of observed modalities, w from validation data

    The gradient of head m reaches the encoders as far as it knows what the network knows of validation samples.

    With `gating="trust"` L has a term for trust, and p_j is mixed with the uniform distribution by the trust in what
    head j reads (see `Combination`); trained with corrupted evidence but without trust, by the share that is sound.

    Parameters
    ----------
    encoder, classifier
        As for `Gauge`; missing modalities are hidden.
    subsets_per_step
        Under how many random subsets of the modalities the network sees each batch.
    gating
        "trust" gates each unit by the learned probability that it is right; by default there are no gates.
    heads
        "validated" heads train the encoders by their share of what the network knows of validation samples (see
        `HeadGradients`), "joint" ones wholly, "detached" ones not at all. With "none" the prediction is the network's.
    corrupt
        What is wrong in training batches, so that the combination is learned from such samples, too.

    Examples
    --------
    >>> from gauge.encoders.mlp import Mlp
    >>> encoder = UnitEncoder({"scan": Mlp((3,), 8), "blood": Mlp((5,), 8)}, dim=8)
    >>> model = GaugePlus(encoder, Network(lambda sequence, attn_bias=None: sequence, dim=8, num_classes=3))
    >>> train = Dataset("train", {"scan": torch.rand(9, 3), "blood": torch.rand(9, 5)}, torch.arange(9) % 3)
    >>> model.prepare(train, train)  # called by `gauge.fit` after training
    >>> flags = {"scan": torch.tensor([True]), "blood": torch.tensor([False])}
    >>> model.predict(Batch({"scan": torch.rand(1, 3), "blood": torch.rand(1, 5)}, flags)).logits.shape
    torch.Size([1, 3])
    """

    shardable = True

    def __init__(
        self,
        encoder: UnitEncoder,
        classifier: Network,
        *,
        subsets_per_step: int = 2,
        gating: Gating | Literal["trust"] = UNGATED,
        heads: Literal["validated", "joint", "detached", "none"] = "validated",
        corrupt: Corruption = SOUND,
    ) -> None:
        super().__init__()
        modalities, dim, classes = len(encoder.unit_counts), classifier.head.in_features, classifier.head.out_features
        has_heads = heads != "none"
        gate = None
        if gating == "trust":
            gate = TrustHead(dim, head_classes=classes if has_heads else 0)
            gating = Gating(score=signed_taylor_evidence)
        self.gauge = Gauge(encoder, classifier, gating=gating, gate=gate)
        self.subsets_per_step, self.corrupt = subsets_per_step, corrupt
        self.detached = heads == "detached"
        self.heads = Heads(encoder, dim, classes) if has_heads else None
        self.head_gradients = HeadGradients(modalities) if heads == "validated" else None
        self.combination = Combination(1 + modalities, modalities, classes) if has_heads else None
        self.subsets = nn.Buffer(subsets(modalities), persistent=False)

    @property
    def encoder(self) -> UnitEncoder:
        return self.gauge.encoder

    @property
    def gating(self) -> Gating:
        return self.gauge.gating

    @property
    def trust(self) -> TrustHead | None:
        """What gates the units by trust, if anything does."""
        return self.gauge.gate if isinstance(self.gauge.gate, TrustHead) else None

    def loss(self, batch: Batch, weights: Float[Tensor, "b"] | None = None) -> dict[str, Tensor]:
        """Return the terms of the loss, from one encoding, which the heads read and the network sees under several subsets
        of the modalities. Heads do not learn from modalities that are known to be wrong.

        Parameters
        ----------
        batch
            With labels.
        weights
            What each sample counts.

        Returns
        -------
        dict
            The terms whose sum training minimises: "task", with heads "heads", and with trust "trust".

        Examples
        --------
        >>> list(model.loss(train.batch(torch.arange(9))))
        ['task', 'heads']
        """
        assert batch.labels is not None
        reading = self.read(batch)
        under = self._under_subsets(reading)
        prediction = self.decide_network(under)
        terms = {"task": cross_entropy(batch, prediction.logits, weights)}
        if reading.head_logits is not None:
            terms["heads"] = head_loss(reading.head_logits, batch, weights)
        if self.trust is not None and prediction.evidence is not None:
            trust = self.trust.trust(prediction.evidence, under)
            right, known = rightness(self.encoder, batch)
            times = len(trust) // len(batch)
            terms["trust"] = trust_term(trust, right.repeat(times, 1), known.repeat(times, 1) & under.seen)
        return terms

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        """Return the prediction for a batch, once `gauge.fit` has trained the model.

        Parameters
        ----------
        batch
            With every modality of the encoder; flags say which samples have it.

        Returns
        -------
        Prediction
            The logits and, with trust, the probability that each unit is right.

        Examples
        --------
        >>> from gauge.encoders.mlp import Mlp
        >>> encoder = UnitEncoder({"scan": Mlp((3,), 8)}, dim=8)
        >>> model = GaugePlus(encoder, Network(lambda sequence, attn_bias=None: sequence, dim=8, num_classes=3))
        >>> train = Dataset("train", {"scan": torch.rand(9, 3)}, torch.arange(9) % 3)
        >>> model.prepare(train, train)  # called by `gauge.fit` after training
        >>> model.predict(train.batch(torch.tensor([2, 5]))).logits.shape
        torch.Size([2, 3])
        """
        return self.decide(self.read(batch.check()))

    def read(self, batch: Batch) -> PlusReading:
        """What the network reads of a batch, and what trust and the heads make of it."""
        reading = PlusReading(**vars(self.gauge.read(batch)))
        if self.heads is None:
            return reading
        content = reading.units.content
        if self.detached:
            content = content.detach()
        elif self.head_gradients is not None:
            content = self.head_gradients(content, reading.units.modality)
        return replace(reading, head_logits=self.heads.logits(replace(reading.units, content=content)))

    def weigh(self, reading: PlusReading) -> tuple[Evidence, Tensor]:
        return self.gauge.weigh(reading)

    def decide(self, reading: PlusReading) -> Prediction:
        """The network's prediction, or the product of all votes; evidence and gates are those of the network."""
        self.check_finished()
        prediction = self.decide_network(reading)
        return replace(prediction, logits=self.combine(prediction, reading))

    def decide_network(self, reading: PlusReading) -> Prediction:
        prediction = self.gauge.decide(reading)
        return prediction if self.trust is None else replace(prediction, trust=prediction.gates)

    def combine(self, prediction: Prediction, reading: PlusReading) -> Float[Tensor, "b k"]:
        """The logits of the product of the network's vote with those of the heads."""
        if self.combination is None:
            return prediction.logits
        return self.combination(*self._all_votes(prediction, reading))

    @torch.no_grad()
    def validate(self, train: Dataset, val: Dataset) -> dict[str, float]:
        """How much each head trains the encoders in the next epoch, by what heads and network know of validation samples as
        they are; returns these shares."""
        if self.heads is None or self.head_gradients is None:
            return {}
        index = validation_rows(train, val)
        training, votes = self.training, []
        self.eval()
        for batch in map(val.batch, index.split(512)):
            reading = self.read(batch)
            assert reading.head_logits is not None
            network = reading.classifier(reading.units.tokens, None)
            logits = torch.cat([network[:, None].float(), reading.head_logits.float()], 1)
            votes.append((logits, F.pad(batch.any_observed(), (1, 0), value=True)))
        self.train(training)
        logits, present = map(torch.cat, zip(*votes, strict=True))
        labels = val.labels[index]
        losses = tempered_losses(logits, labels, present)
        entropy = torch.special.entr(labels.bincount() / len(labels)).sum()
        self.head_gradients.follow(losses[1:], losses[0], float(entropy))
        shares = self.head_gradients.share.tolist()
        return {f"share of {name}": share for name, share in zip(self.encoder.unit_counts, shares, strict=True)}

    @torch.no_grad()
    def prepare(self, train: Dataset, val: Dataset | None = None) -> None:
        """The calibration of the trust and the weights of the combination, from validation samples under masks of every
        kind, corrupted as in training."""
        self.finished = True
        if val is None:
            return
        self.to(val.device).eval()
        rows = validation_rows(train, val)
        if self.trust is not None:
            self._calibrate(self.trust, val, rows)
        if self.combination is not None:
            batches = masked_samples(val, rows, corrupt=self.corrupt)
            learn_weights(self.combination, self._votes, batches, len(rows))

    def _calibrate(self, trust: TrustHead, val: Dataset, rows: Int[Tensor, "rows"]) -> None:
        trust.reset()
        parts = []
        for batch in masked_samples(val, rows, corrupt=self.corrupt):
            _, trusted = self.weigh(self.read(batch))
            right, known = rightness(self.encoder, batch)
            parts.append((trusted[known], right[known]))
        trust.calibrate(*map(torch.cat, zip(*parts, strict=True)))

    def _votes(self, batch: Batch) -> Votes:
        reading = self.read(batch)
        return self._all_votes(self.decide_network(reading), reading)

    def _all_votes(self, prediction: Prediction, reading: PlusReading) -> Votes:
        """The network's vote and those of the heads. The network weighs its units itself, so it is trusted; heads are
        trusted as far as the units are that they read."""
        assert reading.head_logits is not None
        assert self.heads is not None
        logits, present, share, trust = head_votes(reading.head_logits, reading.completed, self.corrupt)
        if prediction.trust is not None:
            trust = (self.heads.weights(reading.units) @ prediction.trust[..., None])[..., 0]
        logits = torch.cat([prediction.logits[:, None].float(), logits], 1)
        trust = None if trust is None else F.pad(trust, (1, 0), value=1.0)
        return Votes(logits, F.pad(present, (1, 0), value=True), share, trust)

    def _under_subsets(self, reading: PlusReading) -> PlusReading:
        chosen = draw_subsets(shared_key(reading.completed.key), self.subsets, self.subsets_per_step)
        units, visible = under_subsets(reading.units, chosen)
        classifier = Biased(self.gauge.classifier, hiding_bias(visible))
        head_logits = None if reading.head_logits is None else reading.head_logits.repeat(len(chosen), 1, 1)
        completed = _repeated(reading.completed, len(chosen))
        return PlusReading(completed, units.keep(visible), classifier, visible, head_logits=head_logits)


def _repeated(batch: Batch, count: int) -> Batch:
    def repeat(values: Tensor) -> Tensor:
        return values.repeat(count, *[1] * (values.ndim - 1))

    inputs = {name: repeat(values) for name, values in batch.inputs.items()}
    observed = {name: repeat(flags) for name, flags in batch.observed.items()}
    return Batch(inputs, observed, None, repeat(batch.index), repeat(batch.key))
