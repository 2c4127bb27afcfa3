"""Taylor evidence scores (Eq. 4): all n units from one ungated forward-backward pass."""

from typing import Unpack

from jaxtyping import Float
from torch import Tensor

from gauge.model.scoring._ungated import displacement, ungated_gradient
from gauge.types import Classifier, Evidence, ScoreOptions

__all__ = ["taylor_evidence"]


def taylor_evidence(
    classifier: Classifier, tokens: Float[Tensor, "b n c"], **options: Unpack[ScoreOptions]
) -> Evidence:
    """‖∇L ⊙ (reference - token)‖₁ for every unit: how far the prediction would move, to first order and without
    cancellation, were the unit replaced.

    The signed sum is no substitute: a pre-norm backbone is invariant to a token's scale, so it nearly vanishes.
    """
    logits, gradient = ungated_gradient(classifier, tokens, options.get("objective", "logit"))
    return Evidence((gradient * displacement(tokens, options.get("reference"))).abs().float().sum(-1), logits)
