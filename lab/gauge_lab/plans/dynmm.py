"""Plan of DynMM: only the gate is trained, on real values, over trained branches of the same seed."""

from gauge.data import Dataset
from gauge.plus.late_fusion import LateFusion
from gauge.training.stages import Stage
from gauge.types import Imputer
from gauge_lab.benchmarks import Benchmark
from gauge_lab.methods.concat import Concat
from gauge_lab.methods.dynmm import DynMM
from gauge_lab.parts import imputer_stage
from gauge_lab.plans import Variant, baseline_plan, last_stage

__all__ = ["PLAN"]


def needs(benchmark: Benchmark, seed: int) -> tuple[Stage, ...]:
    unimodal = last_stage(benchmark, "late_fusion", "unimodal", seed)
    return unimodal, last_stage(benchmark, "concat", "concat", seed), imputer_stage(benchmark)


def make_dynmm(train: Dataset, unimodal: LateFusion, concat: Concat, imputer: Imputer) -> DynMM:
    return DynMM(unimodal, concat, imputer)


PLAN = baseline_plan(
    {"dynmm": Variant("a gate picks one branch per sample, completed inputs")}, make_dynmm, needs, lambda benchmark: {}
)
