"""Plan of GAUGE and its ablations: imputer and any-subset backbone, then fine-tuning on imputed inputs with gates."""

from dataclasses import dataclass, field, replace

import torch

from gauge.data import Dataset
from gauge.paper.gauge import UNGATED, Gating, Gauge, uses_zscore
from gauge.plus.any_subset import AnySubset
from gauge.registry import SCORERS
from gauge.training.stages import Stage
from gauge.types import Imputer
from gauge_lab.benchmarks import Benchmark
from gauge_lab.parts import Parts, imputer_stage, seeded_with
from gauge_lab.plans import Plan
from gauge_lab.plans.any_subset import backbone_stage
from gauge_lab.regrid import regrid

__all__ = ["PLAN", "GaugeVariant"]


@dataclass(frozen=True)
class GaugeVariant:
    """One row of a table: GAUGE itself, or one of its ablations and controls."""

    note: str
    gating: Gating = field(default_factory=Gating)
    imputes: bool = True
    tunes: bool = True
    grid: int = 0  # units of an image, down and across; 0: those of the backbone


# that the paper compares with Taylor scores
VARIANTS = {
    "masked": GaugeVariant("missing units masked, fine-tuned without any imputer", UNGATED, imputes=False),
    "v1": GaugeVariant("all imputed: the backbone as it is on completed inputs", UNGATED, tunes=False),
    "v2": GaugeVariant("fine-tuned on completed inputs, ungated", UNGATED),
    "v3": GaugeVariant("one gate per modality", Gating(granularity="modality")),
    "gauge": GaugeVariant("one gate per evidence unit"),
    "gauge-zscore": GaugeVariant("always z-scores", Gating(normalization="zscore")),
    "gauge-raw": GaugeVariant("always raw scores", Gating(normalization="raw")),
    **{f"gauge-grid{n}": GaugeVariant(f"images enlarged to {n} x {n} units", grid=n) for n in (3, 4, 5, 6, 8)},
    **{
        f"gauge-{name.replace('_', '-')}": GaugeVariant(f"scored by {name}", Gating(score=SCORERS.get(name)))
        for name in ("random", "feature_norm", "gradient_norm", "attention")
    },
}


def stage(benchmark: Benchmark, variant: str, seed: int) -> Stage:
    """Seed s starts from backbone s mod `benchmark.backbones`; only fine-tuning varies beyond that."""
    chosen = VARIANTS[variant]
    settings = seeded_with(benchmark.settings.finetune, seed)
    if not chosen.tunes:
        seed %= benchmark.backbones
        settings = settings.model_copy(update={"epochs": 0, "seed": seed})
    imputer = (imputer_stage(benchmark),) if chosen.imputes else ()
    needs = (backbone_stage(benchmark, "any_subset", seed), *imputer)
    arguments = {"gating": chosen.gating, "grid": chosen.grid}
    return Stage(f"{variant}-s{seed}", make_gauge, arguments, settings, needs)


def make_gauge(
    train: Dataset, backbone: AnySubset, imputer: Imputer | None = None, *, gating: Gating, grid: int
) -> Gauge:
    encoder = regrid(backbone.encoder, grid) if grid else backbone.encoder
    return Gauge(encoder, backbone.classifier, imputer, gating=gating)


def twin(benchmark: Benchmark, variant: str) -> str:
    """The first variant that is the same model on this benchmark: with more than three units GAUGE takes z-scores anyway,
    with fewer raw scores. Two rows that are twins differ by the order in which a GPU adds: a measure of noise."""
    gating = VARIANTS[variant].gating
    if not gating.gates_units or gating.normalization == "adaptive":
        return variant
    with torch.device("meta"):
        units = sum(part.build(benchmark.dim).units for part in Parts.from_benchmark(benchmark).units.values())
    same = uses_zscore(units, gating.normalization) == uses_zscore(units)
    adaptive = replace(VARIANTS[variant], gating=replace(gating, normalization="adaptive"), note="")
    twins = [name for name, variant in VARIANTS.items() if replace(variant, note="") == adaptive]
    return twins[0] if same and twins else variant


PLAN = Plan(VARIANTS, stage, rows=("masked", "v1", "v2", "v3", "gauge"))
