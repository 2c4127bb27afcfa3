"""M3Care: similar samples of the batch lend each other what is missing, then the shared Transformer fuses it.

For h_m = LN_m(vector of modality m), 0 where it is missing, and BN one BatchNorm for all of them:

    k(X)_ij = mean over s in {σ/2, σ, 2σ} of exp(-‖x_i - x_j‖² / s), σ the mean ‖x_i - x_j‖² over i ≠ j
    S = mean over the modalities m that i and j share of (1 - g_m) k(BN(P_m h_m)) + g_m k(BN(h_m)), 0 where S <= θ
    H_m = h_m, then twice H_m <- SELU(S H_m W + b);  w = sigmoid(u_m H_m) / (sigmoid(u_m H_m) + sigmoid(v_m h_m))
    token_m = w H_m + (1 - w) h_m where modality m is observed, H_m where it is missing
    L = CE + 1e-8 Σ_m |‖P_m h_m‖ - ‖h_m‖|
"""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gauge.masks import draw_subsets, subsets
from gauge.model.network import Network
from gauge.model.nn.attention import small_parameter
from gauge.model.units import VectorEncoder
from gauge.types import Batch, Method, Prediction

__all__ = ["M3Care"]

BANDWIDTHS = (0.5, 1.0, 2.0)  # times the mean squared distance, DyMo's choice as all numbers here
BANDWIDTH_FLOOR = 1e-3  # a mean below it counts as 1
MIX = 2.0  # g_m starts at sigmoid(2)
STABILITY = 1e-8
TRUST_FLOOR = 1e-9
LAYERS = 2


class M3Care(Method):
    """Vectors of modalities, a graph of the batch's samples, and a Transformer over one token for each modality.

    The answer for a sample depends on the batch it is predicted with; alone, a sample has itself as its only neighbour.
    With `subsets_per_step` every step classifies the batch under so many subsets that it shares.

    NOTE[PAPER] m3care-graph: published rows of S are not normalised, so features grow with the batch, and missing samples
    count as zero vectors in σ, so that the graph thins out as more is missing. Here rows sum to 1 and σ is the mean over
    pairs that have the modality; `faithful=True` is the published graph.

    NOTE[PAPER] m3care-once: published code compares samples anew under every subset, with zeros for what it hides. Here
    they are compared once a step, and a subset decides which modalities count: the same graph where training data is
    complete, and BatchNorm does not see those zeros.
    """

    looks_across_batch = True

    def __init__(
        self,
        encoder: VectorEncoder,
        classifier: Network,
        *,
        subsets_per_step: int | None = None,
        faithful: bool = False,
    ) -> None:
        super().__init__()
        self.encoder, self.classifier = encoder, classifier
        self.subsets_per_step, self.faithful = subsets_per_step, faithful
        count, dim = len(encoder.encoders), classifier.head.in_features
        bound = dim**-0.5
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(count))
        self.projections = nn.ModuleList(_projection(dim) for _ in range(count))
        self.batch_norm = nn.BatchNorm1d(dim)
        self.mix = nn.Parameter(torch.full((count,), MIX))
        self.threshold = nn.Parameter(torch.zeros(()))
        self.weights = nn.Parameter(torch.empty(LAYERS, count, dim, dim).uniform_(-bound, bound))
        self.biases = nn.Parameter(torch.empty(LAYERS, count, dim).uniform_(-bound, bound))
        self.trust_graph = nn.ModuleList(nn.Linear(dim, 1) for _ in range(count))
        self.trust_own = nn.ModuleList(nn.Linear(dim, 1) for _ in range(count))
        self.modality_embedding = nn.Embedding(count, dim)
        self.position_embedding = small_parameter(count, dim)
        self.register_buffer("subsets", subsets(count), persistent=False)
        self.subsets: Tensor

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Cross-entropy over all that is observed, or over subsets that are drawn once for the batch; and stability."""
        if len(batch) < 2:
            raise ValueError("M3Care compares samples, but a batch holds 1; train with batches of at least 2")
        assert batch.labels is not None
        chosen = None
        if self.subsets_per_step:
            chosen = draw_subsets(batch.key, self.subsets, self.subsets_per_step)
        logits, stability = self._classify(batch, chosen)
        return {
            "task": F.cross_entropy(logits.flatten(0, 1), batch.labels.repeat(len(logits))),
            "stability": STABILITY * stability,
        }

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        return Prediction(self._classify(batch.check(), None)[0][0])

    def _classify(
        self, batch: Batch, chosen: Bool[Tensor, "r m"] | None
    ) -> tuple[Float[Tensor, "r b k"], Float[Tensor, ""]]:
        """The logits under every subset (what is observed when None) from one encoding; and the term that keeps P_m near
        the scale of its input. A sample of which a subset leaves nothing shows all it has."""
        vectors, there = self.encoder(batch)
        states = torch.where(there[..., None], _each(self.norms, vectors), 0.0)
        projected = _each(self.projections, states)
        shown = there[None]
        if chosen is not None:
            shown = chosen[:, None] & there
            shown = torch.where(shown.any(-1, keepdim=True), shown, there)
        recovered = self.recover(states, self.graph(self.similarities(states, projected, there), shown), shown)
        tokens = recovered + self.modality_embedding.weight + self.position_embedding
        logits = self.classifier(tokens.flatten(0, 1)).unflatten(0, (len(shown), len(batch)))
        return logits, (projected.norm(dim=(0, 2)) - states.norm(dim=(0, 2))).abs().sum()

    def similarities(
        self, states: Float[Tensor, "b m c"], projected: Float[Tensor, "b m c"], there: Bool[Tensor, "b m"]
    ) -> Float[Tensor, "m b b"]:
        """How alike any two samples are in each modality, from 0 to 1."""
        normed = [self.batch_norm(x) for each in (projected, states) for x in each.unbind(1)]
        pairs = ~torch.eye(len(there), dtype=torch.bool, device=there.device).expand(there.shape[1], -1, -1)
        if not self.faithful:
            pairs = pairs & there.T[:, :, None] & there.T[:, None, :]
        with torch.autocast(there.device.type, enabled=False):
            kernels = kernel(torch.stack(normed).to(self.mix.dtype), pairs.repeat(2, 1, 1))
            of_projected, of_states = kernels.chunk(2)
            return torch.lerp(of_projected, of_states, self.mix.sigmoid()[:, None, None])

    def graph(self, similarities: Float[Tensor, "m b b"], shown: Bool[Tensor, "r b m"]) -> Float[Tensor, "r b b"]:
        """The mean similarity over the modalities that both samples show; 0 where it does not exceed the threshold.

        The threshold learns through the ReLU; survivors keep their value.
        """
        both = shown.mT[..., :, None] & shown.mT[..., None, :]
        mean = torch.where(both, similarities, 0.0).sum(1) / both.sum(1).clamp_min(1)
        threshold = self.threshold.sigmoid()
        return F.relu(mean - threshold) + torch.where(mean > threshold, threshold.detach(), 0.0)

    def recover(
        self, states: Float[Tensor, "b m c"], graph: Float[Tensor, "r b b"], shown: Bool[Tensor, "r b m"]
    ) -> Float[Tensor, "r b m c"]:
        """The vector of every modality of every sample after two rounds of messages along the graph."""
        if not self.faithful:
            graph = F.normalize(graph, p=1, dim=-1)
        states = torch.where(shown[..., None], states, 0.0)
        heard = states
        for weight, bias in zip(self.weights, self.biases, strict=True):
            messages = torch.einsum("rbmc,mcd->rbmd", heard, weight)
            heard = F.selu((graph @ messages.flatten(2)).unflatten(-1, bias.shape) + bias)
        graph_trust, own_trust = _each(self.trust_graph, heard).sigmoid(), _each(self.trust_own, states).sigmoid()
        share = graph_trust / (graph_trust + own_trust + TRUST_FLOOR)
        blend = share * heard + (1 - share) * states
        return torch.where(shown[..., None], blend, heard)


def kernel(x: Float[Tensor, "n b c"], pairs: Bool[Tensor, "n b b"]) -> Float[Tensor, "n b b"]:
    """Three Gaussian kernels, averaged; their width follows the mean squared distance of `pairs`, without gradient."""
    x = x - x.mean(-2, keepdim=True)  # no distance changes, and less is lost to rounding
    gram = x @ x.mT
    squares = gram.diagonal(dim1=-2, dim2=-1)
    distances = (squares[:, :, None] + squares[:, None, :] - 2 * gram).clamp_min(0)
    mean = torch.where(pairs, distances.detach(), 0.0).sum((1, 2)) / pairs.sum((1, 2)).clamp_min(1)
    width = torch.where(mean < BANDWIDTH_FLOOR, 1.0, mean)[:, None, None]
    return torch.stack([torch.exp(-distances / (factor * width)) for factor in BANDWIDTHS]).mean(0)


def _projection(dim: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))


def _each(layers: Iterable[nn.Module], x: Float[Tensor, "*b m c"]) -> Float[Tensor, "*b m d"]:
    """Every modality through a layer of its own."""
    return torch.stack([layer(part) for layer, part in zip(layers, x.unbind(-2), strict=True)], -2)
