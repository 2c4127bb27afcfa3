"""Gradient norm (scoring ablation): ‖∇L‖₁ of every unit, whatever its distance from the reference."""

from typing import Unpack

from gauge.paper.gauge import ungated_gradient
from gauge.types import Classifier, ScoreOptions, Tokens
from gauge.values import Evidence

__all__ = ["gradient_norm"]


def gradient_norm(classifier: Classifier, tokens: Tokens, **options: Unpack[ScoreOptions]) -> Evidence:
    """The ℓ1 norm of the saliency gradient."""
    logits, gradient = ungated_gradient(classifier, tokens, options.get("objective", "logit"))
    return Evidence(gradient.abs().float().sum(-1), logits)
