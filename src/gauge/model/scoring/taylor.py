"""Taylor evidence scores (Eq. 4): all n units from one ungated forward-backward pass."""

from typing import Unpack

import torch

from gauge.model.scoring._ungated import displacement, ungated_gradient
from gauge.types import Classifier, Evidence, ScoreOptions, Tokens

__all__ = ["taylor_evidence"]


def taylor_evidence(classifier: Classifier, tokens: Tokens, **options: Unpack[ScoreOptions]) -> Evidence:
    """‖∇L ⊙ (reference - token)‖₁ for every unit: the effect of replacing it, to first order and without cancellation.

    The signed sum would nearly vanish, because a pre-norm backbone is invariant to a token's scale.
    """
    logits, gradient = ungated_gradient(classifier, tokens, options.get("objective", "logit"))
    reference = options.get("reference")
    distance = tokens.detach() if reference is None else displacement(tokens, reference)  # the sign does not matter
    effects = gradient * distance
    wide = torch.promote_types(effects.dtype, torch.float32)
    # on a GPU the norm is one kernel; on a CPU it takes ten times as long as the sum
    scores = (
        torch.linalg.vector_norm(effects, 1, -1, dtype=wide) if effects.is_cuda else effects.abs().sum(-1, dtype=wide)
    )
    return Evidence(scores.float(), logits)
