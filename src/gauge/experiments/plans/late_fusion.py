"""Plan of late fusion: strong classifiers of single modalities, and the paper's `unimodal` on completed inputs."""

from gauge.data import Dataset
from gauge.experiments.benchmarks import Benchmark
from gauge.experiments.parts import Parts, imputer_stage, seeded_with
from gauge.experiments.plans import Plan, Variant
from gauge.methods.late_fusion import LateFusion
from gauge.training.stages import Stage
from gauge.types import Imputer

__all__ = ["PLAN", "make_unimodal"]


def stage(benchmark: Benchmark, variant: str, seed: int) -> Stage:
    """The classifiers see real values only, so they can also judge imputed ones."""
    arguments = {"parts": Parts.from_benchmark(benchmark)}
    if variant == "late_fusion":
        return Stage(f"{variant}-s{seed}", make_experts, arguments, seeded_with(benchmark.settings.experts, seed))
    settings = seeded_with(benchmark.settings.baseline, seed)
    return Stage(f"{variant}-s{seed}", make_unimodal, arguments, settings, (imputer_stage(benchmark),))


def make_experts(train: Dataset, *, parts: Parts) -> LateFusion:
    return LateFusion({name: part.build(parts.dim) for name, part in parts.experts.items()}, parts.num_classes)


def make_unimodal(train: Dataset, imputer: Imputer | None = None, *, parts: Parts) -> LateFusion:
    """A new linear classifier on the vector of each modality, for unimodal, QMF and PDF."""
    encoders = parts.vector_encoders(parts.vector_dim)
    return LateFusion(encoders, parts.num_classes, imputer, rectify=False)


PLAN = Plan(
    {
        "late_fusion": Variant("a strong classifier for each modality alone; those of the observed ones vote"),
        "unimodal": Variant("a linear classifier on each modality's vector; all vote, on completed inputs"),
    },
    stage,
    rows=("late_fusion", "unimodal"),
)
