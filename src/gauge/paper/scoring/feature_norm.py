"""Feature norm (scoring ablation): the distance of every unit from its reference, whatever the prediction."""

from typing import Unpack

import torch

from gauge.paper.gauge import displacement
from gauge.types import Classifier, ScoreOptions, Tokens
from gauge.values import Evidence

__all__ = ["feature_norm"]


@torch.no_grad()
def feature_norm(classifier: Classifier, tokens: Tokens, **options: Unpack[ScoreOptions]) -> Evidence:
    """The ℓ2 norm of the unit, relative to the reference."""
    return Evidence(displacement(tokens, options.get("reference")).float().norm(dim=-1), classifier(tokens, None))
