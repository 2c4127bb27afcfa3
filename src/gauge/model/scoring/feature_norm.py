"""Feature norm (scoring ablation): how far every unit stands from its reference, blind to the prediction."""

from typing import Unpack

import torch
from jaxtyping import Float
from torch import Tensor

from gauge.model.scoring._ungated import displacement
from gauge.types import Classifier, Evidence, ScoreOptions

__all__ = ["feature_norm"]


@torch.no_grad()
def feature_norm(classifier: Classifier, tokens: Float[Tensor, "b n c"], **options: Unpack[ScoreOptions]) -> Evidence:
    """The ℓ2 norm of the unit, relative to the reference."""
    return Evidence(displacement(tokens, options.get("reference")).float().norm(dim=-1), classifier(tokens, None))
