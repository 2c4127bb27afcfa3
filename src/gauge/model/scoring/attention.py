"""Attention score (scoring ablation): the last block's CLS-to-unit attention in the ungated pass, averaged over heads."""

from typing import Unpack

import torch
from jaxtyping import Float
from torch import Tensor

from gauge.types import Classifier, Evidence, ScoreOptions, SupportsAttention

__all__ = ["attention_score"]


@torch.no_grad()
def attention_score(
    classifier: Classifier, tokens: Float[Tensor, "b n c"], **options: Unpack[ScoreOptions]
) -> Evidence:
    """How much CLS looks at every unit; needs a classifier that offers `attention`."""
    if not isinstance(classifier, SupportsAttention):
        raise ValueError(
            f"{type(classifier).__name__} does not offer attention(tokens, attn_bias), which this score reads"
        )
    to_units = classifier.attention(tokens, None)[:, :, 0, 1:]
    return Evidence(to_units.float().mean(1), classifier(tokens, None))
