"""Likelihoods of decoders: the cost of the observed values, -log p(x) up to a constant, and the mean to impute."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor


@runtime_checkable
class Likelihood(Protocol):
    """`cost` sums over the observed values of a sample (`x` holds zeros elsewhere); `mean` is the value to impute."""

    def cost(self, decoded: Tensor, x: Tensor, observed: Tensor) -> Tensor: ...

    def mean(self, decoded: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Laplace:
    """Numbers around the decoder's output: cost = Σ |x - decoded| / scale.

    >>> Laplace().cost(torch.zeros(1, 2), torch.tensor([[3.0, 9.0]]), torch.tensor([[True, False]])).tolist()
    [4.0]
    """

    scale: float = 0.75  # as upstream

    def cost(
        self, decoded: Float[Tensor, "b *f"], x: Float[Tensor, "b *f"], observed: Bool[Tensor, "b *flags"]
    ) -> Float[Tensor, "b"]:
        return torch.where(observed, decoded - x, 0.0).abs().flatten(1).sum(1) / self.scale

    def mean(self, decoded: Float[Tensor, "b *f"]) -> Float[Tensor, "b *f"]:
        return decoded


@dataclass(frozen=True)
class Categorical:
    """One symbol at each position, from logits: cost = -Σ x · log softmax, so that a row of zeros costs nothing.

    NOTE[PAPER] text-likelihood: the published imputer passes log-probabilities where probabilities are expected, which
    reverses and flattens its text. Ours reads logits as logits; `reversed=True` is the published likelihood.

    >>> Categorical().mean(torch.tensor([[[0.0, 0.0]]])).tolist()
    [[[0.5, 0.5]]]
    """

    reversed: bool = False

    def cost(
        self, decoded: Float[Tensor, "b l k"], x: Float[Tensor, "b l k"], observed: Bool[Tensor, "b *flags"]
    ) -> Float[Tensor, "b"]:
        floor = torch.finfo(decoded.dtype).eps
        log_p = self.mean(decoded).clamp_min(floor).log() if self.reversed else decoded.log_softmax(-1)
        return -(x * log_p).flatten(1).sum(1)

    def mean(self, decoded: Float[Tensor, "b l k"]) -> Float[Tensor, "b l k"]:
        if not self.reversed:
            return decoded.softmax(-1)
        log_softmax = decoded.log_softmax(-1)
        return log_softmax / log_softmax.sum(-1, keepdim=True)
