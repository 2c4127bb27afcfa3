"""MUSE: a graph of the batch's samples and their modalities, contrasted with a copy that has fewer edges."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gauge.nn.losses import cross_entropy
from gauge.randomness import derive, uniform
from gauge.types import Method
from gauge.values import Batch, Prediction
from gauge_lab.vectors import VectorEncoder

__all__ = ["Muse"]

LAYERS = 2


class Layer(nn.Module):
    """Messages along every edge, averaged where they arrive; the same weights for both directions."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.message, self.update = nn.Linear(2 * dim, dim), nn.Linear(2 * dim, dim)

    def forward(
        self,
        source: Float[Tensor, "*r u c"],
        target: Float[Tensor, "*r v c"],
        edges: Float[Tensor, "*r v u c"],
        available: Bool[Tensor, "*r v u"],
    ) -> Float[Tensor, "*r v c"]:
        """The new states of the targets; the mean over no edges is zero."""
        messages = _relu(self.message, source.unsqueeze(-3).expand_as(edges), edges)
        weight = available[..., None].to(messages.dtype)
        return _relu(self.update, (messages * weight).sum(-2) / weight.sum(-2).clamp_min(1), target)


class Muse(Method):
    """Nothing is imputed: a missing modality is a missing edge. Samples meet in the modality nodes, so the prediction for a
    sample depends on its batch. As published, the classifier reads only the graph with all edges.

    Edge between sample i and each observed modality m: e_im = linear_m(vector); sample nodes start at 1, modality nodes
    are learned. Each layer, in both directions: h_v <- ReLU(U [mean over edges (u, v) of ReLU(V [h_u, e]), h_v]), and
    between layers e <- ReLU(E [h_u, h_v, e]). With the rows of p the normalised projections of the samples, those of q
    the ones in the copy, and Y_ij = [y_i = y_j]:

        L = CE + ½ · ½ [CE(p qᵀ / 0.07, i) + CE(q pᵀ / 0.07, i)] + ½ · ½ [BCE(p pᵀ / 0.07, Y) + BCE(p qᵀ / 0.07, Y)]

    Wu et al. 2024.

    NOTE[PAPER] muse-single-edge: the copy keeps 1 to n - 1 of a sample's n edges, which leaves n = 1 open; here it is kept.
    """

    looks_across_batch = True

    def __init__(self, encoder: VectorEncoder, dim: int, num_classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.inputs = nn.ModuleList(nn.Linear(dim, dim) for _ in encoder.encoders)
        self.nodes = nn.Parameter(torch.randn(len(self.inputs), dim))
        self.layers = nn.ModuleList(Layer(dim) for _ in range(LAYERS))
        self.edge_updates = nn.ModuleList(nn.Linear(3 * dim, dim) for _ in range(LAYERS - 1))
        dropout = 0.25
        self.dropout = nn.Dropout(dropout)
        self.projection = nn.Linear(dim, dim)
        layers = nn.Linear(dim, dim), nn.ReLU(), nn.Dropout(dropout), nn.Linear(dim, num_classes)
        self.classifier = nn.Sequential(*layers)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        temperature = 0.07  # MUSE's own, as all numbers here
        assert batch.labels is not None
        edges, available = self._edges(batch)
        states = self.samples(edges, torch.stack([available, fewer(available, batch.key)]))
        full, dropped = F.normalize(self.projection(states).tanh(), dim=-1)
        within, across = full @ full.T / temperature, full @ dropped.T / temperature
        itself, labels = torch.arange(len(across), device=across.device), batch.labels
        alike = (labels[:, None] == labels).to(within.dtype)
        unsupervised = F.cross_entropy(across, itself) + F.cross_entropy(across.T, itself)
        supervised = F.binary_cross_entropy_with_logits(torch.stack([within, across]), alike.expand(2, -1, -1))
        return {
            "task": cross_entropy(batch, self.classifier(states[0])),
            "unsupervised": 0.25 * unsupervised,
            "supervised": 0.5 * supervised,
        }

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        edges, available = self._edges(batch.check())
        return Prediction(self.classifier(self.samples(edges, available[None])[0]))

    def samples(self, edges: Float[Tensor, "b m c"], available: Bool[Tensor, "r b m"]) -> Float[Tensor, "r b c"]:
        """The final states of the sample nodes in graphs that share edge features but not which edges are available."""
        inward = edges.expand(len(available), -1, -1, -1)
        outward = inward.transpose(1, 2)
        samples, modalities = torch.ones_like(inward[:, :, 0]), self.nodes.expand(len(available), -1, -1)
        for number, layer in enumerate(self.layers):
            if number:
                samples, modalities = self.dropout(samples), self.dropout(modalities)
                change = self.edge_updates[number - 1]
                inward = _edge(change, modalities, samples, inward)
                outward = _edge(change, samples, modalities, outward)
            states = layer(modalities, samples, inward, available)
            modalities = layer(samples, modalities, outward, available.transpose(1, 2))
            samples = states
        return samples

    def _edges(self, batch: Batch) -> tuple[Float[Tensor, "b m c"], Bool[Tensor, "b m"]]:
        vectors, available = self.encoder(batch)
        return torch.stack([layer(x) for layer, x in zip(self.inputs, vectors.unbind(1), strict=True)], 1), available


def fewer(available: Bool[Tensor, "b m"], key: Int[Tensor, "b"]) -> Bool[Tensor, "b m"]:
    """With probability ½ all edges of a sample, else 1 to n - 1 of its n, every number and every choice equally likely."""
    draws = uniform(derive(key, "edges"), 2 + available.shape[1])
    most = (available.sum(1) - 1).clamp_min(1)
    count = (1 + draws[:, 1] * most).long().minimum(most)
    ranks = draws[:, 2:].masked_fill(~available, 2.0).argsort(1).argsort(1)
    # the share of samples whose edges the copy keeps
    return available & ((draws[:, :1] < 0.5) | (ranks < count[:, None]))


def _edge(change: nn.Module, source: Tensor, target: Tensor, edges: Tensor) -> Tensor:
    return _relu(change, source.unsqueeze(-3).expand_as(edges), target.unsqueeze(-2).expand_as(edges), edges)


def _relu(layer: nn.Module, *parts: Tensor) -> Tensor:
    return torch.relu(layer(torch.cat(parts, -1)))
