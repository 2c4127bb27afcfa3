"""Plan of DyMo: imputer and any-subset backbone; nothing else is trained, `prepare` computes statistics."""

from gauge.data import Dataset
from gauge.plus.any_subset import AnySubset
from gauge.training.stages import Stage
from gauge.types import Imputer
from gauge_lab.benchmarks import Benchmark
from gauge_lab.methods.dymo import Calibration, DyMo
from gauge_lab.parts import imputer_stage
from gauge_lab.plans import Plan, Variant, options_of
from gauge_lab.plans.any_subset import backbone_stage

__all__ = ["PLAN"]


VARIANTS = {
    "dymo": Variant(
        "cosine prototypes, rewards calibrated as published: by log probabilities, on hearts by probabilities"
    ),
    "dymo-e": Variant("Euclidean prototypes", options={"calibration": "ratio"}),
}


def stage(benchmark: Benchmark, variant: str, seed: int) -> Stage:
    """NOTE[PAPER] dymo-calibration: `dymo` calibrates as DyMo's code does, on hearts by the ratio of probabilities."""
    seed %= benchmark.backbones
    backbone = "any_subset-euclidean" if variant == "dymo-e" else "any_subset"
    needs = (backbone_stage(benchmark, backbone, seed), imputer_stage(benchmark))
    settings = benchmark.settings.finetune.model_copy(update={"epochs": 0, "seed": seed})
    arguments = {**options_of(benchmark, "dymo"), **VARIANTS[variant].options}
    return Stage(f"{variant}-s{seed}", make_dymo, arguments, settings, needs)


def make_dymo(train: Dataset, backbone: AnySubset, imputer: Imputer, *, calibration: Calibration) -> DyMo:
    return DyMo(backbone, imputer, calibration=calibration)


PLAN = Plan(VARIANTS, stage, options={"calibration": "log"})
