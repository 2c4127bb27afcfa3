"""Late fusion: one strong classifier for each modality on its own; those of the observed modalities vote."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from gauge import registry
from gauge.benchmarks import Benchmark, Modality
from gauge.data import Dataset
from gauge.nn.streams import side_by_side
from gauge.registry import pick
from gauge.stages import Stage, network_config
from gauge.types import Batch, Encoder, Prediction

__all__ = ["LateFusion", "plan", "VARIANTS"]


@dataclass(frozen=True)
class Variant:
    """One row of a table."""

    note: str


VARIANTS = {"late_fusion": Variant("a classifier for each modality alone; those of the observed ones vote")}


def plan(benchmark: Benchmark, *, variant: str = "late_fusion", seed: int = 0) -> Stage:
    """The classifiers alone. They see real values only, so they can also judge imputed ones."""
    pick(VARIANTS, variant, "late_fusion variant")

    def build(train: Dataset) -> "LateFusion":
        encoders = {name: _encoder(modality, benchmark) for name, modality in benchmark.modalities.items()}
        return LateFusion(encoders, benchmark.num_classes)

    settings = benchmark.settings["experts"].model_copy(update={"seed": seed})
    config = {"expert_options": dict(benchmark.expert_options), **network_config(benchmark)}
    return Stage(f"late_fusion-s{seed}", build, config, settings)


def _encoder(modality: Modality, benchmark: Benchmark) -> Encoder:
    """The deep one for images, the benchmark's own for all else."""
    name, options = modality.encoder, modality.options
    if len(modality.shape) == 3:
        name, options = "deep_image", benchmark.expert_options
    return registry.get("encoders", name)(modality.shape, benchmark.dim, **options)


class LateFusion(nn.Module):
    """An encoder and a linear head for each modality; the log-probabilities of the observed modalities add up.

    What a single modality can tell, at its best: a ceiling for methods that see no more than it.
    """

    def __init__(self, encoders: Mapping[str, Encoder], num_classes: int) -> None:
        super().__init__()
        self.encoders = nn.ModuleDict(encoders)  # type: ignore[arg-type]
        self.heads = nn.ModuleDict(
            {name: nn.Linear(encoder.units * encoder.width, num_classes) for name, encoder in encoders.items()}
        )

    def opinions(self, batch: Batch) -> Float[Tensor, "b m k"]:
        """The logits of every modality's own classifier, whether its values were observed or imputed."""
        return torch.stack(side_by_side([partial(self._opinion, name, batch) for name in self.encoders]), 1)

    def _opinion(self, name: str, batch: Batch) -> Float[Tensor, "b k"]:
        units = self.encoders[name](batch.inputs[name], batch.observed[name])
        return self.heads[name](torch.relu(units.flatten(1)))

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """The cross-entropy of every classifier over the samples that have its modality."""
        assert batch.labels is not None
        logits, there = self._read(batch)
        each = F.cross_entropy(logits.flatten(0, 1), batch.labels.repeat_interleave(logits.shape[1]), reduction="none")
        weight = there.to(each.dtype)
        return {"task": ((each.reshape(weight.shape) * weight).sum(0) / weight.sum(0).clamp_min(1)).sum()}

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        logits, there = self._read(batch.check())
        return Prediction((logits.log_softmax(-1) * there[..., None]).sum(1))

    def _read(self, batch: Batch) -> tuple[Tensor, Tensor]:
        batch = batch.filled({name: torch.zeros_like(values) for name, values in batch.inputs.items()})
        return self.opinions(batch), batch.any_observed()
