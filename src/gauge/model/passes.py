"""Passes: the ungated and the gated pass of a classifier over the same tokens."""

from functools import cached_property

import torch
from torch import Tensor

from gauge.model.gates import Biased
from gauge.model.network import Network
from gauge.model.scoring._ungated import as_leaf
from gauge.types import Differentiated, Tokens


class Passes:
    """A classifier for scorers, which score `tokens`, and then for the gated pass.

    What the first block computes before its attention is the same in both passes. Without gradients, the gated pass takes
    it from the ungated one; with gradients, which must not reach the scores, each pass computes its own.
    """

    def __init__(self, classifier: Network | Biased, tokens: Tokens) -> None:
        self.classifier, self.attached = classifier, tokens
        self.shares = not torch.is_grad_enabled()
        self.entry: tuple[Tensor, ...] | None = None

    @cached_property
    def tokens(self) -> Tokens:
        """The tokens as scorers read them: a leaf of the graph that requires gradients."""
        return as_leaf(self.attached.detach())

    def __call__(self, tokens: Tokens, attn_bias: Tensor | None = None) -> Tensor:
        if not self.shares or tokens is not self.tokens:
            return self.classifier(tokens, attn_bias)
        entry = self.classifier.entry(tokens)
        self.entry = tuple(part.detach() for part in entry)
        return self.classifier.logits_from(entry, attn_bias)

    def ungated_pass(self, tokens: Tokens) -> Differentiated | None:
        if not self.shares or tokens is not self.tokens:
            return None
        with torch.no_grad():
            result = self.classifier.with_pull_back(tokens)
        if result is not None:
            self.entry = result.entry
        return result

    def gated(self, attn_bias: Tensor | None) -> Tensor:
        """The logits of the gated pass, or of the only one if there are no gates."""
        if self.entry is None:
            return self.classifier(self.attached, attn_bias)
        return self.classifier.logits_from(self.entry, attn_bias)

    @property
    def offers_attention(self) -> bool:
        return self.classifier.offers_attention

    def attention(self, tokens: Tokens, attn_bias: Tensor | None = None) -> Tensor:
        return self.classifier.attention(tokens, attn_bias)
