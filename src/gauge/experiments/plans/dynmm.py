"""Plan of DynMM: the gate alone trains, on real values, over branches of the same seed that are trained before."""

from gauge.data import Dataset
from gauge.experiments.benchmarks import Benchmark
from gauge.experiments.parts import imputer_stage, seeded_with
from gauge.experiments.plans import Plan, Variant, last_stage
from gauge.methods.concat import Concat
from gauge.methods.dynmm import DynMM
from gauge.methods.late_fusion import LateFusion
from gauge.training.stages import Stage
from gauge.types import Imputer

__all__ = ["PLAN"]


def stage(benchmark: Benchmark, variant: str, seed: int) -> Stage:
    needs = (
        last_stage(benchmark, "late_fusion", "unimodal", seed),
        last_stage(benchmark, "concat", "concat", seed),
        imputer_stage(benchmark),
    )
    return Stage(f"dynmm-s{seed}", make_dynmm, {}, seeded_with(benchmark.settings.baseline, seed), needs)


def make_dynmm(train: Dataset, unimodal: LateFusion, concat: Concat, imputer: Imputer) -> DynMM:
    return DynMM(unimodal, concat, imputer)


PLAN = Plan({"dynmm": Variant("a gate picks one branch per sample, completed inputs")}, stage)
