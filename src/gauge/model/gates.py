"""Scores -> gates -> attention bias: N-adaptive normalisation (Eq. 6), gate (Eq. 7), key-wise bias (Eq. 9)."""

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gauge.types import SupportsAttention

SCORE_FLOOR = 1e-6  # ε of Eq. 6, app. B.3
GATE_FLOOR = 1e-9  # ε_g of Eq. 9, app. B.3
FEW_UNITS = 3  # Eq. 6: up to this many units keep their raw scores

Normalization = Literal["adaptive", "zscore", "raw"]


def uses_zscore(count: int, normalization: Normalization = "adaptive") -> bool:
    """Whether `count` units are standardised; a layout's count is fixed, so a model never changes branch."""
    if normalization not in ("adaptive", "zscore", "raw"):
        raise ValueError(f"normalization {normalization!r} is unknown; use 'adaptive', 'zscore' or 'raw'")
    return normalization == "zscore" or (normalization == "adaptive" and count > FEW_UNITS)


def normalize_scores(
    scores: Float[Tensor, "b n"],
    normalization: Normalization = "adaptive",
    *,
    visible: Bool[Tensor, "b n"] | None = None,
) -> Float[Tensor, "b n"]:
    """(score - mean) / max(σ, ε) within each sample when it has more than three units, the raw scores otherwise.

    σ is the unbiased estimate. `visible` leaves hidden units out of the statistics, where missing units are masked.

    >>> normalize_scores(torch.tensor([[1.0, 2.0, 3.0, 4.0]])).sum().abs().item() < 1e-6
    True
    """
    scores = scores.detach().float()
    if not uses_zscore(scores.shape[1], normalization):
        return scores
    weight = torch.ones_like(scores) if visible is None else visible.float()
    count = weight.sum(1, keepdim=True)
    mean = (scores * weight).sum(1, keepdim=True) / count.clamp_min(1)
    variance = ((scores - mean).square() * weight).sum(1, keepdim=True) / (count - 1).clamp_min(1)
    return (scores - mean) / variance.sqrt().clamp_min(SCORE_FLOOR)


def pool_by_modality(
    scores: Float[Tensor, "b n"], modality: Int[Tensor, "n"], *, visible: Bool[Tensor, "b n"] | None = None
) -> Float[Tensor, "b n"]:
    """Every unit gets the mean of its modality's (visible) units: one gate per modality.

    NOTE[PAPER] modality-gate: the paper says that v3 "shares one gate across all units of a modality" and not how; we
    average the normalised unit scores, so the branch of Eq. 6 is chosen by the number of units, not of modalities.
    """
    weight = torch.ones_like(scores) if visible is None else visible.float()
    same = (modality[:, None] == modality).to(scores.dtype)
    return ((scores * weight) @ same) / (weight @ same).clamp_min(1)


class Gate(nn.Module):
    """sigmoid((s - τ) / exp(ρ)): the two parameters that GAUGE adds to a model.

    >>> Gate(threshold=0.5)(torch.tensor([[0.5]])).item()
    0.5
    """

    def __init__(self, threshold: float = 0.0) -> None:
        super().__init__()
        self.threshold = nn.Parameter(torch.tensor(float(threshold)))
        self.log_temperature = nn.Parameter(torch.tensor(0.0))

    def forward(self, scores: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
        return torch.sigmoid((scores - self.threshold) / self.log_temperature.exp())


def attention_bias(gates: Float[Tensor, "b n"]) -> Float[Tensor, "b 1 1 s"]:
    """log max(gate, 1e-9) on every key, 0 for CLS: multiplies a key's unnormalised attention weight by its gate.

    Always float32; attention casts it to the precision of its queries last.
    """
    bias = gates.float().clamp_min(GATE_FLOOR).log()
    return F.pad(bias, (1, 0))[:, None, None, :]


def hiding_bias(visible: Bool[Tensor, "b n"]) -> Float[Tensor, "b 1 1 s"]:
    """Takes invisible units out of every attention; CLS is always visible."""
    with torch.inference_mode(False):  # the scoring pass differentiates beside it, also for callers in inference mode
        bias = torch.where(visible.clone(), 0.0, -1e9)
        return F.pad(bias, (1, 0))[:, None, None, :]


class Biased:
    """A classifier that adds a standing bias, such as `hiding_bias`, to whatever bias it is given."""

    def __init__(self, classifier: SupportsAttention, standing: Tensor) -> None:
        self.classifier, self.standing = classifier, standing

    def __call__(self, tokens: Tensor, attn_bias: Tensor | None = None) -> Tensor:
        return self._with(self.classifier, tokens, attn_bias)

    def attention(self, tokens: Tensor, attn_bias: Tensor | None = None) -> Tensor:
        return self._with(self.classifier.attention, tokens, attn_bias)

    def _with(self, call: Callable[..., Tensor], tokens: Tensor, attn_bias: Tensor | None) -> Tensor:
        standing = self.standing.repeat(len(tokens) // len(self.standing), 1, 1, 1)  # exact effects stack replacements
        return call(tokens, standing if attn_bias is None else standing + attn_bias)
