"""Plan of MAP: the method alone; † trains on several random subsets in every step."""

from gauge.experiments.benchmarks import Benchmark
from gauge.experiments.parts import Parts, seeded_with
from gauge.experiments.plans import Plan, Variant, make_on_units
from gauge.methods.map import MAP
from gauge.training.stages import Stage

__all__ = ["PLAN"]

VARIANTS = {
    "map": Variant("prompts for every subset, trained on the input as it is"),
    "map-dagger": Variant("prompts for every subset, trained on several random subsets in every step", dagger=True),
}


def stage(benchmark: Benchmark, variant: str, seed: int) -> Stage:
    count = benchmark.subsets_per_step if VARIANTS[variant].dagger else 0
    arguments = {"method": MAP, "parts": Parts.of(benchmark), "subsets_per_step": count}
    return Stage(f"{variant}-s{seed}", make_on_units, arguments, seeded_with(benchmark.settings.baseline, seed))


PLAN = Plan(VARIANTS, stage, rows=tuple(VARIANTS))
