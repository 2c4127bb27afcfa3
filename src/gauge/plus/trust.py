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
    """What GAUGE+ also knows of a batch: the `head_logits` of heads that read single modalities."""

    head_logits: Float[Tensor, "b m k"] | None = None

    @property
    def seen(self) -> Bool[Tensor, "b n"]:
        """Which units the network sees."""
        return torch.ones_like(self.units.observed) if self.visible is None else self.visible


class TrustHead(nn.Module):
    """One attention block over the units of a sample; the trust in a unit is its gate. `head_classes` is the number of
    classes of the heads that the modalities have of their own, 0 without such heads.

        trust_i = sigmoid(a · h_i + b),   h = Linear(LN(Block(units + facts)))

    Facts about a unit: its unsigned and signed Taylor score; with heads that read single modalities also the class
    probabilities of its own modality, and how far they agree with those of the other observed modalities and with the
    network's ungated prediction. A modality or cell is right if it was neither noised nor swapped with one that says
    something else; the whole of a table by the share of its cells that are.

    The trust term teaches this head alone: units and facts are detached, and so is the trust that gates attention. a = 1
    and b = 0 until `calibrate` fits them.
    """

    def __init__(self, dim: int, *, heads: int = 4, head_classes: int = 0) -> None:
        super().__init__()
        self.facts = nn.Linear(2 + (head_classes + 2 if head_classes else 0), dim)
        self.block = Block(dim, heads)
        self.norm, self.answer = nn.LayerNorm(dim), nn.Linear(dim, 1)
        nn.init.constant_(self.answer.bias, 2.0)  # units are trusted until training knows better
        self.scale, self.shift = nn.Buffer(torch.ones(())), nn.Buffer(torch.zeros(()))

    @torch.no_grad()
    def forward(self, evidence: Evidence, reading: PlusReading) -> Float[Tensor, "b n"]:
        """The gates of `Gauge(gate=...)`: the trust in every unit. The task teaches the network to use the gates, but does
        not teach the trust: no gradient passes them."""
        return self.trust(evidence, reading)

    def trust(self, evidence: Evidence, reading: PlusReading) -> Float[Tensor, "b n"]:
        """The trust in every unit, 0 for units that are not visible, with the gradient that `trust_term` needs."""
        bias = hiding_bias(reading.seen)[..., 1:]
        state = self.block(reading.units.tokens.detach() + self.facts(self._known(reading, evidence)), bias)
        logits = self.answer(self.norm(state))[..., 0].float()
        return torch.where(reading.seen, torch.sigmoid(self.scale * logits + self.shift), 0.0)

    def _known(self, reading: PlusReading, evidence: Evidence) -> Float[Tensor, "b n a"]:
        units, visible = reading.units, reading.seen
        assert evidence.signed is not None
        scores = (normalize_scores(values, visible=visible) for values in (evidence.scores, evidence.signed))
        known = torch.stack([*scores], -1)
        if reading.head_logits is not None:
            agreement = _agreement(reading.head_logits, evidence.logits, units.observed & visible, units.modality)
            known = torch.cat([known, agreement], -1)
        return known.detach()

    def calibrate(self, trust: Float[Tensor, "u"], target: Float[Tensor, "u"]) -> None:
        """Fit scale and shift to the uncalibrated trust in units whose rightness is known, by maximum likelihood with a
        prior at 1 and 0."""
        logits, right = torch.logit(trust.detach().double(), MIN_DOUBT), target.double()
        log_scale, shift = (torch.zeros((), device=logits.device).double().requires_grad_() for _ in range(2))

        def objective() -> Tensor:
            cost = F.binary_cross_entropy_with_logits(log_scale.exp() * logits + shift, right, reduction="sum")
            return (cost + 0.5 * (log_scale.square() + shift.square())) / max(1, len(logits))

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
def rightness(encoder: UnitEncoder, batch: Batch) -> tuple[Float[Tensor, "b n"], Bool[Tensor, "b n"]]:
    """How right every observed unit is, and which units are observed. Without `truth`, all that is observed is right."""
    right = {
        name: flags if batch.truth is None else flags & ~batch.truth.wrong[name]
        for name, flags in batch.observed.items()
    }
    weight, total = (
        per_unit(encoder, {name: flags.float() for name, flags in each.items()}) for each in (batch.observed, right)
    )
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
