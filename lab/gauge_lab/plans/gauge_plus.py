"""Plan of GAUGE+ and of its ablations, which lack one of its parts.

GAUGE+ is trained from scratch in one stage. What learns from every row, labelled or not, has more: encoders and network are
pre-trained, and a first GAUGE+ starts from them and teaches a second one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from gauge.data import Dataset
from gauge.masks import Corruption
from gauge.paper.gauge import UNGATED, Gating
from gauge.plus.gauge_plus import GaugePlus
from gauge.plus.late_fusion import WeightedVote
from gauge.training.stages import Stage
from gauge.types import Method, Pretrainer
from gauge_lab.benchmarks import Benchmark
from gauge_lab.methods._distilled import Distilled
from gauge_lab.parts import Parts, seeded_with
from gauge_lab.plans import Plan, options_of
from gauge_lab.plans._distilled import distilled
from gauge_lab.plans._ensemble import ensemble_stage
from gauge_lab.plans._pretrained import pretraining_stage
from gauge_lab.plans._trunks import plus_parts

__all__ = ["PLAN", "PlusVariant"]


@dataclass(frozen=True)
class PlusVariant:
    """One row of a table: GAUGE+ itself, gated by trust, or without one of its parts. A row that is `pretrained` starts
    from self-supervised training, and a `student` also learns from what several of these say of samples without a label."""

    note: str
    gating: Gating | Literal["trust"] = UNGATED
    heads: Literal["validated", "joint", "detached", "none"] = "validated"
    corrupts: bool = False
    pretrained: bool = False
    student: bool = False


def heads_alone(train: Dataset, trained: GaugePlus) -> WeightedVote:
    """The votes of the trained heads, whose weights are learned anew."""
    assert trained.heads is not None
    return WeightedVote(trained.encoder, trained.heads, corrupt=trained.corrupt)


PRETRAINED, HEADS_ONLY = "gauge_plus-pretrained", "gauge_plus-heads-only"
VARIANTS = {
    "gauge_plus": PlusVariant("fine and whole units, a head for each modality, all votes combined"),
    "gauge_plus-joint-heads": PlusVariant("with heads that always train the encoders", heads="joint"),
    "gauge_plus-detached-heads": PlusVariant("with heads that do not train the encoders", heads="detached"),
    "gauge_plus-no-heads": PlusVariant("without heads, the network alone", heads="none"),
    HEADS_ONLY: PlusVariant("the heads of GAUGE+ alone, combined anew"),
    "gauge_plus-swaps": PlusVariant("trained with swapped evidence", corrupts=True),
    "gauge_plus-trust": PlusVariant("the same, gated by the learned trust in each unit", gating="trust", corrupts=True),
    PRETRAINED: PlusVariant(
        "started from self-supervised training on all training samples, with and without labels", pretrained=True
    ),
    "gauge_plus-pretrained-no-heads": PlusVariant(
        "the same without heads, the network alone", pretrained=True, heads="none"
    ),
    "gauge_plus-student": PlusVariant(
        "distilled from gauge_plus-pretrained on all training samples", pretrained=True, student=True
    ),
}


def stage(benchmark: Benchmark, variant: str, seed: int) -> Stage:
    chosen, name = VARIANTS[variant], f"{variant}-s{seed}"
    settings = seeded_with(benchmark.settings.plus, seed)
    if variant == HEADS_ONLY:
        trained = (stage(benchmark, "gauge_plus", seed),)
        return Stage(name, heads_alone, {}, settings.model_copy(update={"epochs": 0}), trained)
    if chosen.corrupts and not settings.corrupt:
        settings = settings.model_copy(update={"corrupt": Corruption(swapped=0.2)})
    arguments: dict[str, Any] = {
        "subsets_per_step": benchmark.subsets_per_step,
        "gating": chosen.gating,
        "heads": chosen.heads,
        "corrupt": settings.corrupt,
    }
    needs: tuple[Stage, ...] = ()
    make: Callable[..., GaugePlus] = make_gauge_plus
    if chosen.pretrained:
        needs, make = (pretraining_stage(benchmark, seed),), make_from_pretrained
    else:
        arguments["parts"] = plus_parts(benchmark)
    if not chosen.student:
        return Stage(name, make, arguments, settings, needs)
    teachers = options_of(benchmark, "gauge_plus")["teachers"]
    teacher = ensemble_stage(stage(benchmark, PRETRAINED, seed), teachers)
    settings = seeded_with(benchmark.settings.student, seed)
    return Stage(name, make_distilled, arguments, settings, (teacher, *needs), split="imputer")


def make_gauge_plus(train: Dataset, *, parts: Parts, **options: Any) -> GaugePlus:
    return GaugePlus(*parts.unit_network(), **options)


def make_from_pretrained(train: Dataset, pretrained: Pretrainer, **options: Any) -> GaugePlus:
    return GaugePlus(*pretrained.cpu().release(), **options)


def make_distilled(train: Dataset, teacher: Method, pretrained: Pretrainer, **options: Any) -> Distilled:
    return distilled(make_from_pretrained(train, pretrained, **options), train, teacher)


PLAN = Plan(VARIANTS, stage, options={"dim": None, "teachers": 1})
