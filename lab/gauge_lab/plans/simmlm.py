"""Plan of SimMLM: experts of the shared sizes, trained with the gate from the start or begun as late_fusion:equal-votes."""

from gauge.data import Dataset
from gauge.nn.initialise import initialise
from gauge.plus.late_fusion import LateFusion
from gauge.training.stages import Stage
from gauge_lab.benchmarks import Benchmark
from gauge_lab.methods.simmlm import SimMLM, UnitExperts
from gauge_lab.parts import Parts, seeded_with
from gauge_lab.plans import Plan, Variant, last_stage

__all__ = ["PLAN"]

VARIANTS = {
    "simmlm": Variant("an expert for each modality and a gate, trained together"),
    "simmlm-pretrained": Variant("the same, starting from the trained classifiers of late_fusion:equal-votes"),
}


def stage(benchmark: Benchmark, variant: str, seed: int) -> Stage:
    settings, name = seeded_with(benchmark.settings.baseline, seed), f"{variant}-s{seed}"
    if variant == "simmlm":
        return Stage(name, make_simmlm, {"parts": Parts.from_benchmark(benchmark)}, settings)
    experts = last_stage(benchmark, "late_fusion", "equal-votes", seed)
    return Stage(name, make_pretrained, {"num_classes": benchmark.num_classes}, settings, (experts,))


def make_simmlm(train: Dataset, *, parts: Parts) -> SimMLM:
    encoder, first = parts.unit_network()
    networks = [first, *(parts.network() for _ in range(len(parts.units) - 1))]
    method = SimMLM(UnitExperts(encoder, networks), parts.num_classes)
    if parts.small_init:
        initialise(method)
    return method


def make_pretrained(train: Dataset, experts: LateFusion, *, num_classes: int) -> SimMLM:
    return SimMLM(experts, num_classes)


PLAN = Plan(VARIANTS, stage, rows=tuple(VARIANTS))
