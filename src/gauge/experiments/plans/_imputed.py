"""What methods share that train on real values and let an imputer complete what they predict."""

from collections.abc import Callable
from typing import Any

from gauge.experiments.benchmarks import Benchmark
from gauge.experiments.parts import Parts, imputer_stage, seeded_with
from gauge.experiments.plans import Plan, Variant
from gauge.training.stages import Stage


def imputed_plan(name: str, note: str, make: Callable[..., Any]) -> Plan:
    """One variant: `make(train, imputer, parts=...)`, trained with the settings `baseline`."""

    def stage(benchmark: Benchmark, variant: str, seed: int) -> Stage:
        settings, needs = seeded_with(benchmark.settings.baseline, seed), (imputer_stage(benchmark),)
        return Stage(f"{name}-s{seed}", make, {"parts": Parts.of(benchmark)}, settings, needs)

    return Plan({name: Variant(note)}, stage)
