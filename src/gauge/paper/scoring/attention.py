"""Attention score (scoring ablation): the last block's CLS-to-unit attention in the ungated pass, averaged over heads."""

from typing import Unpack

import torch

from gauge.types import Classifier, ScoreOptions, SupportsAttention, Tokens
from gauge.values import Evidence

__all__ = ["attention_score"]


@torch.no_grad()
def attention_score(classifier: Classifier, tokens: Tokens, **options: Unpack[ScoreOptions]) -> Evidence:
    """The attention of CLS to every unit; needs a classifier with `attention`."""
    if not isinstance(classifier, SupportsAttention):
        raise ValueError(f"{type(classifier).__name__} has no attention(tokens, attn_bias), which this score reads")
    to_units = classifier.attention(tokens, None)[:, :, 0, 1:]
    return Evidence(to_units.float().mean(1), classifier(tokens, None))
