"""Plan of M3Care: trains from scratch and needs nothing else; † trains on random subsets of the modalities."""

from gauge.data import Dataset
from gauge.experiments.benchmarks import Benchmark
from gauge.experiments.parts import Parts, seeded_with
from gauge.experiments.plans import Plan, Variant
from gauge.methods.m3care import M3Care
from gauge.model.nn.attention import initialise
from gauge.training.stages import Stage

__all__ = ["PLAN"]

FAITHFUL = {"faithful": True}
VARIANTS = {
    "m3care": Variant("trained on what the training data holds"),
    "m3care-dagger": Variant("trained on random subsets of the modalities", dagger=True),
    "m3care-faithful": Variant("the published graph: rows not normalised", options=FAITHFUL),
    "m3care-dagger-faithful": Variant("random subsets and the published graph", dagger=True, options=FAITHFUL),
}


def stage(benchmark: Benchmark, variant: str, seed: int) -> Stage:
    chosen = VARIANTS[variant]
    count = benchmark.subsets_per_step if chosen.dagger else None
    arguments = {"parts": Parts.of(benchmark), "subsets_per_step": count, **chosen.options}
    return Stage(f"{variant}-s{seed}", make_m3care, arguments, seeded_with(benchmark.settings.baseline, seed))


def make_m3care(train: Dataset, *, parts: Parts, subsets_per_step: int | None, faithful: bool = False) -> M3Care:
    network = parts.network()
    method = M3Care(parts.vector_encoder(parts.dim), network, subsets_per_step=subsets_per_step, faithful=faithful)
    if parts.small_init:
        initialise(method)
    return method


PLAN = Plan(VARIANTS, stage, rows=("m3care", "m3care-dagger"))
