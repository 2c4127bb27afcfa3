"""How methods are trained on a benchmark: variants (the rows of a table), stages, and what a method cannot serve.

A method without a file here gets the default plan: one variant, trained with the settings `baseline`, built from the
benchmark's unit encoder and network.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gauge.data import Dataset
from gauge.experiments.benchmarks import Benchmark
from gauge.experiments.parts import Parts, seeded_with
from gauge.registry import METHODS, PLANS, pick
from gauge.training.stages import Stage
from gauge.types import Method


@dataclass(frozen=True)
class Variant:
    """One row of a table. `dagger` is the policy that tables mark †: each step trains on several random subsets.
    `options` are arguments of the method."""

    note: str
    dagger: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """`stage(benchmark, variant, seed)` is the last stage of a variant; `rows` are the variants that stand in the table of
    all methods, the first one unless given; `unsupported` tells why a benchmark cannot be served."""

    variants: Mapping[str, Any]
    stage: Callable[[Benchmark, str, int], Stage]
    rows: tuple[str, ...] = ()
    unsupported: Callable[[Benchmark], str | None] = lambda benchmark: None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", self.rows or (next(iter(self.variants)),))


def plan_of(method: str) -> Plan:
    """The method's own plan, or the default one."""
    if method in PLANS.names():
        return PLANS.get(method)
    component = METHODS.get(method)

    def stage(benchmark: Benchmark, variant: str, seed: int) -> Stage:
        arguments = {"method": component, "parts": Parts.of(benchmark)}
        return Stage(f"{variant}-s{seed}", make_on_units, arguments, seeded_with(benchmark.settings.baseline, seed))

    def unsupported(benchmark: Benchmark) -> str | None:
        return component.unsupported({name: modality.shape for name, modality in benchmark.modalities.items()})

    return Plan({method: Variant(METHODS.describe(method))}, stage, unsupported=unsupported)


def last_stage(benchmark: Benchmark, method: str, variant: str, seed: int) -> Stage:
    """The stage that trains a variant of a method with a seed."""
    plan = plan_of(method)
    pick(plan.variants, variant, f"{method} variant")
    reason = plan.unsupported(benchmark)
    if reason:
        raise ValueError(f"method {variant!r} cannot serve {benchmark.name}: {reason}; use another method")
    return plan.stage(benchmark, variant, seed)


def make_on_units(train: Dataset, *, method: Callable[..., Method], parts: Parts, **options: Any) -> Method:
    """A method on the benchmark's unit encoder and network."""
    return method(*parts.unit_network(), **options)
