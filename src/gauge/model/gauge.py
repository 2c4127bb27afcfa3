"""GAUGE: complete the input, score every evidence unit, gate the attention, predict (Eqs. 1-10, Algorithm 1)."""

import logging
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from gauge.model.frozen import Frozen
from gauge.model.gates import Biased, Normalization, hiding_bias
from gauge.model.gating import Gates, ImputedGates, ModalityGates, NoGates, UnitGates
from gauge.model.network import Network
from gauge.model.passes import Passes
from gauge.model.reading import Reading
from gauge.model.scoring.taylor import taylor_evidence
from gauge.model.trust import TrustHead, known_rightness, per_unit, trust_term
from gauge.model.units import UnitEncoder
from gauge.registry import SCORERS
from gauge.types import SCORE_FLOOR, Batch, Evidence, Method, Objective, Prediction, Scorer, SupportsComplete, Units

__all__ = ["Gauge", "Gating"]

logger = logging.getLogger(__name__)

DISTRUST = 2.0  # start of `informed`, in deviations of a sample's scores: gates of imputed units start nearly closed
CHOICES = (("granularity", ("unit", "modality", "imputed", "trust", "none")), ("read", ("backbone", "encoder")))


@dataclass(frozen=True)
class Gating:
    """How evidence becomes gates, including every ablation of the paper.

    `granularity`: one gate per unit, one per modality (v3), one learned gate for all imputed units regardless of scores, the
    learned probability that a unit is right (`trust`, not in the paper), or none (v1, v2). `read`: units are scored as they
    enter the backbone, or before the embeddings are added, so that a replaced unit keeps them. `reference` replaces a unit
    there (zero when None). `informed` lowers the scores of all imputed units by one learned number (not in the
    paper), which starts at `distrust`. Unless the gated pass `answers`, the ungated one does, and gates are computed as
    evidence alone (not in the paper).

    NOTE[PAPER] where-units-are-read: the paper leaves it open; the gradient is the same, the displacement is not.
    """

    granularity: Literal["unit", "modality", "imputed", "trust", "none"] = "unit"
    score: str | Scorer = taylor_evidence
    normalization: Normalization = "adaptive"
    objective: Objective = "logit"
    read: Literal["backbone", "encoder"] = "backbone"
    reference: Tensor | None = None
    informed: bool = False
    distrust: float = DISTRUST
    answers: bool = True

    def __post_init__(self) -> None:
        for name, allowed in CHOICES:
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} {getattr(self, name)!r} is unknown; use one of {', '.join(allowed)}")

    @property
    def gates_units(self) -> bool:
        """Whether units have gates."""
        return self.granularity != "none"

    @property
    def scores_units(self) -> bool:
        """Whether the gates depend on evidence scores, or on trust that reads them."""
        return self.granularity not in ("none", "imputed")

    def build(self, units: int, dim: int, *, head_classes: int = 0) -> Gates:
        """The gates of a model with that many units. `head_classes` is the number of classes of the heads whose logits trust
        reads, 0 without heads."""
        score = SCORERS.get(self.score) if isinstance(self.score, str) else self.score
        distrust = self.distrust if self.informed else None
        match self.granularity:
            case "unit":
                return UnitGates(score, units, self.normalization, distrust=distrust)
            case "modality":
                return ModalityGates(score, units, self.normalization, distrust=distrust)
            case "imputed":
                return ImputedGates(units, self.normalization)
            case "trust":
                return TrustHead(dim, head_classes=head_classes)
            case "none":
                return NoGates()


UNGATED = Gating(granularity="none")


class Gauge(Method):
    """A gated classifier over a frozen imputer. Without an imputer, missing units are hidden and the others gated. Encoders
    run once per step; the scoring pass and the gated pass share their tokens.

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
        head_classes: int = 0,
    ) -> None:
        """`head_classes`: the number of classes of the heads whose logits readings carry, 0 if they carry none."""
        super().__init__()
        self.encoder, self.classifier = encoder, classifier
        self.imputer = None if imputer is None else Frozen(imputer)
        self.gating = gating or Gating()
        units, dim = sum(encoder.unit_counts.values()), classifier.head.in_features
        self.gate = self.gating.build(units, dim, head_classes=head_classes)

    @property
    def trust(self) -> TrustHead | None:
        """The gate, if it is learned trust."""
        return self.gate if isinstance(self.gate, TrustHead) else None

    def gate_parameters(self) -> list[nn.Parameter]:
        return self.gate.gate_parameters()

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Cross-entropy of the gated prediction (Eq. 10), and of the trust in its units if they have any."""
        reading = self.read(batch)
        prediction = self.decide(reading)
        terms = {"task": batch.cross_entropy(prediction.logits)}
        if prediction.trust is not None:
            terms["trust"] = trust_term(prediction.trust, *known_rightness(self.encoder, batch, reading))
        return terms

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
        if self.imputer is not None:
            completed = self.imputer.complete(batch)
            doubt = None if self.trust is None else self.imputer.uncertainty(batch)
            uncertainty = None if doubt is None else per_unit(self.encoder, doubt)
            units = self.encoder(completed, hide_missing=False)
            return Reading(completed, units, self.classifier, uncertainty=uncertainty)
        units = self.encoder(batch)
        return Reading(batch, units, Biased(self.classifier, hiding_bias(units.observed)), units.observed)

    def decide(self, reading: Reading, *, evidence: bool = False) -> Prediction:
        """Phases 2 and 3: score and gate, then predict. Where gates do not change the answer, there are none unless the
        `evidence` is asked for."""
        answers, passes = self.gating.answers, Passes(reading.classifier, reading.units.tokens)
        if not (answers or evidence):
            return Prediction(passes.gated(None))
        scored = self.score(passes, reading)
        gates, trust = gated = self.gate(reading, scored)
        logits = passes.gated(gated.bias if answers else None)
        return Prediction(logits, scored, gates, trust)

    def score(self, passes: Passes, reading: Reading) -> Evidence | None:
        """The evidence of one ungated pass; None for gates that do not depend on any."""
        if self.gate.score is None:
            return None
        reference, objective = self.reference(reading.units), self.gating.objective
        return self.gate.score(
            passes, passes.tokens, reference=reference, objective=objective, key=reading.completed.key
        )

    def reference(self, units: Units) -> Tensor | None:
        """The replacement of a unit, as the backbone sees it."""
        reference = self.gating.reference
        if self.gating.read == "backbone":
            return reference
        return units.embedding if reference is None else units.embedding + reference.to(units.embedding)

    def _check(self, evidence: Evidence, batch: Batch) -> None:
        if evidence.informative:
            return
        wrong = ~torch.isfinite(evidence.scores).all(1)
        if wrong.any():
            raise ValueError(
                f"the evidence scores of sample {int(batch.index[wrong][0])} are not finite ({int(wrong.sum())} such in "
                "the batch); look for exploding weights or for a score that divides by zero"
            )
        logger.warning("all evidence scores are within %g: the gates cannot tell units apart", SCORE_FLOOR)
