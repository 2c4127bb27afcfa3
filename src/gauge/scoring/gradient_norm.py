"""Gradient norm (scoring ablation): ‖∇L‖₁ of every unit, blind to how far it stands from the reference."""

from jaxtyping import Float, Int
from torch import Tensor

from gauge.scoring._ungated import ungated_gradient
from gauge.types import Classifier, Evidence, Objective

__all__ = ["gradient_norm"]


def gradient_norm(
    classifier: Classifier,
    tokens: Float[Tensor, "b n c"],
    *,
    reference: Float[Tensor, "..."] | None = None,
    objective: Objective = "logit",
    key: Int[Tensor, "b"] | None = None,
) -> Evidence:
    """The ℓ1 norm of the saliency gradient."""
    logits, gradient = ungated_gradient(classifier, tokens, objective)
    return Evidence(gradient.abs().float().sum(-1), logits)
