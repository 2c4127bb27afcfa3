"""MMPareto: heads train the encoders together with the network, but never against it."""

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gauge.masks import draw_subsets, subsets
from gauge.nn.losses import cross_entropy
from gauge.paper.network import Network, hiding_bias
from gauge.paper.units import UnitEncoder
from gauge.plus.any_subset import under_subsets
from gauge.plus.heads import Heads
from gauge.plus.late_fusion import head_loss
from gauge.types import Method
from gauge.values import Batch, Prediction, Units

__all__ = ["MMPareto", "integrated"]

ENHANCED = 1.5  # published code: the factor of all gradients of encoders


class MMPareto(Method):
    """A head for each modality and the network of GAUGE+. The published gradients are those of the encoders' weights; these
    are those of their units, which cost no second backward pass.

        L = mean CE(network) over random subsets + Σ_m mean CE(head_m) over the samples that have modality m
        g_m = 1.5 · max(1, |n + h| / |g|) · g,   g = 2a · n + 2(1 - a) · h,   a = 1/2 unless n · h < 0

    with n and h the gradients of network and head at the units of modality m; where they are in conflict, a in [0, 1] gives
    the shortest g, which lowers both losses.

    (Wei and Hu 2024.) The network alone predicts.
    """

    def __init__(self, encoder: UnitEncoder, classifier: Network, *, subsets_per_step: int = 2) -> None:
        super().__init__()
        self.encoder, self.classifier, self.subsets_per_step = encoder, classifier, subsets_per_step
        self.heads = Heads(encoder, classifier.head.in_features, classifier.head.out_features)
        self.subsets = nn.Buffer(subsets(len(encoder.unit_counts)), persistent=False)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        units = self.encoder(batch)
        owner = units.modality == torch.arange(len(self.heads), device=units.modality.device)[:, None]
        network, heads = _Shared.apply(units.content, owner)
        chosen = draw_subsets(batch.key, self.subsets, self.subsets_per_step)
        logits = self._logits(*under_subsets(replace(units, content=network), chosen))
        own = self.heads.logits(replace(units, content=heads))
        return {"task": cross_entropy(batch, logits), "heads": head_loss(own, batch)}

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        units = self.encoder(batch.check())
        return Prediction(self._logits(units, units.observed))

    def _logits(self, units: Units, visible: Bool[Tensor, "b n"]) -> Float[Tensor, "b k"]:
        return self.classifier(units.keep(visible).tokens, hiding_bias(visible))


class _Shared(torch.autograd.Function):
    """The content of units twice, for the network and for the heads, whose gradients come back integrated."""

    @staticmethod
    def forward(ctx: Any, content: Tensor, owner: Tensor) -> tuple[Tensor, Tensor]:
        ctx.owner = owner
        return content.view_as(content), content.view_as(content)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        network, heads = gradients
        return integrated(network, heads, ctx.owner), None


def integrated(
    network: Float[Tensor, "b n c"], heads: Float[Tensor, "b n c"], owner: Bool[Tensor, "m n"]
) -> Float[Tensor, "b n c"]:
    """g_m for all modalities; `owner` marks the units of each.

    >>> network, heads = torch.tensor([[[1.0, 0.0]]]), torch.tensor([[[-2.0, 1.0]]])
    >>> g = integrated(network, heads, torch.ones(1, 1, dtype=torch.bool))
    >>> bool((g * network).sum() > 0), bool((g * heads).sum() > 0)
    (True, True)
    """
    own = owner.to(network.dtype)
    of_network, cross, of_heads = (
        own @ (first * second).sum((0, 2)) for first, second in ((network, network), (network, heads), (heads, heads))
    )
    floor = 1e-12  # of squared lengths
    shortest = ((of_heads - cross) / (of_network + of_heads - 2 * cross).clamp_min(floor)).clamp(0, 1)
    share = torch.where(cross < 0, shortest, 0.5)
    length = 4 * (share.square() * of_network + (1 - share).square() * of_heads + 2 * share * (1 - share) * cross)
    factor = ENHANCED * ((of_network + of_heads + 2 * cross) / length.clamp_min(floor)).clamp_min(1).sqrt()
    weights = (2 * factor * share) @ own, (2 * factor * (1 - share)) @ own
    return weights[0][:, None] * network + weights[1][:, None] * heads
