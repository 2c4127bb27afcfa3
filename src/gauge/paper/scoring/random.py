"""Random score (scoring ablation): independent standard normal numbers, drawn anew in every scoring pass."""

from typing import Unpack

import torch

from gauge.randomness import derive, normal
from gauge.types import Classifier, ScoreOptions, Tokens
from gauge.values import Evidence

__all__ = ["random_score"]


@torch.no_grad()
def random_score(classifier: Classifier, tokens: Tokens, **options: Unpack[ScoreOptions]) -> Evidence:
    """N(0, 1) from the samples' keys, which change with the epoch."""
    key = options.get("key")
    if key is None:
        key = torch.arange(len(tokens), device=tokens.device)
    return Evidence(normal(derive(key, "random score"), tokens.shape[1]), classifier(tokens, None))
