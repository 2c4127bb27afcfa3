"""Taylor evidence scores (Eq. 4): all n units from one ungated forward-backward pass."""

from typing import Unpack

from gauge.model.scoring._ungated import displacement, ungated_gradient
from gauge.types import Classifier, Evidence, ScoreOptions, Tokens

__all__ = ["taylor_evidence"]


def taylor_evidence(classifier: Classifier, tokens: Tokens, **options: Unpack[ScoreOptions]) -> Evidence:
    """‖∇L ⊙ (reference - token)‖₁ for every unit: the effect of replacing it, to first order and without cancellation.

    The signed sum would nearly vanish, because a pre-norm backbone is invariant to a token's scale.
    """
    logits, gradient = ungated_gradient(classifier, tokens, options.get("objective", "logit"))
    return Evidence((gradient * displacement(tokens, options.get("reference"))).abs().float().sum(-1), logits)
