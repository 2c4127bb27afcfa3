"""MoPoE classification: a linear classifier on the frozen imputer's latent of what is observed (Sutter et al. 2021).

logits = W μ_S + b, with μ_S the mean of the imputer's posterior q(z | S), a product of Gaussian experts.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gauge.benchmarks import Benchmark
from gauge.data import Dataset
from gauge.imputers._frozen import Frozen
from gauge.imputers.mopoe import MoPoE
from gauge.methods.multiae import chosen_subsets, visible_under
from gauge.registry import pick
from gauge.stages import Stage, Variant, imputer_stage, network_config
from gauge.types import Batch, Prediction

__all__ = ["LatentClassifier", "plan", "unsupported", "VARIANTS", "ROWS"]

LATENT = 512  # of an imputer that does not say


VARIANTS = {
    "mopoe": Variant("a linear classifier on the imputer's latent, trained on all that is observed"),
    "mopoe-dagger": Variant("the same, trained on random subsets", dagger=True),
}
ROWS = ("mopoe", "mopoe-dagger")


def unsupported(benchmark: Benchmark) -> str | None:
    """Why this method cannot serve a benchmark, if it cannot."""
    if benchmark.imputer == "mopoe":
        return None
    return f"it reads the latent of the imputer 'mopoe', and the benchmark has the imputer {benchmark.imputer!r}"


def plan(benchmark: Benchmark, *, variant: str = "mopoe", seed: int = 0) -> Stage:
    """The classifier alone, on the imputer that all methods share."""
    per_step = benchmark.subsets_per_step if pick(VARIANTS, variant, "mopoe variant").dagger else None
    reason = unsupported(benchmark)
    if reason:
        raise ValueError(f"method {variant!r} cannot serve {benchmark.name}: {reason}; use another method")

    def build(train: Dataset, imputer: MoPoE) -> "LatentClassifier":
        latent = benchmark.imputer_options.get("latent", LATENT)
        return LatentClassifier(imputer, latent, benchmark.num_classes, subsets_per_step=per_step)

    settings = benchmark.settings["baseline"].model_copy(update={"seed": seed})
    config = {"method": "mopoe", "subsets_per_step": per_step, **network_config(benchmark)}
    return Stage(f"{variant}-s{seed}", build, config, settings, (imputer_stage(benchmark),))


class LatentClassifier(nn.Module):
    """One Linear layer learns; the imputer's encoders run once a step and give the posterior of every subset.

    With `subsets_per_step` (the † of tables) a step averages over that many random subsets; else it sees what there is.
    A style, in imputers that have it, is not read.

    NOTE[PAPER] frozen-parts: published code leaves the frozen imputer in training mode; here it stays in eval mode.
    """

    def __init__(self, imputer: MoPoE, latent: int, num_classes: int, *, subsets_per_step: int | None = None) -> None:
        super().__init__()
        self.imputer = Frozen(imputer)
        self.head = nn.Linear(latent, num_classes)
        self.subsets_per_step = subsets_per_step

    @property
    def vae(self) -> MoPoE:
        assert isinstance(self.imputer.imputer, MoPoE)
        return self.imputer.imputer

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        assert batch.labels is not None
        logits = self(batch, chosen_subsets(batch, self.vae.subsets, self.subsets_per_step))
        return {"task": F.cross_entropy(logits.flatten(0, 1), batch.labels.repeat(len(logits)))}

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        return Prediction(self(batch.check(), self.vae.subsets[-1:])[0])

    def forward(self, batch: Batch, chosen: Bool[Tensor, "r m"]) -> Float[Tensor, "r b k"]:
        return self.head(self.latents(batch, chosen))

    @torch.no_grad()
    def latents(self, batch: Batch, chosen: Bool[Tensor, "r m"]) -> Float[Tensor, "r b z"]:
        """The posterior mean of every sample under every subset."""
        return self.vae.posterior(batch, visible_under(batch.any_observed(), chosen))[0]
