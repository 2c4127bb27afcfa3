"""Scores -> gates -> attention bias: N-adaptive normalisation (Eq. 6), gate (Eq. 7), key-wise bias (Eq. 9)."""

from typing import Literal, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gauge.types import SCORE_FLOOR, Differentiated, SupportsAttention

GATE_FLOOR = 1e-9  # ε_g of Eq. 9, app. B.3
MAX_RAW_UNITS = 3  # Eq. 6: up to this many units keep their raw scores

Normalization = Literal["adaptive", "zscore", "raw"]
Scores = Float[Tensor, "b n"]
Visible = Bool[Tensor, "b n"] | None


@runtime_checkable
class SupportsEntry(SupportsAttention, Protocol):
    """A classifier whose passes over the same tokens share what does not depend on the bias."""

    def entry(self, tokens: Tensor) -> tuple[Tensor, ...]: ...

    def logits_from(self, entry: tuple[Tensor, ...], attn_bias: Tensor | None = None) -> Tensor: ...


@runtime_checkable
class SupportsPullBack(Protocol):
    """A classifier that knows the gradient of its logits in the tokens; None where autograd is faster."""

    def with_pull_back(self, tokens: Tensor, attn_bias: Tensor | None = None) -> Differentiated | None: ...


def uses_zscore(count: int, normalization: Normalization = "adaptive") -> bool:
    """Whether the scores of `count` units are standardised (the count, hence the branch, is fixed for a model)."""
    if normalization not in ("adaptive", "zscore", "raw"):
        raise ValueError(f"normalization {normalization!r} is unknown; use 'adaptive', 'zscore' or 'raw'")
    return normalization == "zscore" or (normalization == "adaptive" and count > MAX_RAW_UNITS)


def normalize_scores(scores: Scores, normalization: Normalization = "adaptive", *, visible: Visible = None) -> Scores:
    """(score - mean) / max(σ, ε) within each sample when it has more than three units, the raw scores otherwise. σ is the
    unbiased estimate; units outside `visible` are left out of the statistics.

    >>> normalize_scores(torch.tensor([[1.0, 2.0, 3.0, 4.0]])).sum().abs().item() < 1e-6
    True
    """
    scores = scores.detach().float()
    if not uses_zscore(scores.shape[1], normalization):
        return scores
    if visible is None:
        deviation, mean = torch.std_mean(scores, 1, correction=min(1, scores.shape[1] - 1), keepdim=True)
        return (scores - mean) / deviation.clamp_min(SCORE_FLOOR)
    weight = visible.float()
    count = weight.sum(1, keepdim=True)
    mean = (scores * weight).sum(1, keepdim=True) / count.clamp_min(1)
    variance = ((scores - mean).square() * weight).sum(1, keepdim=True) / (count - 1).clamp_min(1)
    return (scores - mean) / variance.sqrt().clamp_min(SCORE_FLOOR)


def pool_by_modality(scores: Scores, modality: Int[Tensor, "n"], *, visible: Visible = None) -> Scores:
    """Every unit gets the mean score of its modality's (visible) units: one gate per modality.

    NOTE[PAPER] modality-gate: the paper does not say how v3 "shares one gate across all units of a modality"; here the
    normalised unit scores are averaged, so the number of units, not of modalities, chooses the branch of Eq. 6.
    """
    weight = torch.ones_like(scores) if visible is None else visible.float()
    same = (modality[:, None] == modality).to(scores.dtype)
    return ((scores * weight) @ same) / (weight @ same).clamp_min(1)


class LearnedGate(nn.Module):
    """τ and ρ of Eq. 7: the two parameters that GAUGE adds to a model."""

    def __init__(self, threshold: float = 0.0) -> None:
        super().__init__()
        self.threshold = nn.Parameter(torch.tensor(float(threshold)))
        self.log_temperature = nn.Parameter(torch.tensor(0.0))

    def open(self, scores: Scores) -> Scores:
        return torch.sigmoid((scores - self.threshold) / self.log_temperature.exp())


class Gate(LearnedGate):
    """sigmoid((s - τ) / exp(ρ)), for models that bring their own scores.

    >>> Gate(threshold=0.5)(torch.tensor([[0.5]])).item()
    0.5
    """

    def forward(self, scores: Scores) -> Scores:
        return self.open(scores)


def attention_bias(gates: Scores) -> Float[Tensor, "b 1 1 s"]:
    """log max(gate, 1e-9) for every key, 0 for CLS, in float32: multiplies a key's unnormalised attention by its gate."""
    return F.pad(gates.float().clamp_min(GATE_FLOOR).log(), (1, 0))[:, None, None, :]


def hiding_bias(visible: Bool[Tensor, "b n"]) -> Float[Tensor, "b 1 1 s"]:
    """Hides invisible units from attention; CLS is always visible."""
    with torch.inference_mode(False):  # the scoring pass differentiates through it, also for callers in inference mode
        return F.pad(torch.where(visible.clone(), 0.0, -1e9), (1, 0))[:, None, None, :]


class Biased:
    """A classifier that adds a fixed bias, such as `hiding_bias`, to the bias it is given."""

    def __init__(self, classifier: SupportsEntry, fixed: Tensor) -> None:
        self.classifier, self.fixed = classifier, fixed

    def __call__(self, tokens: Tensor, attn_bias: Tensor | None = None) -> Tensor:
        return self.classifier(tokens, self._bias(tokens, attn_bias))

    def entry(self, tokens: Tensor) -> tuple[Tensor, ...]:
        return self.classifier.entry(tokens)

    def with_pull_back(self, tokens: Tensor, attn_bias: Tensor | None = None) -> Differentiated | None:
        if not isinstance(self.classifier, SupportsPullBack):
            return None
        return self.classifier.with_pull_back(tokens, self._bias(tokens, attn_bias))

    def logits_from(self, entry: tuple[Tensor, ...], attn_bias: Tensor | None = None) -> Tensor:
        return self.classifier.logits_from(entry, self._bias(entry[0], attn_bias))

    @property
    def offers_attention(self) -> bool:
        return getattr(self.classifier, "offers_attention", True)

    def attention(self, tokens: Tensor, attn_bias: Tensor | None = None) -> Tensor:
        return self.classifier.attention(tokens, self._bias(tokens, attn_bias))

    def _bias(self, tokens: Tensor, attn_bias: Tensor | None) -> Tensor:
        times = tokens.shape[0] // self.fixed.shape[0]  # exact effects stack replacements
        fixed = self.fixed if times == 1 else self.fixed.repeat(times, 1, 1, 1)
        return fixed if attn_bias is None else fixed + attn_bias
