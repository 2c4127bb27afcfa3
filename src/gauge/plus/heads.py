"""Heads: a linear classifier for each modality, which reads that modality alone."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gauge.paper.units import UnitEncoder
from gauge.values import Units


class Heads(nn.ModuleList):
    """The head of each modality of an encoder. It reads the modality's whole unit or, where there is none, the mean of its
    observed units."""

    def __init__(self, encoder: UnitEncoder, dim: int, num_classes: int) -> None:
        super().__init__(nn.Linear(dim, num_classes) for _ in encoder.unit_counts)
        self.num_classes = num_classes
        self.pooling = nn.Buffer(head_pooling(encoder), persistent=False)

    def logits(self, units: Units) -> Float[Tensor, "b m k"]:
        """The logits of all heads; those of missing modalities judge what was imputed, or are meaningless."""
        vectors = pool(self.pooling, units)
        return torch.stack([head(vector) for head, vector in zip(self, vectors.unbind(1), strict=True)], 1)

    def weights(self, units: Units) -> Float[Tensor, "b m n"]:
        """The weight of each unit in what each head reads: equal for its observed units, or for all if none is."""
        return pool_weights(self.pooling, units)


class HeadGradients(nn.Module):
    """How much heads train the encoders: as much as they know of what the network knows.

    Where no modality knows the answer alone, a head can only memorise training samples, and encoders that follow it do so
    too; where it knows a little, it draws the encoder away from what the network needs. The gradient of a head is therefore
    multiplied by its share of the knowledge of the network, where knowledge is the entropy of the labels minus the
    validation loss at the best temperature. Less than `TOLERANCE` times the entropy counts as none.

    >>> gradients = HeadGradients(2)
    >>> gradients.follow(torch.tensor([2.3, 0.8]), network=torch.tensor(0.3), entropy=2.3)
    >>> gradients.share
    tensor([0.0000, 0.7500])
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.share = nn.Buffer(torch.ones(heads))

    def forward(self, content: Float[Tensor, "b n c"], modality: Int[Tensor, "n"]) -> Float[Tensor, "b n c"]:
        """The same content, through which the gradients of heads reach the encoders by their share."""
        if not (torch.is_grad_enabled() and content.requires_grad):
            return content
        return torch.lerp(content.detach(), content, self.share.to(content.dtype)[modality, None])

    def follow(self, losses: Float[Tensor, "m"], network: Float[Tensor, ""], entropy: float) -> None:
        """Set the shares by the validation losses before an epoch; heads without a finite one stay as they are."""
        known = entropy - losses
        # 2 % of the entropy of the labels count as nothing
        share = (known / torch.maximum(entropy - network, known)).where(known > 0.02 * entropy, 0.0)
        self.share.copy_(torch.where(losses.isfinite(), share, self.share))


def tempered_losses(
    logits: Float[Tensor, "n m k"], labels: Int[Tensor, "n"], present: Bool[Tensor, "n m"]
) -> Float[Tensor, "m"]:
    """The mean cross-entropy of each head over the samples that have its modality, at the best of `temperatures`; not a
    number where there is none."""
    temperatures = tuple(2.0**power for power in range(-2, 7))
    tempered = torch.stack([logits / temperature for temperature in temperatures]).log_softmax(-1)
    right = tempered.gather(-1, labels[None, :, None, None].expand(*tempered.shape[:-1], 1))[..., 0]
    return ((-right * present).sum(1) / present.sum(0)).amin(0)


def head_pooling(encoder: UnitEncoder) -> Float[Tensor, "m n"]:
    """Ones for the units that the head of each modality reads: its whole unit, or all where it has none."""
    own = encoder.modality == torch.arange(len(encoder.unit_counts))[:, None]
    last = own & F.pad(encoder.modality.diff() != 0, (0, 1), value=True)
    has_whole = torch.tensor([encoder.has_whole(name) for name in encoder.unit_counts])
    return torch.where(has_whole[:, None], last, own).float()


def pool_weights(pooling: Float[Tensor, "m n"], units: Units) -> Float[Tensor, "b m n"]:
    """The weights of the units in the vector of each modality: equal for its observed ones, or for all if none is."""
    observed = pooling * units.observed[:, None]
    weights = torch.where(observed.any(-1, keepdim=True), observed, pooling)
    return weights / weights.sum(-1, keepdim=True)


def pool(pooling: Float[Tensor, "m n"], units: Units) -> Float[Tensor, "b m c"]:
    """One vector for each modality."""
    return pool_weights(pooling, units).to(units.content.dtype) @ units.content
