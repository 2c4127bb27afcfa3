"""Contrast: vectors that belong together are matched within a batch."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gauge.randomness import uniform


class PairContrast(nn.Module):
    """Every modality of a sample is matched with every other one of the same sample within the batch.

    Each pair of modalities has its own temperature, which is learned: modalities that know nothing of each other end at a
    high one, and no longer pull at the encoders.

    >>> contrast = PairContrast(width=8, modalities=2, projection=4)
    >>> contrast(torch.rand(5, 2, 8), torch.ones(5, 2, dtype=torch.bool)).shape
    torch.Size([])
    """

    def __init__(self, width: int, modalities: int, projection: int) -> None:
        super().__init__()
        self.projectors = nn.ModuleList(projector(width, projection) for _ in range(modalities))
        # the temperature of every pair before training
        self.log_scale = nn.Parameter(torch.full((modalities, modalities), 0.1).log().neg())
        self.others = nn.Buffer(~torch.eye(modalities, dtype=torch.bool), persistent=False)

    def forward(self, vectors: Float[Tensor, "b m c"], present: Bool[Tensor, "b m"]) -> Float[Tensor, ""]:
        """The mean -log p that a modality finds its sample among all that have the other modality, over all pairs."""
        projected = torch.stack([each(v) for each, v in zip(self.projectors, vectors.unbind(1), strict=True)])
        with torch.autocast(vectors.device.type, enabled=False):
            directions = F.normalize(projected.float(), dim=-1)
            scale = (self.log_scale + self.log_scale.T) / 2
            costs = pair_costs(directions, scale.exp(), present)
        known = present.T[:, None] & present.T[None] & self.others[..., None] & (present.sum(0) > 1)[None, :, None]
        return torch.where(known, costs, 0.0).sum() / known.sum().clamp_min(1)


def pair_costs(
    directions: Float[Tensor, "m b c"], scale: Float[Tensor, "m m"], present: Bool[Tensor, "b m"]
) -> Float[Tensor, "m m b"]:
    """-log p that each modality of a sample finds that sample among all of the batch that have each other modality.
    `present` says which of them have it; the costs of a sample that lacks one are meaningless."""
    likeness = torch.einsum("mbc,nac->mnba", directions, directions) * scale[..., None, None]
    # the likeness of a sample that lacks the modality; minus infinity has no gradient where all lack it
    likeness = likeness.masked_fill(~present.T[None, :, None, :], -1e9).log_softmax(-1)
    return -likeness.diagonal(dim1=-2, dim2=-1)


def projector(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, inputs), nn.ReLU(), nn.Linear(inputs, outputs))


def hard_negatives(likeness: Float[Tensor, "b b"], key: Int[Tensor, "b"]) -> Int[Tensor, "b"]:
    """For every row the column of another sample, with probability proportional to softmax(likeness) + 1e-4, drawn as the
    largest log p + Gumbel noise."""
    weight = likeness.detach().softmax(1) + 1e-4
    gumbel = -(-uniform(key, weight.shape[1]).log()).log()
    itself = torch.eye(len(weight), dtype=torch.bool, device=weight.device)
    return (weight.log() + gumbel).masked_fill(itself, -torch.inf).argmax(1)
