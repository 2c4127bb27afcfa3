"""How the evidence in a reading becomes gates (Eqs. 6 and 7): one class for each choice of `Gating(granularity=...)`."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gauge.model.gates import (
    LearnedGate,
    Normalization,
    attention_bias,
    normalize_scores,
    pool_by_modality,
    uses_zscore,
)
from gauge.model.reading import Reading
from gauge.types import Evidence, Scorer

RAW_THRESHOLD, ZSCORE_THRESHOLD = 0.5, 0.0  # where τ starts, app. B.3


class Gated(NamedTuple):
    """The gates of all units, None where attention is not gated, and the trust that the gates follow, if they do."""

    gates: Float[Tensor, "b n"] | None = None
    trust: Float[Tensor, "b n"] | None = None

    @property
    def bias(self) -> Float[Tensor, "b 1 1 s"] | None:
        """The attention bias of the gates (Eq. 9)."""
        return None if self.gates is None else attention_bias(self.gates)


class Gates(nn.Module):
    """(reading, evidence) -> Gated. `score` gives the evidence; where it is None, no ungated pass is made."""

    score: Scorer | None = None

    def forward(self, reading: Reading, evidence: Evidence | None) -> Gated:
        raise NotImplementedError(f"{type(self).__name__} has no forward(reading, evidence)")

    def gate_parameters(self) -> list[nn.Parameter]:
        """The parameters that may have a learning rate of their own."""
        return []


class NoGates(Gates):
    """The ungated network (v1, v2)."""

    def forward(self, reading: Reading, evidence: Evidence | None) -> Gated:
        return Gated()


class LearnedGates(LearnedGate, Gates):
    """Gates with a threshold, which starts where the scores of that many units suggest, and a temperature."""

    def __init__(self, units: int, normalization: Normalization = "adaptive") -> None:
        super().__init__(ZSCORE_THRESHOLD if uses_zscore(units, normalization) else RAW_THRESHOLD)
        self.normalization = normalization

    def gate_parameters(self) -> list[nn.Parameter]:
        return list(self.parameters())


class ImputedGates(LearnedGates):
    """One learned gate for all imputed units, whatever their scores."""

    def forward(self, reading: Reading, evidence: Evidence | None) -> Gated:
        observed = reading.units.observed
        return Gated(torch.where(observed, 1.0, self.open(torch.zeros_like(observed, dtype=torch.float32))))


class ScoreGates(LearnedGates):
    """Gates that open with the normalised scores of the units. With `distrust`, the scores of all imputed units are lowered
    by one learned number, which starts there."""

    def __init__(
        self, score: Scorer, units: int, normalization: Normalization = "adaptive", *, distrust: float | None = None
    ) -> None:
        super().__init__(units, normalization)
        self.score = score
        self.distrust = None if distrust is None else nn.Parameter(torch.tensor(float(distrust)))

    def forward(self, reading: Reading, evidence: Evidence | None) -> Gated:
        assert evidence is not None
        scores = self.pool(normalize_scores(evidence.scores, self.normalization, visible=reading.visible), reading)
        if self.distrust is not None:
            scores = scores - self.distrust * ~reading.units.observed
        return Gated(self.open(scores))

    def pool(self, scores: Float[Tensor, "b n"], reading: Reading) -> Float[Tensor, "b n"]:
        raise NotImplementedError(f"{type(self).__name__} has no pool(scores, reading)")


class UnitGates(ScoreGates):
    """One gate per unit: the paper's method."""

    def pool(self, scores: Float[Tensor, "b n"], reading: Reading) -> Float[Tensor, "b n"]:
        return scores


class ModalityGates(ScoreGates):
    """One gate per modality (v3)."""

    def pool(self, scores: Float[Tensor, "b n"], reading: Reading) -> Float[Tensor, "b n"]:
        return pool_by_modality(scores, reading.units.modality, visible=reading.visible)
