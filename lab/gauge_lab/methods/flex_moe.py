"""Flex-MoE: learned units stand in for missing ones, and routed experts specialise in the observed combination."""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gauge.masks import draw_subsets, subsets
from gauge.nn.attention import Block, Transformer
from gauge.nn.losses import cross_entropy
from gauge.paper.network import Network
from gauge.paper.units import UnitEncoder
from gauge.plus.any_subset import under_subsets
from gauge.randomness import derive, normal
from gauge.types import Method
from gauge.values import Batch, Prediction, Units
from gauge_lab.vectors import whole_modalities

__all__ = ["FlexMoE", "Router", "Experts"]

EXPERTS, LARGEST = 16, 4  # published code, for the 15 combinations of four modalities (ADNI)


@dataclass(frozen=True)
class Routes:
    """The gates of all experts, at most `LARGEST` of them positive, the router's logits, and the load of each expert."""

    gates: Float[Tensor, "b s e"]
    logits: Float[Tensor, "b s e"]
    load: Float[Tensor, "b s e"]


class Router(nn.Module):
    """Tokens -> the gates of experts (Shazeer et al. 2017). Noise is drawn in training only, from the keys of samples."""

    def __init__(self, dim: int, experts: int, largest: int = LARGEST) -> None:
        super().__init__()
        self.score, self.spread = nn.Linear(dim, experts, bias=False), nn.Linear(dim, experts, bias=False)
        nn.init.zeros_(self.spread.weight)
        self.largest = min(largest, experts)

    def forward(self, tokens: Float[Tensor, "b s c"], key: Int[Tensor, "b"]) -> Routes:
        clean = self.score(tokens).float()
        if not self.training:
            gates, _ = self._gates(clean)
            return Routes(gates, clean, (gates > 0).to(gates.dtype))
        deviation = F.softplus(self.spread(tokens).float()) + 0.01  # the least deviation of the router's noise
        draws = normal(derive(key, "router"), clean[0].numel()).reshape(clean.shape)
        noisy = clean + draws * deviation
        gates, ordered = self._gates(noisy)
        if self.largest == clean.shape[-1]:
            return Routes(gates, noisy, torch.ones_like(gates))
        last, next_one = ordered[..., self.largest - 1, None], ordered[..., self.largest, None]
        threshold = torch.where(noisy >= last, next_one, last)  # the best of the other experts that it competes with
        return Routes(gates, noisy, torch.special.ndtr((clean - threshold) / deviation))

    def _gates(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Gates, and the largest logits in descending order, one more than there are gates."""
        count = min(self.largest + 1, logits.shape[-1])
        ordered, index = logits.topk(count, -1)
        chosen = ordered[..., : self.largest].softmax(-1)
        return torch.zeros_like(logits).scatter(-1, index[..., : self.largest], chosen), ordered


class Experts(nn.Module):
    """Two-layer networks, mixed by gates. All experts are computed, also those with a gate of 0: the result is the same as
    without them, and every step has the same shapes."""

    def __init__(self, dim: int, experts: int, ratio: int = 2) -> None:
        super().__init__()
        self.inner, self.inner_bias = _stacked(experts, dim, ratio * dim)
        self.outer, self.outer_bias = _stacked(experts, ratio * dim, dim)

    def forward(self, tokens: Float[Tensor, "b s c"], gates: Float[Tensor, "b s e"]) -> Float[Tensor, "b s c"]:
        hidden = F.gelu(torch.einsum("bsc,ech->bseh", tokens, self.inner) + self.inner_bias)
        gates = gates.to(hidden.dtype)
        return torch.einsum("bseh,ehc->bsc", hidden * gates[..., None], self.outer) + gates @ self.outer_bias


class FlexMoE(Method):
    """The shared network with a bank of units and, in its first block, routed experts. Expert 0 belongs to complete samples,
    which teach all experts in a balanced way, and each other combination has an expert of its own.

    unit = encoder's where observed, else bank[observed combination, unit];   first block: MLP(x) = Σ_e g_e · expert_e(x)
    g = softmax over the 4 largest of x W + noise · softplus(x U), else 0
    L = CE + 0.01 · (CE(router, combination's expert) for incomplete samples + balance of complete + balance of incomplete)

    (Yun et al. 2024.) Balance is cv²(Σ g) + cv²(Σ p), with p the probability that the noise leaves an expert among the
    largest.

    A modality is observed if any of its values is; missing cells of an observed table also come from the bank. Published
    training data is incomplete, and complete samples come first for five epochs. Here every step has both: the batch as it
    is, and under random subsets. Published code reads the mean unit of every modality and has dropout of 0.5; this reads
    CLS and has none, like the shared network.
    """

    def __init__(self, encoder: UnitEncoder, classifier: Network, *, subsets_per_step: int = 2) -> None:
        super().__init__()
        if not isinstance(classifier.backbone, Transformer):
            raise ValueError(
                f"Flex-MoE puts experts into the first block, which {type(classifier.backbone).__name__} does not expose; "
                "use gauge.Transformer"
            )
        self.encoder, self.classifier, self.subsets_per_step = encoder, classifier, subsets_per_step
        self.subsets = nn.Buffer(subsets(len(encoder.unit_counts)), persistent=False)
        combinations, dim = len(self.subsets), len(classifier.cls_token)
        # as wide as normed units
        self.bank = nn.Parameter(torch.randn(combinations, sum(encoder.unit_counts.values()), dim))
        self.router = Router(dim, max(EXPERTS, combinations))
        self.experts = Experts(dim, max(EXPERTS, combinations))
        self._block(0).mlp = nn.Identity()  # type: ignore[assignment]  # the experts take its place

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        chosen = self.subsets[-1:]
        if others := min(self.subsets_per_step, len(self.subsets)) - 1:
            chosen = torch.cat([chosen, draw_subsets(batch.key, self.subsets[:-1], others)])
        units, visible = under_subsets(self.encoder(batch), chosen)
        combination = self.combination(units, visible)
        key = torch.cat([derive(batch.key, index) for index in range(len(chosen))])
        logits, routes = self.classify(units, visible, combination, key)
        # weight of all terms of the router: published code
        return {"task": cross_entropy(batch, logits), "router": 0.01 * router_loss(routes, combination)}

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        units = self.encoder(batch.check())
        combination = self.combination(units, units.observed)
        return Prediction(self.classify(units, units.observed, combination, batch.key)[0])

    def combination(self, units: Units, visible: Bool[Tensor, "b n"]) -> Int[Tensor, "b"]:
        """The number of the modalities that each sample shows, and of their expert: 0 for all of them."""
        count = len(self.encoder.unit_counts)
        shown = ~whole_modalities(~visible, units.modality, count)
        bits = (shown * 2 ** torch.arange(count, device=visible.device)).sum(1)
        return bits % len(self.subsets)

    def classify(
        self, units: Units, visible: Bool[Tensor, "b n"], combination: Int[Tensor, "b"], key: Int[Tensor, "b"]
    ) -> tuple[Float[Tensor, "b k"], Routes]:
        """The logits of the visible units, and how their tokens were routed."""
        filled = self.filled(units, visible, combination)
        sequence, block = self.classifier.sequence(filled.tokens), self._block(0)
        state = sequence + block.attention(block.attention_norm(sequence))
        tokens = block.mlp_norm(state)
        routes = self.router(tokens, key)
        state = state + self.experts(tokens, routes.gates)
        for index in range(1, len(self.blocks)):
            state = self._block(index)(state)
        return self.classifier.head(state[:, 0]), routes

    def filled(self, units: Units, visible: Bool[Tensor, "b n"], combination: Int[Tensor, "b"]) -> Units:
        """The units with those of the bank, for the combination of each sample, wherever they are not visible."""
        bank = self.bank[combination].to(units.content.dtype)
        return replace(units, content=torch.where(visible[..., None], units.content, bank))

    @property
    def blocks(self) -> nn.ModuleList:
        assert isinstance(self.classifier.backbone, Transformer)
        return self.classifier.backbone.blocks

    def _block(self, index: int) -> Block:
        block = self.blocks[index]
        assert isinstance(block, Block)
        return block


def router_loss(routes: Routes, combination: Int[Tensor, "b"]) -> Float[Tensor, ""]:
    """Incomplete samples choose the expert of their combination; complete ones use all experts alike, incomplete ones all
    but that of the complete ones."""
    incomplete = (combination > 0).to(routes.gates.dtype)[:, None]
    costs = F.cross_entropy(
        routes.logits.flatten(0, 1), combination.repeat_interleave(routes.logits.shape[1]), reduction="none"
    ).reshape(routes.logits.shape[:2])
    specialised = (costs * incomplete).sum() / incomplete.expand_as(costs).sum().clamp_min(1)
    kinds = ((1 - incomplete, 0), (incomplete, 1))
    usages = [
        (values * members[..., None]).sum((0, 1))[first:]
        for members, first in kinds
        for values in (routes.gates, routes.load)
    ]
    return specialised + torch.stack([variation(usage) for usage in usages]).sum()


def variation(usage: Float[Tensor, "e"]) -> Float[Tensor, ""]:
    """The squared coefficient of variation: 0 if all experts are used alike, or none is."""
    return usage.var() / (usage.mean().square() + 1e-10)  # a floor


def _stacked(experts: int, inputs: int, outputs: int) -> tuple[nn.Parameter, nn.Parameter]:
    """The weights and biases of a Linear layer for each expert."""
    layers = [nn.Linear(inputs, outputs) for _ in range(experts)]
    weights, biases = [layer.weight.detach().T for layer in layers], [layer.bias.detach() for layer in layers]
    return nn.Parameter(torch.stack(weights)), nn.Parameter(torch.stack(biases))
