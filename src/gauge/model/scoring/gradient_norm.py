"""Gradient norm (scoring ablation): ‖∇L‖₁ of every unit, blind to how far it stands from the reference."""

from typing import Unpack

from jaxtyping import Float
from torch import Tensor

from gauge.model.scoring._ungated import ungated_gradient
from gauge.types import Classifier, Evidence, ScoreOptions

__all__ = ["gradient_norm"]


def gradient_norm(classifier: Classifier, tokens: Float[Tensor, "b n c"], **options: Unpack[ScoreOptions]) -> Evidence:
    """The ℓ1 norm of the saliency gradient."""
    logits, gradient = ungated_gradient(classifier, tokens, options.get("objective", "logit"))
    return Evidence(gradient.abs().float().sum(-1), logits)
