"""How methods are trained on a benchmark: variants (the rows of a table), stages, and benchmarks that are not supported.

A method without a file here has the default plan: one variant, trained with the settings `baseline`, built from the
benchmark's unit encoder and network.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gauge.choices import pick
from gauge.data import Dataset
from gauge.registry import Kind
from gauge.training.stages import Stage
from gauge.types import Method, UnsupportedError
from gauge_lab.benchmarks import Benchmark
from gauge_lab.parts import Parts, imputer_stage, seeded_with
from gauge_lab.registry import METHODS


@dataclass(frozen=True)
class Variant:
    """One row of a table. `dagger` marks variants (†) that train on several random subsets in each step. `options` are
    arguments of the method."""

    note: str
    dagger: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """`stage(benchmark, variant, seed)` is the last stage of a variant; `rows` are the variants in the table of all methods,
    by default the first; `unsupported` gives the reason why a benchmark is not supported. `options` are those that a
    benchmark can set in its `method_options`, with their defaults."""

    variants: Mapping[str, Any]
    stage: Callable[[Benchmark, str, int], Stage]
    rows: tuple[str, ...] = ()
    unsupported: Callable[[Benchmark], str | None] = lambda benchmark: None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", self.rows or (next(iter(self.variants)),))


PLANS: Kind[Plan] = Kind("plan", ["gauge_lab.plans"])


def baseline_plan(
    variants: Mapping[str, Variant],
    make: Callable[..., Method],
    needs: Callable[[Benchmark, int], tuple[Stage, ...]] = lambda benchmark, seed: (),
    arguments: Callable[[Benchmark], dict[str, Any]] = lambda benchmark: {"parts": Parts.from_benchmark(benchmark)},
    **options: Any,
) -> Plan:
    """The plan of a method with its own network: `make(train, *needs, **arguments)`, trained with the settings `baseline`.

    The arguments of a variant are its options and, where some variants have a dagger, `subsets_per_step` (None without).
    """

    def stage(benchmark: Benchmark, variant: str, seed: int) -> Stage:
        chosen = variants[variant]
        keywords = {**arguments(benchmark), **chosen.options}
        if any(other.dagger for other in variants.values()):
            keywords["subsets_per_step"] = benchmark.subsets_per_step if chosen.dagger else None
        settings = seeded_with(benchmark.settings.baseline, seed)
        return Stage(f"{variant}-s{seed}", make, keywords, settings, needs(benchmark, seed))

    return Plan(variants, stage, **options)


def with_subsets(benchmark: Benchmark) -> dict[str, Any]:
    """The arguments of a method that trains on several random subsets in each step."""
    return {"parts": Parts.from_benchmark(benchmark), "subsets_per_step": benchmark.subsets_per_step}


def needs_imputer(benchmark: Benchmark, seed: int) -> tuple[Stage, ...]:
    return (imputer_stage(benchmark),)


def plan_of(method: str) -> Plan:
    """The plan of a method, or the default one."""
    if method in PLANS.names():
        return PLANS.get(method)
    component = METHODS.get(method)
    make, variants = partial(make_on_units, method=component), {method: Variant(METHODS.describe(method))}
    return baseline_plan(variants, make, unsupported=lambda benchmark: component.unsupported(benchmark.shapes))


def options_of(benchmark: Benchmark, method: str) -> dict[str, Any]:
    """The options of a method's plan: what the benchmark sets, and the defaults of the others."""
    return {**plan_of(method).options, **benchmark.method_options.get(method, {})}


def check_options(benchmark: Benchmark) -> None:
    for method, options in benchmark.method_options.items():
        for name in options:
            pick(plan_of(method).options, name, f"option of {method}")


def last_stage(benchmark: Benchmark, method: str, variant: str, seed: int) -> Stage:
    """The stage that trains a variant of a method with a seed."""
    check_options(benchmark)
    plan = plan_of(method)
    pick(plan.variants, variant, f"{method} variant")
    reason = plan.unsupported(benchmark)
    if reason:
        raise UnsupportedError(f"method {variant!r} cannot serve {benchmark.name}: {reason}; use another method")
    return plan.stage(benchmark, variant, seed)


def make_on_units(train: Dataset, *, method: Callable[..., Method], parts: Parts, **options: Any) -> Method:
    return method(*parts.unit_network(), **options)
