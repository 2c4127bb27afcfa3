"""Plan of GAUGE+, trained from scratch in one stage, and of its ablations, which lack one of its parts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from gauge.data import Dataset
from gauge.experiments.benchmarks import Benchmark
from gauge.experiments.parts import Parts, imputer_stage, seeded_with, with_swaps
from gauge.experiments.plans import Plan, last_stage
from gauge.experiments.plans._distilled import distilled
from gauge.experiments.plans._trunks import plus_parts
from gauge.methods._distilled import Distilled
from gauge.methods.gauge_plus import GaugePlus
from gauge.methods.late_fusion import WeightedVote
from gauge.model.gauge import UNGATED, Gating
from gauge.training.stages import Stage
from gauge.types import Imputer, Method

__all__ = ["PLAN", "PlusVariant"]


@dataclass(frozen=True)
class PlusVariant:
    """One row of a table: GAUGE+ itself, with gates, or without one of its parts. `answers` is what makes the row of a
    trained GAUGE+ that answers with some of its parts."""

    note: str
    gating: Gating = UNGATED
    whole: bool = True
    heads: Literal["validated", "joint", "detached", "none"] = "validated"
    answers: Callable[[Dataset, GaugePlus], Method] | None = None
    deep: bool = True
    corrupts: bool = False
    imputes: bool = False
    teacher: Literal["", "gauge_plus", "late_fusion"] = ""


def network_alone(train: Dataset, trained: GaugePlus) -> GaugePlus:
    """The combination is learned after training, so GAUGE+ without it is the same trained network."""
    trained.combination = None
    return trained


def heads_alone(train: Dataset, trained: GaugePlus) -> WeightedVote:
    """The votes of the trained heads, whose weights are learned anew."""
    assert trained.heads is not None
    return WeightedVote(trained.encoder, trained.heads, corrupt=trained.corrupt)


TRUST = Gating(granularity="trust")
VARIANTS = {
    "gauge_plus": PlusVariant("fine and whole units, a head for each modality, all answers combined"),
    "gauge_plus-gated": PlusVariant("the same with one gate per evidence unit", gating=Gating()),
    "gauge_plus-no-whole": PlusVariant("without whole units; heads read the mean of the fine ones", whole=False),
    "gauge_plus-joint-heads": PlusVariant("with heads that always train the encoders", heads="joint"),
    "gauge_plus-detached-heads": PlusVariant("with heads that do not train the encoders", heads="detached"),
    "gauge_plus-no-heads": PlusVariant("without heads, the network alone", heads="none"),
    "gauge_plus-no-combination": PlusVariant("the network of GAUGE+ alone answers", answers=network_alone),
    "gauge_plus-heads-only": PlusVariant("the heads of GAUGE+ alone answer, combined anew", answers=heads_alone),
    "gauge_plus-swaps": PlusVariant("trained with swapped evidence", corrupts=True),
    "gauge_plus-trust": PlusVariant("the same, gated by the learned trust in each unit", gating=TRUST, corrupts=True),
    "gauge_plus-trust-imputed": PlusVariant(
        "on imputed inputs, gated by the learned trust in each unit", gating=TRUST, imputes=True
    ),
    "gauge_plus-informed": PlusVariant(
        "on imputed inputs, with gates that know what is imputed", gating=Gating(informed=True), imputes=True
    ),
    "gauge_plus-distilled": PlusVariant(
        "distilled from GAUGE+ on all training samples, with and without labels", teacher="gauge_plus"
    ),
    "gauge_plus-distilled-from-votes": PlusVariant(
        "the same, distilled from late fusion instead of GAUGE+", teacher="late_fusion"
    ),
    "gauge_plus-old-encoders": PlusVariant("with the encoders of the paper's backbone", deep=False),
}


def stage(benchmark: Benchmark, variant: str, seed: int) -> Stage:
    chosen = VARIANTS[variant]
    arguments = {
        "parts": plus_parts(benchmark, whole=chosen.whole, deep=chosen.deep),
        "subsets_per_step": benchmark.subsets_per_step,
        "gating": chosen.gating,
        "heads": chosen.heads,
    }
    settings = seeded_with(benchmark.settings.plus, seed)
    if chosen.corrupts:
        settings = with_swaps(settings)
    arguments["corrupt"] = settings.corrupt
    needs: tuple[Stage, ...] = ()
    if chosen.answers is not None:
        trained = settings.model_copy(update={"epochs": 0})
        return Stage(f"{variant}-s{seed}", chosen.answers, {}, trained, (stage(benchmark, "gauge_plus", seed),))
    if chosen.imputes:
        masks = benchmark.settings.finetune.masks  # imputed inputs are encoded once, under one mask for each sample
        settings, needs = settings.model_copy(update={"masks": masks}), (imputer_stage(benchmark),)
    if chosen.teacher:
        settings = seeded_with(benchmark.settings.student, seed)
        teacher = last_stage(benchmark, chosen.teacher, chosen.teacher, seed)
        return Stage(f"{variant}-s{seed}", make_distilled, arguments, settings, (teacher,), split="imputer")
    return Stage(f"{variant}-s{seed}", make_gauge_plus, arguments, settings, needs)


def make_gauge_plus(train: Dataset, imputer: Imputer | None = None, *, parts: Parts, **options: Any) -> GaugePlus:
    return GaugePlus(*parts.unit_network(), imputer, **options)


def make_distilled(train: Dataset, teacher: Method, *, parts: Parts, **options: Any) -> Distilled:
    return distilled(GaugePlus(*parts.unit_network(), **options), teacher, train)


PLAN = Plan(VARIANTS, stage, options={"dim": None})
