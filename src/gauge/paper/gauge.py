"""GAUGE: complete the input, score every evidence unit, gate the attention, predict (Algorithm 1).

The equations stand in the order in which a batch meets them: scores (Eq. 4), normalisation (6), gates (7), attention bias
(9), loss of the gated prediction (10). The network (1) is in `network`, its attention (8) in `nn.attention`.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Unpack

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gauge.layout import SCORE_FLOOR, informative
from gauge.paper.network import Biased, Network, hiding_bias
from gauge.paper.units import Frozen, UnitEncoder
from gauge.registry import SCORERS
from gauge.types import Classifier, Method, Objective, ScoreOptions, Scorer, SupportsComplete, Tokens
from gauge.values import Batch, Evidence, Prediction, Units

__all__ = ["Gauge", "Gating"]

logger = logging.getLogger(__name__)

MAX_RAW_UNITS = 3  # Eq. 6: up to this many units keep their raw scores
RAW_THRESHOLD, ZSCORE_THRESHOLD = 0.5, 0.0  # where τ starts, app. B.3
GATE_FLOOR = 1e-9  # ε_g of Eq. 9, app. B.3

Normalization = Literal["adaptive", "zscore", "raw"]
Scores = Float[Tensor, "b n"]
Visible = Bool[Tensor, "b n"] | None


def taylor_evidence(classifier: Classifier, tokens: Tokens, **options: Unpack[ScoreOptions]) -> Evidence:
    """‖∇L ⊙ (reference - token)‖₁ for every unit (Eq. 4): the effect of replacing it, to first order and without
    cancellation.

    The signed sum would nearly vanish, because a pre-norm backbone is invariant to a token's scale.
    """
    logits, gradient = ungated_gradient(classifier, tokens, options.get("objective", "logit"))
    reference = options.get("reference")
    effects = gradient * (tokens.detach() if reference is None else displacement(tokens, reference))  # but for the sign
    wide = torch.promote_types(effects.dtype, torch.float32)
    # on a GPU the norm is one kernel; on a CPU it takes ten times as long as the sum
    scores = (
        torch.linalg.vector_norm(effects, 1, -1, dtype=wide) if effects.is_cuda else effects.abs().sum(-1, dtype=wide)
    )
    return Evidence(scores.float(), logits)


def ungated_gradient(classifier: Classifier, tokens: Tokens, objective: Objective) -> tuple[Tensor, Tokens]:
    """The logits, and the gradient of the predicted class's saliency in every token: one forward, one backward pass. No
    gradients of parameters are computed, the results are detached, and callers may be in `no_grad` or `inference_mode`."""
    with torch.inference_mode(False), torch.enable_grad():
        leaf = (tokens.clone() if tokens.is_inference() else tokens.detach()).requires_grad_()
        logits = classifier(leaf, None)
        weights = _saliency_gradient(logits.detach(), objective)
        if logits.is_cuda:
            (gradient,) = torch.autograd.grad(logits, leaf, weights)
        else:  # the same gradient; torch imports sympy to check the shape of weights, which takes a second
            (gradient,) = torch.autograd.grad((logits * weights).sum(), leaf)
    return logits.detach(), gradient


def saliency(logits: Float[Tensor, "b k"], target: Tensor, objective: Objective) -> Float[Tensor, "b"]:
    """L of a class: -z, or its negative log-likelihood, which vanishes on confident samples (app. A)."""
    values = logits if _check_objective(objective) == "logit" else logits.log_softmax(-1)
    return -values.gather(1, target[:, None])[:, 0]


def _saliency_gradient(logits: Float[Tensor, "b k"], objective: Objective) -> Float[Tensor, "b k"]:
    """The gradient in the logits of the saliency of the class they predict; written out, as autograd takes more kernels."""
    classes = torch.arange(logits.shape[1], device=logits.device)
    chosen = -(logits.argmax(-1, keepdim=True) == classes).to(logits.dtype)  # torch 2.11 compiles `scatter` to float32
    return chosen if _check_objective(objective) == "logit" else chosen + logits.softmax(-1).to(chosen)


def _check_objective(objective: Objective) -> Objective:
    if objective not in ("logit", "nll"):
        raise ValueError(f"objective {objective!r} is unknown; use 'logit' or 'nll'")
    return objective


def displacement(tokens: Tokens, reference: Tensor | None) -> Tokens:
    """d = e' - e, from the units to their replacements (zero when None)."""
    tokens = tokens.detach()
    return -tokens if reference is None else reference.detach().to(tokens) - tokens


def uses_zscore(count: int, normalization: Normalization = "adaptive") -> bool:
    """Whether the scores of `count` units are standardised (the count, hence the branch, is fixed for a model)."""
    if normalization not in ("adaptive", "zscore", "raw"):
        raise ValueError(f"normalization {normalization!r} is unknown; use 'adaptive', 'zscore' or 'raw'")
    return normalization == "zscore" or (normalization == "adaptive" and count > MAX_RAW_UNITS)


def normalize_scores(scores: Scores, normalization: Normalization = "adaptive", *, visible: Visible = None) -> Scores:
    """(score - mean) / max(σ, ε) within each sample when it has more than three units, the raw scores otherwise (Eq. 6). σ
    is the unbiased estimate; units outside `visible` are left out of the statistics.

    >>> normalize_scores(torch.tensor([[1.0, 2.0, 3.0, 4.0]])).sum().abs().item() < 1e-6
    True
    """
    scores = scores.detach().float()
    if not uses_zscore(scores.shape[1], normalization):
        return scores
    if visible is None:  # the usual case, in one kernel; a single unit has no unbiased σ
        deviation, mean = torch.std_mean(scores, 1, correction=min(1, scores.shape[1] - 1), keepdim=True)
        return (scores - mean) / deviation.clamp_min(SCORE_FLOOR)
    weight = visible.float()
    count = weight.sum(1, keepdim=True)
    mean = (scores * weight).sum(1, keepdim=True) / count.clamp_min(1)
    variance = ((scores - mean).square() * weight).sum(1, keepdim=True) / (count - 1).clamp_min(1)
    return (scores - mean) / variance.sqrt().clamp_min(SCORE_FLOOR)


def pool_by_modality(scores: Scores, modality: Int[Tensor, "n"], *, visible: Visible = None) -> Scores:
    """Every unit gets the mean score of its modality's (visible) units: one gate per modality (v3).

    NOTE[PAPER] modality-gate: the paper does not say how v3 "shares one gate across all units of a modality"; here the
    normalised unit scores are averaged, so the number of units, not of modalities, chooses the branch of Eq. 6.
    """
    weight = torch.ones_like(scores) if visible is None else visible.float()
    same = (modality[:, None] == modality).to(scores.dtype)
    return ((scores * weight) @ same) / (weight @ same).clamp_min(1)


class Gate(nn.Module):
    """sigmoid((s - τ) / exp(ρ)) (Eq. 7). τ and ρ are the two parameters that GAUGE adds to a model.

    >>> Gate(threshold=0.5)(torch.tensor([[0.5]])).item()
    0.5
    """

    def __init__(self, threshold: float = 0.0) -> None:
        super().__init__()
        self.threshold = nn.Parameter(torch.tensor(float(threshold)))
        self.log_temperature = nn.Parameter(torch.tensor(0.0))

    def forward(self, scores: Scores) -> Scores:
        return torch.sigmoid((scores - self.threshold) / self.log_temperature.exp())


def attention_bias(gates: Scores) -> Float[Tensor, "b 1 1 s"]:
    """log max(gate, 1e-9) for every key, 0 for CLS, in float32 (Eq. 9): multiplies a key's unnormalised attention by its
    gate."""
    return F.pad(gates.float().clamp_min(GATE_FLOOR).log(), (1, 0))[:, None, None, :]


@dataclass(frozen=True)
class Gating:
    """How evidence becomes gates, including every ablation of the paper.

    `granularity`: one gate per unit, one per modality (v3), or none (v1, v2). `reference` replaces a unit (zero when
    None).

    NOTE[PAPER] where-units-are-read: the paper leaves it open; here units are scored as they enter the backbone, with their
    embeddings.
    """

    granularity: Literal["unit", "modality", "none"] = "unit"
    score: str | Scorer = taylor_evidence
    normalization: Normalization = "adaptive"
    objective: Objective = "logit"
    reference: Tensor | None = None

    def __post_init__(self) -> None:
        if self.granularity not in ("unit", "modality", "none"):
            raise ValueError(f"granularity {self.granularity!r} is unknown; use 'unit', 'modality' or 'none'")

    @property
    def gates_units(self) -> bool:
        return self.granularity != "none"


UNGATED = Gating(granularity="none")


@dataclass(frozen=True)
class Reading:
    """A batch as the network reads it: the completed input, its units, and the classifier that sees the units in `visible`
    (all when None)."""

    completed: Batch
    units: Units
    classifier: Network | Biased
    visible: Bool[Tensor, "b n"] | None = None


class Gauge(Method):
    """A gated classifier over a frozen imputer (Algorithm 1).

        a_i = ‖∂L/∂e_i ⊙ (r - e_i)‖₁                              (Eq. 4)
        s = (a - mean a) / max(σ, ε), or a for up to three units   (Eq. 6)
        g = sigmoid((s - τ) / exp(ρ))                              (Eq. 7)
        logits = f(e, bias=log max(g, ε_g))                        (Eqs. 1, 8, 9)
        loss = CE(logits, y)                                       (Eq. 10)

    Without an imputer, missing units are hidden and the others gated. Encoders run once per step; the scoring pass and the
    gated pass share their tokens.

    NOTE[PAPER] scoring-mode: the paper does not say in which mode the scoring pass runs; here in that of the step: in
    training, BatchNorm and dropout are those of the gated pass.
    """

    shardable = True

    def __init__(
        self,
        encoder: UnitEncoder,
        classifier: Network,
        imputer: SupportsComplete | None = None,
        *,
        gating: Gating | None = None,
        gate: Callable[[Evidence, Reading], Tensor] | None = None,
    ) -> None:
        """`gate` takes the place of Eqs. 6 and 7: a module from the evidence and the reading of a batch to its gates [b, n],
        which come back as they enter the attention."""
        super().__init__()
        self.encoder, self.classifier = encoder, classifier
        self.imputer = None if imputer is None else Frozen(imputer)
        self.gating = gating or Gating()
        score = self.gating.score
        self.score = SCORERS.get(score) if isinstance(score, str) else score
        zscore = uses_zscore(sum(encoder.unit_counts.values()), self.gating.normalization)
        own = Gate(ZSCORE_THRESHOLD if zscore else RAW_THRESHOLD) if self.gating.gates_units else None
        self.gate = own if gate is None else gate

    def gate_parameters(self) -> list[nn.Parameter]:
        return list(self.gate.parameters()) if isinstance(self.gate, Gate) else []

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """The cross-entropy of the gated prediction (Eq. 10)."""
        assert batch.labels is not None
        return {"task": F.cross_entropy(self(batch).logits, batch.labels)}

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        """The prediction with evidence and gates; the values of the batch and the scores are checked."""
        prediction = self(batch.check())
        if prediction.evidence is not None:
            self._check(prediction.evidence, batch)
        return prediction

    def forward(self, batch: Batch) -> Prediction:
        return self.decide(self.read(batch))

    def read(self, batch: Batch) -> Reading:
        """Phase 1: complete and encode."""
        if self.imputer is not None:  # imputed units are units like any other: their gates decide how much they count
            completed = self.imputer.complete(batch)
            return Reading(completed, self.encoder(completed, hide_missing=False), self.classifier)
        units = self.encoder(batch)
        return Reading(batch, units, Biased(self.classifier, hiding_bias(units.observed)), units.observed)

    def weigh(self, reading: Reading) -> tuple[Evidence, Scores]:
        """Phase 2: the evidence of one ungated pass (Eq. 4), and the gates that it opens (Eqs. 6 and 7)."""
        if self.gate is None:
            raise ValueError("this model has no gates; use Gating(granularity='unit') or 'modality'")
        units, gating = reading.units, self.gating
        options: ScoreOptions = {
            "reference": gating.reference,
            "objective": gating.objective,
            "key": reading.completed.key,
        }
        evidence = self.score(reading.classifier, units.tokens, **options)
        if not isinstance(self.gate, Gate):  # gates of its own, such as trust, may read more than scores
            return evidence, self.gate(evidence, reading)
        scores = normalize_scores(evidence.scores, gating.normalization, visible=reading.visible)
        if gating.granularity == "modality":
            scores = pool_by_modality(scores, units.modality, visible=reading.visible)
        return evidence, self.gate(scores)

    def decide(self, reading: Reading) -> Prediction:
        """Phases 2 and 3: score and gate, then predict with the bias of the gates (Eq. 9)."""
        if self.gate is None:
            return Prediction(reading.classifier(reading.units.tokens, None))
        evidence, gates = self.weigh(reading)
        return Prediction(reading.classifier(reading.units.tokens, attention_bias(gates)), evidence, gates)

    def _check(self, evidence: Evidence, batch: Batch) -> None:
        if informative(evidence.scores):  # one question to the device for a whole batch
            return
        wrong = ~torch.isfinite(evidence.scores).all(1)
        if wrong.any():
            raise ValueError(
                f"the evidence scores of sample {int(batch.index[wrong][0])} are not finite ({int(wrong.sum())} such in "
                "the batch); look for exploding weights or for a score that divides by zero"
            )
        logger.warning("all evidence scores are within %g: the gates cannot tell units apart", SCORE_FLOOR)
