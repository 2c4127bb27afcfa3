"""Taylor evidence scores (Eq. 4): all n units from one ungated forward-backward pass."""

from jaxtyping import Float, Int
from torch import Tensor

from gauge.scoring._ungated import displacement, ungated_gradient
from gauge.types import Classifier, Evidence, Objective

__all__ = ["taylor_evidence"]


def taylor_evidence(
    classifier: Classifier,
    tokens: Float[Tensor, "b n c"],
    *,
    reference: Float[Tensor, "..."] | None = None,
    objective: Objective = "logit",
    key: Int[Tensor, "b"] | None = None,
) -> Evidence:
    """‖∇L ⊙ (reference - token)‖₁ for every unit: how far the prediction would move, to first order and without
    cancellation, were the unit replaced.

    The signed sum is no substitute: a pre-norm backbone is invariant to a token's scale, so it nearly vanishes.
    """
    logits, gradient = ungated_gradient(classifier, tokens, objective)
    return Evidence((gradient * displacement(tokens, reference)).abs().float().sum(-1), logits)
