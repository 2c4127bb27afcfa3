"""SimMLM: an expert for each modality, mixed by a learned gate; more modalities must not have a higher loss than fewer."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gauge.masks import subsets
from gauge.paper.network import Network
from gauge.paper.units import UnitEncoder
from gauge.plus.late_fusion import HeadOutputs, LateFusion
from gauge.randomness import derive, uniform
from gauge.types import Method
from gauge.values import Batch, Prediction
from gauge_lab.methods._alone import states_alone

__all__ = ["SimMLM", "UnitExperts"]

RANKING = 0.1  # weight of the ranking loss: published code, for BraTS


class UnitExperts(nn.Module):
    """A classifier for each modality: the shared encoders, then a network of its own on the units of that modality."""

    def __init__(self, encoder: UnitEncoder, networks: Sequence[Network]) -> None:
        super().__init__()
        self.encoder, self.networks = encoder, nn.ModuleList(networks)
        pairs = zip(encoder.unit_counts, networks, strict=True)
        self.widths = {name: network.head.in_features for name, network in pairs}

    def read(self, batch: Batch) -> HeadOutputs:
        """The vectors and logits of every expert; those of missing modalities are meaningless."""
        units = self.encoder(batch)
        networks: list[Network] = list(self.networks)  # type: ignore[arg-type]
        vectors = states_alone(self.encoder, units, networks).unbind(1)
        logits = [network.head(vector) for network, vector in zip(networks, vectors, strict=True)]
        return HeadOutputs(vectors, torch.stack(logits, 1), batch.any_observed())


class SimMLM(Method):
    """Experts see one modality each, so a step runs them once for both subsets; only the gate depends on the subset.

        logits = Σ_m g_m ⊙ l_m,   g = softmax over the available m of G(vectors), one gate for each modality and class
        L = mean of CE(more) and CE(fewer) + 0.1 · mean max(0, CE(more) - CE(fewer))

    (Li et al. 2025.) `more` and `fewer` are two subsets of a sample's modalities, the second inside the first.

    The published gate is a separate network on the raw inputs, with zeros for what is missing. Modalities of different
    shapes cannot be read side by side, so this gate reads the vectors that the experts predict from, zeros where a modality
    is missing. As published, the ranking loss also has a gradient in CE(fewer).
    """

    def __init__(self, experts: UnitExperts | LateFusion, num_classes: int) -> None:
        super().__init__()
        self.experts, self.num_classes = experts, num_classes
        width, count = sum(experts.widths.values()), len(experts.widths)
        gate_width = 64  # of the gate's hidden layer; the published gate is a small convolutional network
        self.gate = nn.Sequential(nn.Linear(width, gate_width), nn.ReLU(), nn.Linear(gate_width, count * num_classes))
        self.pairs = nn.Buffer(nested_pairs(count), persistent=False)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Every sample draws its own pair of subsets."""
        assert batch.labels is not None
        outputs = self.experts.read(batch)
        visible = draw_pairs(batch.key, self.pairs, outputs.available)
        logits = torch.stack([self.mix(outputs, subset) for subset in visible.unbind(1)])
        costs = F.cross_entropy(logits.flatten(0, 1), batch.labels.repeat(2), reduction="none").unflatten(0, (2, -1))
        return {"task": costs.mean(), "ranking": RANKING * ranking(costs[0], costs[1])}

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        outputs = self.experts.read(batch.check())
        return Prediction(self.mix(outputs, outputs.available))

    def mix(self, outputs: HeadOutputs, visible: Bool[Tensor, "b m"]) -> Float[Tensor, "b k"]:
        """The logits of the visible experts, weighted by their gates."""
        return (self.gates(outputs, visible) * outputs.logits).sum(1)

    def gates(self, outputs: HeadOutputs, visible: Bool[Tensor, "b m"]) -> Float[Tensor, "b m k"]:
        """The weight of each expert for each class: they add up to 1, and are 0 for what is not visible."""
        parts = zip(outputs.vectors, visible.unbind(1), strict=True)
        vectors = torch.cat([torch.where(shown[:, None], vector, 0.0) for vector, shown in parts], 1)
        scores = self.gate(vectors).unflatten(1, (-1, self.num_classes))
        return scores.masked_fill(~visible[..., None], -torch.inf).softmax(1)


def ranking(more: Float[Tensor, "b"], fewer: Float[Tensor, "b"]) -> Float[Tensor, ""]:
    """How much higher the loss with more modalities is than that with fewer; 0 for samples where it is not."""
    return (more - fewer).clamp_min(0).mean()


def nested_pairs(count: int) -> Bool[Tensor, "p 2 {count}"]:
    """All pairs (more, fewer) of distinct non-empty subsets of which one holds the other, as the published code draws them:
    both ways round, except that the full set is never drawn first, so that it does not outweigh the others.

    >>> nested_pairs(2).int().tolist()
    [[[1, 1], [1, 0]], [[1, 1], [0, 1]]]
    """
    table = subsets(count)
    first, second = table[:-1].repeat_interleave(len(table), 0), table.repeat(len(table) - 1, 1)
    more, fewer = first | second, first & second
    nested = ((more == first) & (fewer == second)).all(1) ^ ((more == second) & (fewer == first)).all(1)
    pairs = torch.stack([more, fewer], 1)[nested]
    return pairs if len(pairs) else table[:, None].repeat(1, 2, 1)  # a single modality has one subset


def draw_pairs(
    key: Int[Tensor, "b"], pairs: Bool[Tensor, "p 2 m"], available: Bool[Tensor, "b m"]
) -> Bool[Tensor, "b 2 m"]:
    """What a random pair leaves of each sample. Where it leaves nothing, `more` is all that is available and `fewer` is the
    same as `more`."""
    index = (uniform(derive(key, "pairs"), 1)[:, 0] * len(pairs)).long().clamp_max(len(pairs) - 1)
    more, fewer = (pairs[index] & available[:, None]).unbind(1)
    more = torch.where(more.any(1, keepdim=True), more, available)
    return torch.stack([more, torch.where(fewer.any(1, keepdim=True), fewer, more)], 1)
