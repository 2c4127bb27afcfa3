"""Plan of MUSE: trains from scratch, from torch's own initialisation, and needs nothing else."""

from gauge.data import Dataset
from gauge.experiments.benchmarks import Benchmark
from gauge.experiments.parts import Parts, seeded_with
from gauge.experiments.plans import Plan, Variant
from gauge.methods.muse import Muse
from gauge.training.stages import Stage

__all__ = ["PLAN"]


def stage(benchmark: Benchmark, variant: str, seed: int) -> Stage:
    arguments = {"parts": Parts.of(benchmark)}
    return Stage(f"muse-s{seed}", make_muse, arguments, seeded_with(benchmark.settings.baseline, seed))


def make_muse(train: Dataset, *, parts: Parts) -> Muse:
    return Muse(parts.vector_encoder(parts.dim), parts.dim, parts.num_classes)


PLAN = Plan({"muse": Variant("a graph of samples and modalities, contrasted with a copy that has fewer edges")}, stage)
