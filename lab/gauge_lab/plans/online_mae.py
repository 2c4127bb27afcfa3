"""Plan of OnlineMAE: encoders start from those of MultiAE†, or of `concat` where tables have no decoder."""

from typing import Any

from gauge.data import Dataset
from gauge.nn.initialise import initialise
from gauge.training.stages import Stage
from gauge_lab.benchmarks import Benchmark
from gauge_lab.methods.concat import Concat
from gauge_lab.methods.multiae import MultiAE
from gauge_lab.methods.online_mae import MaskedAutoEncoder, OnlineMAE
from gauge_lab.parts import Parts
from gauge_lab.plans import Variant, baseline_plan, last_stage
from gauge_lab.plans.multiae import unsupported as no_decoder

__all__ = ["PLAN"]


def arguments(benchmark: Benchmark) -> dict[str, Any]:
    """NOTE[PAPER] online-mae-memory: memory tokens are set for each benchmark; here the number of modalities decides, and
    gives the published 6, 4 and 4."""
    # tokens, at least; M + 1 where that is more
    return {"parts": Parts.from_benchmark(benchmark), "memory": max(4, len(benchmark.modalities) + 1)}


def needs(benchmark: Benchmark, seed: int) -> tuple[Stage, ...]:
    """NOTE[PAPER] online-mae-start: published code loads the encoders, with tables those of a TIP that was fine-tuned to the
    task, and then initialises all their Linear layers again; here the loaded weights stay."""
    start = ("concat", "concat") if no_decoder(benchmark) else ("multiae", "multiae-dagger")
    return (last_stage(benchmark, *start, seed),)


def make_online_mae(train: Dataset, start: MultiAE | Concat, *, parts: Parts, memory: int) -> OnlineMAE:
    autoencoder = MaskedAutoEncoder(len(parts.units), parts.dim, memory=memory, heads=parts.heads, depth=parts.depth)
    method = OnlineMAE(start.encoder, autoencoder, parts.network())
    if parts.small_init:
        for part in (method.project, method.autoencoder, method.classifier):
            initialise(part)
    return method


PLAN = baseline_plan(
    {"online_mae": Variant("modality vectors imputed by a masked auto-encoder, then classified")},
    make_online_mae,
    needs,
    arguments,
)
