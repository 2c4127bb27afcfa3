"""M3Care: missing modalities are imputed from similar samples of the batch, then the shared Transformer fuses all."""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gauge.masks import draw_subsets, subsets, visible_under
from gauge.nn.initialise import small_parameter
from gauge.nn.losses import cross_entropy
from gauge.paper.network import Network
from gauge.types import Method
from gauge.values import Batch, Prediction
from gauge_lab.vectors import VectorEncoder

__all__ = ["M3Care"]


class M3Care(Method):
    """Vectors of modalities, a graph of the batch's samples, and a Transformer over one token for each modality.

    For h_m = LN_m(vector of modality m), 0 where it is missing, and BN one BatchNorm for all of them:

        k(X)_ij = mean over s in {σ/2, σ, 2σ} of exp(-‖x_i - x_j‖² / s), σ the mean ‖x_i - x_j‖² over i ≠ j
        S = mean over the modalities m that i and j share of (1 - g_m) k(BN(P_m h_m)) + g_m k(BN(h_m)), 0 where S <= θ
        H_m = h_m, then twice H_m <- SELU(S H_m W + b);  w = sigmoid(u_m H_m) / (sigmoid(u_m H_m) + sigmoid(v_m h_m))
        token_m = w H_m + (1 - w) h_m where modality m is observed, H_m where it is missing
        L = CE + 1e-8 Σ_m |‖P_m h_m‖ - ‖h_m‖|

    Zhang et al. 2022.

    The prediction for a sample depends on its batch; alone, a sample is its own only neighbour. With `subsets_per_step`
    every step classifies the batch under that many subsets.

    NOTE[PAPER] m3care-graph: published rows of S are not normalised, and missing samples count as zero vectors in σ. Here
    rows sum to 1 and σ is the mean over pairs that have the modality.

    NOTE[PAPER] m3care-once: published code compares samples again under every subset, with zeros for hidden modalities.
    Here they are compared once per step, and a subset decides which modalities count.
    """

    looks_across_batch = True

    def __init__(self, encoder: VectorEncoder, classifier: Network, *, subsets_per_step: int | None = None) -> None:
        super().__init__()
        self.encoder, self.classifier = encoder, classifier
        self.subsets_per_step = subsets_per_step
        count, dim = len(encoder.encoders), classifier.head.in_features
        bound = dim**-0.5
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(count))
        self.projections = nn.ModuleList(_projection(dim) for _ in range(count))
        self.batch_norm = nn.BatchNorm1d(dim)
        self.mix = nn.Parameter(torch.full((count,), 2.0))  # g_m starts at sigmoid(2)
        self.threshold = nn.Parameter(torch.zeros(()))
        layers = 2
        self.weights = nn.Parameter(torch.empty(layers, count, dim, dim).uniform_(-bound, bound))
        self.biases = nn.Parameter(torch.empty(layers, count, dim).uniform_(-bound, bound))
        self.trust_graph = nn.ModuleList(nn.Linear(dim, 1) for _ in range(count))
        self.trust_own = nn.ModuleList(nn.Linear(dim, 1) for _ in range(count))
        self.modality_embedding = nn.Embedding(count, dim)
        self.position_embedding = small_parameter(count, dim)
        self.subsets = nn.Buffer(subsets(count), persistent=False)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Cross-entropy over all observed modalities or over subsets drawn once for the batch, and the stability term."""
        if len(batch) < 2:
            raise ValueError("M3Care compares samples, but a batch holds 1; train with batches of at least 2")
        logits, stability = self._classify(batch, draw_subsets(batch.key, self.subsets, self.subsets_per_step))
        return {"task": cross_entropy(batch, logits), "stability": 1e-8 * stability}

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        return Prediction(self._classify(batch.check(), self.subsets[-1:])[0][0])

    def _classify(self, batch: Batch, chosen: Bool[Tensor, "r m"]) -> tuple[Float[Tensor, "r b k"], Float[Tensor, ""]]:
        """The logits under every subset from one encoding, and the term that keeps P_m near the scale of its input."""
        vectors, available = self.encoder(batch)
        states = torch.where(available[..., None], _each(self.norms, vectors), 0.0)
        projected, shown = _each(self.projections, states), visible_under(available, chosen)
        similarities = self.similarities(states, projected, available)
        imputed = self.impute(states, self.graph(similarities, shown), shown)
        tokens = imputed + self.modality_embedding.weight + self.position_embedding
        logits = self.classifier(tokens.flatten(0, 1)).unflatten(0, (len(shown), len(batch)))
        return logits, (projected.norm(dim=(0, 2)) - states.norm(dim=(0, 2))).abs().sum()

    def similarities(
        self, states: Float[Tensor, "b m c"], projected: Float[Tensor, "b m c"], available: Bool[Tensor, "b m"]
    ) -> Float[Tensor, "m b b"]:
        """The similarity of any two samples of the batch in each modality, from 0 to 1."""
        normed = torch.stack([self.batch_norm(x) for vectors in (projected, states) for x in vectors.unbind(1)], 1)
        pairs = ~torch.eye(len(normed), dtype=torch.bool, device=states.device).expand(states.shape[1], -1, -1)
        pairs = pairs & available.T[:, :, None] & available.T[:, None, :]
        with torch.autocast(states.device.type, enabled=False):
            normed = normed.transpose(0, 1).to(self.mix.dtype)
            of_projected, of_states = kernel(normed, pairs.repeat(2, 1, 1)).chunk(2)
            return torch.lerp(of_projected, of_states, self.mix.sigmoid()[:, None, None])

    def graph(self, similarities: Float[Tensor, "m b b"], shown: Bool[Tensor, "r b m"]) -> Float[Tensor, "r b b"]:
        """The mean similarity over the modalities that both samples show, 0 up to the threshold, which learns through the
        ReLU."""
        both = shown.mT[..., :, None] & shown.mT[..., None, :]
        mean = torch.where(both, similarities, 0.0).sum(1) / both.sum(1).clamp_min(1)
        threshold = self.threshold.sigmoid()
        return F.relu(mean - threshold) + torch.where(mean > threshold, threshold.detach(), 0.0)

    def impute(
        self, states: Float[Tensor, "b m c"], graph: Float[Tensor, "r b b"], shown: Bool[Tensor, "r b m"]
    ) -> Float[Tensor, "r b m c"]:
        """The vector of every modality of every sample after two rounds of message passing."""
        graph = F.normalize(graph, p=1, dim=-1)
        states = torch.where(shown[..., None], states, 0.0)
        gathered = states
        for weight, bias in zip(self.weights, self.biases, strict=True):
            messages = torch.einsum("rbmc,mcd->rbmd", gathered, weight)
            gathered = F.selu((graph @ messages.flatten(2)).unflatten(-1, bias.shape) + bias)
        graph_trust, own_trust = _each(self.trust_graph, gathered).sigmoid(), _each(self.trust_own, states).sigmoid()
        share = graph_trust / (graph_trust + own_trust + 1e-9)
        return torch.where(shown[..., None], share * gathered + (1 - share) * states, gathered)


def kernel(x: Float[Tensor, "n b c"], pairs: Bool[Tensor, "n b b"]) -> Float[Tensor, "n b b"]:
    """The mean of three Gaussian kernels; their width is relative to the mean squared distance of `pairs`, detached."""
    x = x - x.mean(-2, keepdim=True)  # leaves distances unchanged and reduces rounding errors
    gram = x @ x.mT
    squares = gram.diagonal(dim1=-2, dim2=-1)
    distances = (squares[:, :, None] + squares[:, None, :] - 2 * gram).clamp_min(0)
    mean = torch.where(pairs, distances.detach(), 0.0).sum((1, 2)) / pairs.sum((1, 2)).clamp_min(1)
    width = torch.where(mean < 1e-3, 1.0, mean)[:, None, None]  # a mean below it counts as 1
    # times the mean squared distance; DyMo's choice, as all numbers here
    return torch.stack([torch.exp(-distances / (factor * width)) for factor in (0.5, 1.0, 2.0)]).mean(0)


def _projection(dim: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))


def _each(layers: Iterable[nn.Module], x: Float[Tensor, "*b m c"]) -> Float[Tensor, "*b m d"]:
    """Every modality through its own layer."""
    return torch.stack([layer(part) for layer, part in zip(layers, x.unbind(-2), strict=True)], -2)
