"""Plan of the any-subset backbone, which fine-tuned methods start from. There are `benchmark.backbones` of them.

Options: `projection` is the width of the space of class prototypes, by default half of `dim`, and `shared_embedding` that of
`UnitEncoder`.
"""

from dataclasses import replace
from typing import Any

from gauge.data import Dataset
from gauge.nn.initialise import initialise
from gauge.plus.any_subset import AnySubset
from gauge.training.stages import Stage
from gauge_lab.benchmarks import Benchmark
from gauge_lab.parts import Parts, seeded_with
from gauge_lab.plans import Plan, Variant, options_of

__all__ = ["PLAN", "backbone_stage"]


def backbone_stage(benchmark: Benchmark, variant: str, seed: int) -> Stage:
    seed %= benchmark.backbones
    options = options_of(benchmark, "any_subset")
    parts = replace(Parts.from_benchmark(benchmark), shared_embedding=options["shared_embedding"])
    sizes = {"subsets_per_step": benchmark.subsets_per_step, "projection": options["projection"] or benchmark.dim // 2}
    arguments = {"parts": parts, **sizes, **PLAN.variants[variant].options}
    name = variant.replace("any_subset", "backbone")
    return Stage(f"{name}-s{seed}", make_backbone, arguments, seeded_with(benchmark.settings.backbone, seed))


def make_backbone(train: Dataset, *, parts: Parts, **options: Any) -> AnySubset:
    method = AnySubset(*parts.unit_network(), **options)
    if parts.small_init:
        initialise(method.projection)
    return method


PLAN = Plan(
    {
        "any_subset": Variant("missing units masked, the backbone as trained", options={"distance": "cosine"}),
        "any_subset-euclidean": Variant("the same with Euclidean prototypes", options={"distance": "euclidean"}),
    },
    backbone_stage,
    options={"projection": None, "shared_embedding": False},
)
