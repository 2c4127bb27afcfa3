"""Plan of MMPareto: the encoders, the network and the training of GAUGE+."""

from gauge.data import Dataset
from gauge.training.stages import Stage
from gauge_lab.benchmarks import Benchmark
from gauge_lab.methods.mmpareto import MMPareto
from gauge_lab.parts import Parts, seeded_with
from gauge_lab.plans import Plan, Variant
from gauge_lab.plans._trunks import plus_parts

__all__ = ["PLAN"]


def stage(benchmark: Benchmark, variant: str, seed: int) -> Stage:
    arguments = {"parts": plus_parts(benchmark), "subsets_per_step": benchmark.subsets_per_step}
    return Stage(f"{variant}-s{seed}", make_mmpareto, arguments, seeded_with(benchmark.settings.plus, seed))


def make_mmpareto(train: Dataset, *, parts: Parts, subsets_per_step: int) -> MMPareto:
    return MMPareto(*parts.unit_network(), subsets_per_step=subsets_per_step)


PLAN = Plan({"mmpareto": Variant("heads that never train the encoders against the network, which predicts")}, stage)
