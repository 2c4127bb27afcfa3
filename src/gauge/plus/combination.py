"""The calibrated product of several votes: logits = Σ_j w_j · (log p_j - log π) + log π + s over those that are present."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gauge.nn.minimize import minimize

STEPS = 100


class Combination(nn.Module):
    """All weights are one until `learn` is called; they are buffers, so that training does not change them. Without
    `classes` there is no shift.

    w_j = exp(u_j + v_j · share), with share_m the observed part of modality m: a weight for every subset of the
    modalities, and for partly observed tables anything between. A temperature for each vote would change nothing, as Σ_j
    w_j · (z_j / T_j) depends on w_j / T_j alone. π are the shares of the classes, which every voter knows: they count
    once, however many are present, if `count_classes` has set them; until then π is uniform. s shifts all classes alike
    for all samples: validation samples may have other shares of the classes than training samples. u, v and s minimise,
    over validation samples under all kinds of masks,

        rows · mean NLL + |u|² / (2 · 2²) + |v|² / 2 + |s|² / 2

    so that few samples leave the weights near one, and a shared one where subsets do not differ. With a trust t_j in
    what a voter reads, p_j becomes t_j · p_j + (1 - t_j) · π: wrong content says nothing, so no confident vote can veto
    all others.

    >>> combine = Combination(votes=2, modalities=1)
    >>> combine(torch.zeros(5, 2, 3), torch.ones(5, 2, dtype=torch.bool), torch.ones(5, 1)).shape
    torch.Size([5, 3])
    """

    def __init__(self, votes: int, modalities: int, classes: int = 0) -> None:
        super().__init__()
        self.offset = nn.Buffer(torch.zeros(votes))
        self.slope = nn.Buffer(torch.zeros(votes, modalities))
        self.prior = nn.Buffer(torch.zeros(classes).log_softmax(0)) if classes else None
        self.shift = nn.Buffer(torch.zeros(classes)) if classes else None

    def forward(
        self,
        logits: Float[Tensor, "b j k"],
        present: Bool[Tensor, "b j"],
        share: Float[Tensor, "b m"],
        trust: Float[Tensor, "b j"] | None = None,
    ) -> Float[Tensor, "b k"]:
        product = _product(_evidence(logits, trust, self.prior), present, share, self.offset, self.slope)
        return product if self.prior is None or self.shift is None else product + self.prior + self.shift

    def weights(self, present: Bool[Tensor, "b j"], share: Float[Tensor, "b m"]) -> Float[Tensor, "b j"]:
        """How much each vote counts, 0 for those that are not present."""
        return _weights(present, share, self.offset, self.slope)

    def count_classes(self, labels: Int[Tensor, "n"]) -> None:
        """Set π, uniform until then, by the labels."""
        assert self.prior is not None
        counts = labels.bincount(minlength=len(self.prior)) + 1  # no class is impossible
        self.prior.copy_((counts / counts.sum()).log())

    def learn(
        self,
        logits: Float[Tensor, "n j k"],
        present: Bool[Tensor, "n j"],
        share: Float[Tensor, "n m"],
        labels: Int[Tensor, "n"],
        trust: Float[Tensor, "n j"] | None = None,
        *,
        rows: int,
    ) -> None:
        """`rows` is the number of different samples among the n: one that is seen under several masks counts once."""
        logits, share = _evidence(logits.detach().double(), trust, self.prior), share.double()
        prior = 0.0 if self.prior is None else self.prior.double()
        offset, slope = (torch.zeros_like(x).double().requires_grad_() for x in (self.offset, self.slope))
        shift = logits.new_zeros(logits.shape[-1]).requires_grad_(self.shift is not None)
        learned = [offset, slope, *([] if self.shift is None else [shift])]

        def objective() -> Tensor:
            # prior deviations: a factor of e² for a vote, of e for a modality
            parts = ((offset, 2.0), (slope, 1.0), (shift, 1.0))
            penalty = sum((values / deviation).square().sum() for values, deviation in parts)
            product = _product(logits, present, share, offset, slope) + prior + shift
            return F.cross_entropy(product, labels) + penalty / (2 * rows)

        minimize(objective, learned, max_iter=STEPS)
        self.offset.copy_(offset.detach())
        self.slope.copy_(slope.detach())
        if self.shift is not None:
            self.shift.copy_(shift.detach())


def _weights(present: Tensor, share: Tensor, offset: Tensor, slope: Tensor) -> Tensor:
    return torch.where(present, (offset + share.to(slope.dtype) @ slope.T).exp(), 0.0)


def _evidence(logits: Tensor, trust: Tensor | None, prior: Tensor | None) -> Tensor:
    """The log-probabilities of each vote, mixed with those of π as far as it is not trusted, minus those of π."""
    votes = logits.log_softmax(-1)
    nothing = torch.full_like(votes[0, 0], -math.log(votes.shape[-1])) if prior is None else prior
    if trust is not None:
        trust = trust[..., None].to(votes.dtype)
        votes = torch.logaddexp(trust.log() + votes, (1 - trust).log() + nothing)
    return votes if prior is None else votes - prior


def _product(votes: Tensor, present: Tensor, share: Tensor, offset: Tensor, slope: Tensor) -> Tensor:
    weights = _weights(present, share, offset, slope)
    return (weights[..., None] * votes).sum(1)
