"""Trust: the probability that a unit is right, learned where training knows it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Unpack

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gauge.nn.attention import Block
from gauge.nn.minimize import minimize
from gauge.nn.shards import at_least_one
from gauge.paper.gauge import Reading, displacement, normalize_scores, ungated_gradient
from gauge.paper.network import hiding_bias
from gauge.paper.units import UnitEncoder
from gauge.types import Classifier, ScoreOptions, Tokens
from gauge.values import Batch, Evidence

MIN_DOUBT = 1e-6  # how near to 0 and 1 trust may come in its loss


def signed_taylor_evidence(classifier: Classifier, tokens: Tokens, **options: Unpack[ScoreOptions]) -> Evidence:
    """The Taylor scores (Eq. 4), and the same with cancellation."""
    logits, gradient = ungated_gradient(classifier, tokens, options.get("objective", "logit"))
    effects = (gradient * displacement(tokens, options.get("reference"))).float()
    return Evidence(effects.abs().sum(-1), logits, effects.sum(-1))


@dataclass(frozen=True)
class PlusReading(Reading):
    """What GAUGE+ also knows of a batch: the imputer's `uncertainty` about each unit, and the `head_logits` of heads that
    read single modalities."""

    uncertainty: Float[Tensor, "b n"] | None = None
    head_logits: Float[Tensor, "b m k"] | None = None

    @property
    def seen(self) -> Bool[Tensor, "b n"]:
        """Which units the network sees."""
        return torch.ones_like(self.units.observed) if self.visible is None else self.visible


class TrustHead(nn.Module):
    """One attention block over the units of a sample; the trust in a unit is its gate. `head_classes` is the number of
    classes of the heads that the modalities have of their own, 0 without such heads.

        trust_i = sigmoid(a · h_i + b),   h = Linear(LN(Block(units + facts)))

    Facts about a unit: whether it was imputed, the imputer's uncertainty, its unsigned and signed Taylor score; with
    heads that read single modalities also the class probabilities of its own modality, and how far they agree with those
    of the other observed modalities and with the network's ungated prediction. What makes a unit right:

        observed modality or cell   it was neither noised nor swapped with one that says something else
        imputed modality            alone it shows the true class
        imputed cell                a number is within half a standard deviation of the true one, a category is the true one
        whole of a table            the share of its cells that are right

    The trust term teaches this head alone: units and facts are detached, and so is the trust that gates attention. a = 1
    and b = 0 until `calibrate` fits them, for observed and for imputed units apart.
    """

    def __init__(self, dim: int, *, heads: int = 4, head_classes: int = 0) -> None:
        super().__init__()
        self.facts = nn.Linear(4 + (head_classes + 2 if head_classes else 0), dim)
        self.block = Block(dim, heads)
        self.norm, self.answer = nn.LayerNorm(dim), nn.Linear(dim, 1)
        nn.init.constant_(self.answer.bias, 2.0)  # units are trusted until training knows better
        self.scale, self.shift = nn.Buffer(torch.ones(2)), nn.Buffer(torch.zeros(2))

    @torch.no_grad()
    def forward(self, evidence: Evidence, reading: PlusReading) -> Float[Tensor, "b n"]:
        """The gates of `Gauge(gate=...)`: the trust in every unit. The task teaches the network to use the gates, but does
        not teach the trust: no gradient passes them."""
        return self.trust(evidence, reading)

    def trust(self, evidence: Evidence, reading: PlusReading) -> Float[Tensor, "b n"]:
        """The trust in every unit, 0 for units that are not visible, with the gradient that `trust_term` needs."""
        units, visible, imputed = reading.units, reading.visible, ~reading.units.observed
        bias = None if visible is None else hiding_bias(visible)[..., 1:]
        state = self.block(units.tokens.detach() + self.facts(self._known(reading, evidence)), bias)
        logits = self.answer(self.norm(state))[..., 0].float()
        group = imputed.long()
        trust = torch.sigmoid(self.scale[group] * logits + self.shift[group])
        return trust if visible is None else torch.where(visible, trust, 0.0)

    def _known(self, reading: PlusReading, evidence: Evidence) -> Float[Tensor, "b n a"]:
        units, visible = reading.units, reading.visible
        assert evidence.signed is not None
        uncertainty = torch.zeros_like(evidence.signed) if reading.uncertainty is None else reading.uncertainty
        facts = [
            (~units.observed).float(),
            uncertainty.to(evidence.signed.dtype),
            normalize_scores(evidence.scores, visible=visible),
            normalize_scores(evidence.signed, visible=visible),
        ]
        known = torch.stack(facts, -1)
        if reading.head_logits is not None:
            available = units.observed if visible is None else units.observed & visible
            agreement = _agreement(reading.head_logits, evidence.logits, available, units.modality)
            known = torch.cat([known, agreement], -1)
        return known.detach()

    def calibrate(self, trust: Float[Tensor, "u"], target: Float[Tensor, "u"], imputed: Bool[Tensor, "u"]) -> None:
        """Fit scale and shift to the uncalibrated trust in units whose rightness is known, by maximum likelihood with a
        prior at 1 and 0."""
        logits = torch.logit(trust.detach().double(), MIN_DOUBT)
        group, right = imputed.long(), target.double()
        log_scale, shift = (torch.zeros(2, device=logits.device).double().requires_grad_() for _ in range(2))

        def objective() -> Tensor:
            fitted = log_scale.exp()[group] * logits + shift[group]
            cost = F.binary_cross_entropy_with_logits(fitted, right, reduction="sum")
            return (cost + 0.5 * (log_scale.square() + shift.square()).sum()) / max(1, len(logits))

        minimize(objective, [log_scale, shift], max_iter=50)
        self.scale.copy_(log_scale.detach().exp())
        self.shift.copy_(shift.detach())

    def reset(self) -> None:
        """Undo `calibrate`."""
        self.scale.fill_(1.0)
        self.shift.zero_()


def _agreement(
    head_logits: Float[Tensor, "b m k"],
    logits: Float[Tensor, "b k"],
    available: Bool[Tensor, "b n"],
    modality: Int[Tensor, "n"],
) -> Float[Tensor, "b n a"]:
    """For every unit the class probabilities p of its modality, log Σ_k p_k q_k with the mean q of the other available
    modalities (uniform if there are none), and the same with the network's prediction."""
    own, predicted = head_logits.float().softmax(-1), logits.float().softmax(-1)
    member = modality == torch.arange(own.shape[1], device=modality.device)[:, None]
    mask = (available[:, None] & member).any(-1, keepdim=True).float()
    total, count = (own * mask).sum(1, keepdim=True), mask.sum(1, keepdim=True)
    others = torch.where(count > mask, (total - own * mask) / (count - mask).clamp_min(1), 1 / own.shape[-1])
    overlaps = [(own * probabilities).sum(-1, keepdim=True) for probabilities in (others, predicted[:, None])]
    # below it, agreement counts as this
    return torch.cat([own, *(overlap.clamp_min(1e-3).log() for overlap in overlaps)], -1)[:, modality]


def trust_term(
    trust: Float[Tensor, "b n"], target: Float[Tensor, "b n"], known: Bool[Tensor, "b n"]
) -> Float[Tensor, ""]:
    """The mean cross-entropy of the trust in units whose rightness is known."""
    trust = trust.clamp(MIN_DOUBT, 1 - MIN_DOUBT)
    costs = -(target * trust.log() + (1 - target) * (1 - trust).log())
    return (costs * known).sum() / at_least_one(known.sum(), len(known))


@torch.no_grad()
def known_rightness(
    encoder: UnitEncoder, batch: Batch, reading: Reading, head_logits: Float[Tensor, "b m k"] | None = None
) -> tuple[Float[Tensor, "b n"], Bool[Tensor, "b n"]]:
    """The rightness of the units of a training batch, and for which of the visible units it is known. What an imputed
    modality shows is the class of its head or, without heads, that of the network from that modality alone."""
    assert batch.labels is not None
    if reading.visible is not None:
        right, known = rightness(encoder, batch)
        return right, known & reading.visible
    shown = (_logits_alone(reading) if head_logits is None else head_logits).argmax(-1)
    return rightness(encoder, batch, reading.completed, shown == batch.labels[:, None])


def _logits_alone(reading: Reading) -> Float[Tensor, "b m k"]:
    """The network's logits from every modality alone."""
    units, logits = reading.units, []
    for index in range(len(reading.completed.inputs)):
        visible = (units.modality == index).expand(units.observed.shape)
        logits.append(reading.classifier(units.keep(visible).tokens, hiding_bias(visible)))
    return torch.stack(logits, 1)


@torch.no_grad()
def rightness(
    encoder: UnitEncoder, batch: Batch, completed: Batch | None = None, shown: Bool[Tensor, "b m"] | None = None
) -> tuple[Float[Tensor, "b n"], Bool[Tensor, "b n"]]:
    """How right every unit is, and for which units that is known. The batch holds the true values behind `observed ==
    False`; of what is imputed, `completed` holds the values, and `shown` says which modalities alone show the true class.
    Without `truth`, observed values are right and imputed cells unknown."""
    right, known = {}, {}
    for index, (name, observed) in enumerate(batch.observed.items()):
        right[name] = torch.ones_like(observed) if batch.truth is None else ~batch.truth.wrong[name]
        known[name] = observed
        if completed is None:
            continue
        if observed.ndim == 1 and shown is not None:
            right[name], known[name] = torch.where(observed, right[name], shown[:, index]), torch.ones_like(observed)
        elif observed.ndim == 2 and batch.truth is not None:
            known[name] = batch.truth.known[name]
            near = _near(completed.inputs[name], batch.inputs[name], known[name])
            right[name] = torch.where(observed, right[name], near)
    weight = per_unit(encoder, {name: flags.float() for name, flags in known.items()})
    total = per_unit(encoder, {name: (right[name] & known[name]).float() for name in right})
    return total / weight.clamp_min(MIN_DOUBT), weight > 0


def per_unit(encoder: UnitEncoder, values: Mapping[str, Float[Tensor, "b *f"]]) -> Float[Tensor, "b n"]:
    """Numbers for each modality, or each of its features, as numbers for each unit; the whole of a table has their mean."""
    parts = []
    for name, count in encoder.unit_counts.items():
        part = values[name]
        if part.ndim == 1:
            part = part[:, None].expand(-1, count)
        elif encoder.has_whole(name):
            mean = part.mean(1, keepdim=True)
            part = mean if count == 1 else torch.cat([part, mean], 1)
        parts.append(part)
    return torch.cat(parts, 1)


def _near(
    imputed: Float[Tensor, "b f ..."], true: Float[Tensor, "b f ..."], known: Bool[Tensor, "b f"]
) -> Bool[Tensor, "b f"]:
    """Which imputed cells are within the tolerance of their column; the spread of a column is that of the true values of
    the batch."""
    imputed, true = (values.flatten(2).mean(-1) if values.ndim > 2 else values for values in (imputed, true))
    true = torch.where(known, true, 0.0)
    count = known.sum(0).clamp_min(1)
    mean = true.sum(0) / count
    spread = (torch.where(known, true - mean, 0.0).square().sum(0) / count).sqrt()
    # an imputed number is right within half a standard deviation of its column
    tolerance = torch.where((true == true.round()).all(0), 0.5, 0.5 * spread)
    return (imputed - true).abs() <= tolerance
