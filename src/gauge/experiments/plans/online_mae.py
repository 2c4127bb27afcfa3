"""Plan of OnlineMAE: encoders start where those of MultiAE† ended, or of `concat` where tables have no decoder."""

from gauge.data import Dataset
from gauge.experiments.benchmarks import Benchmark
from gauge.experiments.parts import Parts, seeded_with
from gauge.experiments.plans import Plan, Variant, last_stage
from gauge.experiments.plans.multiae import unsupported as no_decoder
from gauge.methods.concat import Concat
from gauge.methods.multiae import MultiAE
from gauge.methods.online_mae import MaskedAutoEncoder, OnlineMAE
from gauge.model.nn.attention import initialise
from gauge.training.stages import Stage

__all__ = ["PLAN"]

MEMORY = 4  # tokens, at least; M + 1 where that is more
VARIANTS = {
    "online_mae": Variant("modality vectors imputed by a masked auto-encoder, then classified"),
    "online_mae-moving": Variant(
        "as published: encoders also learn to be easy to restore", options={"moving_target": True}
    ),
}


def stage(benchmark: Benchmark, variant: str, seed: int) -> Stage:
    """Everything trains.

    NOTE[PAPER] online-mae-start: published code loads the encoders, with tables those of a TIP that was fine-tuned to the
    task, and then initialises all Linear layers anew, those of the encoders among them; here what was loaded stays.

    NOTE[PAPER] online-mae-memory: memory tokens are set for each benchmark; here the number of modalities decides, and
    gives the published 6, 4 and 4.
    """
    arguments = {"parts": Parts.of(benchmark), "memory": max(MEMORY, len(benchmark.modalities) + 1)}
    arguments |= VARIANTS[variant].options
    if no_decoder(benchmark):
        start = last_stage(benchmark, "concat", "concat", seed)
    else:
        start = last_stage(benchmark, "multiae", "multiae-dagger", seed)
    settings = seeded_with(benchmark.settings.baseline, seed)
    return Stage(f"{variant}-s{seed}", make_online_mae, arguments, settings, (start,))


def make_online_mae(
    train: Dataset, start: MultiAE | Concat, *, parts: Parts, memory: int, moving_target: bool = False
) -> OnlineMAE:
    autoencoder = MaskedAutoEncoder(len(parts.units), parts.dim, memory=memory, heads=parts.heads, depth=parts.depth)
    method = OnlineMAE(start.encoder, autoencoder, parts.network(), moving_target=moving_target)
    if parts.small_init:
        for part in (method.project, method.autoencoder, method.classifier):
            initialise(part)
    return method


PLAN = Plan(VARIANTS, stage)
