"""Any-subset backbone: one Transformer trained on random subsets of its modalities; what is missing is masked."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gauge.benchmarks import Benchmark
from gauge.data import Dataset
from gauge.gates import hiding_bias
from gauge.masks import subsets
from gauge.network import Network
from gauge.randomness import derive, uniform
from gauge.registry import pick
from gauge.stages import Stage, network_config, unit_network
from gauge.types import Batch, Prediction
from gauge.units import UnitEncoder

__all__ = ["AnySubset", "plan", "VARIANTS"]


@dataclass(frozen=True)
class Variant:
    """One row of a table."""

    note: str


VARIANTS = {"any_subset": Variant("missing units masked, the backbone as trained")}


def plan(benchmark: Benchmark, *, variant: str = "any_subset", seed: int = 0) -> Stage:
    """The backbone alone: the start of every fine-tuned method."""
    pick(VARIANTS, variant, "any_subset variant")

    def build(train: Dataset) -> "AnySubset":
        encoder, classifier = unit_network(benchmark)
        return AnySubset(encoder, classifier, subsets_per_step=benchmark.subsets_per_step)

    config = {"subsets_per_step": benchmark.subsets_per_step, **network_config(benchmark)}
    return Stage(f"backbone-s{seed}", build, config, benchmark.settings["backbone"].model_copy(update={"seed": seed}))


class AnySubset(nn.Module):
    """Every step classifies the batch under several subsets that it shares, from one encoding of each modality.

    A hidden unit has lost its content and every attention ignores it.
    """

    def __init__(self, encoder: UnitEncoder, classifier: Network, *, subsets_per_step: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.classifier = classifier
        self.subsets_per_step = subsets_per_step
        self.register_buffer("subsets", subsets(len(encoder.layout)), persistent=False)
        self.subsets: Tensor

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Cross-entropy, averaged over distinct subsets that are drawn uniformly once for the batch."""
        units = self.encoder(batch)
        order = uniform(derive(batch.key[:1], "subsets"), len(self.subsets))[0].argsort()
        chosen = self.subsets[order[: self.subsets_per_step]]
        visible = chosen[:, None, units.modality] & units.observed
        visible = torch.where(visible.any(-1, keepdim=True), visible, units.observed).flatten(0, 1)
        tokens = units.content.repeat(len(chosen), 1, 1) * visible[..., None] + units.embedding
        logits = self.classifier(tokens, hiding_bias(visible))
        assert batch.labels is not None
        return {"task": F.cross_entropy(logits, batch.labels.repeat(len(chosen)))}

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        units = self.encoder(batch.check())
        return Prediction(self.classifier(units.tokens, hiding_bias(units.observed)))
