"""Concat: the vectors of all modalities side by side, one linear classifier; what is missing is imputed at test time.

logits = W [x_1; ...; x_M] + b
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from gauge.benchmarks import Benchmark
from gauge.data import Dataset
from gauge.imputers._frozen import Frozen
from gauge.methods.late_fusion import as_observed
from gauge.registry import pick
from gauge.stages import Stage, Variant, imputer_stage, network_config, vector_encoder
from gauge.types import Batch, Imputer, Prediction
from gauge.units import VectorEncoder

__all__ = ["Concat", "plan", "VARIANTS"]


VARIANTS = {"concat": Variant("one linear classifier on the vectors of all modalities, completed inputs")}


def plan(benchmark: Benchmark, *, variant: str = "concat", seed: int = 0) -> Stage:
    """Trained on real values; the imputer only serves predictions."""
    pick(VARIANTS, variant, "concat variant")

    def build(train: Dataset, imputer: Imputer) -> "Concat":
        return Concat(vector_encoder(benchmark), imputer, num_classes=benchmark.num_classes)

    settings = benchmark.settings["baseline"].model_copy(update={"seed": seed})
    config = {"method": "concat", **network_config(benchmark)}
    return Stage(f"concat-s{seed}", build, config, settings, (imputer_stage(benchmark),))


class Concat(nn.Module):
    """Early fusion at its plainest: it has no way to know that an input was imputed.

    NOTE[PAPER] fusion-gaps: a modality that a training sample lacks is a vector of zeros.
    """

    def __init__(self, encoder: VectorEncoder, imputer: Imputer, *, num_classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.imputer = Frozen(imputer)
        self.head = nn.Linear(sum(encoder.encoders[name].width for name in encoder.encoders), num_classes)  # type: ignore[misc]

    def forward(self, batch: Batch) -> Float[Tensor, "b k"]:
        return self.head(self.encoder(batch)[0].flatten(1))

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        assert batch.labels is not None
        return {"task": F.cross_entropy(self(batch), batch.labels)}

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        return Prediction(self(as_observed(self.imputer.complete(batch.check()))))
