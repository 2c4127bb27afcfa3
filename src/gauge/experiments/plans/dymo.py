"""Plan of DyMo: imputer and any-subset backbone; nothing else is trained, `prepare` computes statistics."""

from dataclasses import dataclass

from gauge.data import Dataset
from gauge.experiments.benchmarks import Benchmark
from gauge.experiments.parts import imputer_stage
from gauge.experiments.plans import Plan
from gauge.experiments.plans.any_subset import backbone_stage
from gauge.methods.any_subset import AnySubset
from gauge.methods.dymo import Calibration, DyMo, Tail
from gauge.training.stages import Stage
from gauge.types import Imputer

__all__ = ["PLAN"]


@dataclass(frozen=True)
class DyMoVariant:
    """One row of a table."""

    note: str
    backbone: str = "any_subset"
    calibration: Calibration = "log"
    tail: Tail = "erfc"


VARIANTS = {
    "dymo": DyMoVariant("cosine prototypes, rewards calibrated by the ratio of log probabilities"),
    "dymo-ratio": DyMoVariant(
        "cosine prototypes, rewards calibrated by the ratio of probabilities", calibration="ratio"
    ),
    "dymo-e": DyMoVariant("Euclidean prototypes", "any_subset-euclidean", "ratio"),
    "dymo-float32": DyMoVariant("the published numerics: tails that vanish beyond 5.3 σ", tail="float32"),
}


def stage(benchmark: Benchmark, variant: str, seed: int) -> Stage:
    chosen = VARIANTS[variant]
    seed %= benchmark.backbones
    needs = (backbone_stage(benchmark, chosen.backbone, seed), imputer_stage(benchmark))
    settings = benchmark.settings.finetune.model_copy(update={"epochs": 0, "seed": seed})
    arguments = {"calibration": chosen.calibration, "tail": chosen.tail}
    return Stage(f"{variant}-s{seed}", make_dymo, arguments, settings, needs)


def make_dymo(train: Dataset, backbone: AnySubset, imputer: Imputer, *, calibration: Calibration, tail: Tail) -> DyMo:
    return DyMo(backbone, imputer, calibration=calibration, tail=tail)


PLAN = Plan(VARIANTS, stage)
