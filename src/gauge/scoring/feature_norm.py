"""Feature norm (scoring ablation): how far every unit stands from its reference, blind to the prediction."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gauge.scoring._ungated import displacement
from gauge.types import Classifier, Evidence, Objective

__all__ = ["feature_norm"]


@torch.no_grad()
def feature_norm(
    classifier: Classifier,
    tokens: Float[Tensor, "b n c"],
    *,
    reference: Float[Tensor, "..."] | None = None,
    objective: Objective = "logit",
    key: Int[Tensor, "b"] | None = None,
) -> Evidence:
    """The ℓ2 norm of the unit, relative to the reference."""
    return Evidence(displacement(tokens, reference).float().norm(dim=-1), classifier(tokens, None))
