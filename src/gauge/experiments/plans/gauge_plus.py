"""Plan of GAUGE+ and of its ablations, which lack one of its parts.

GAUGE+ is trained from scratch in one stage. What learns from every row, labelled or not, has more: encoders and network are
pre-trained, a first GAUGE+ starts from them and teaches a second one, and both answer with classifiers of the cells.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gauge.data import Dataset
from gauge.experiments.benchmarks import Benchmark
from gauge.experiments.parts import Parts, imputer_stage, seeded_with, table_columns, with_swaps
from gauge.experiments.plans import Plan, last_stage, options_of
from gauge.experiments.plans._distilled import distilled
from gauge.experiments.plans._ensemble import ensemble_stage
from gauge.experiments.plans._pretrained import pretraining_stage
from gauge.experiments.plans._trunks import plus_parts
from gauge.methods._distilled import Distilled
from gauge.methods._stacking import Stacking
from gauge.methods.gauge_plus import GaugePlus
from gauge.methods.late_fusion import WeightedVote
from gauge.model.gauge import UNGATED, Gating
from gauge.training.stages import Stage
from gauge.types import Imputer, Method, Pretrainer

__all__ = ["PLAN", "PlusVariant"]


@dataclass(frozen=True)
class PlusVariant:
    """One row of a table: GAUGE+ itself, with gates, or without one of its parts. `answers` is what makes the row of a
    trained GAUGE+ that answers with some of its parts. A row that is `pretrained` starts from self-supervised training,
    `without` one term of its loss."""

    note: str
    gating: Gating | Literal["trust"] = UNGATED
    whole: bool = True
    heads: Literal["validated", "joint", "detached", "none"] = "validated"
    answers: Callable[[Dataset, GaugePlus], Method] | None = None
    deep: bool = True
    corrupts: bool = False
    imputes: bool = False
    pretrained: bool = False
    without: Literal["", "masked", "contrast", "matching"] = ""
    teacher: Literal["", "gauge_plus", "gauge_plus-pretrained", "late_fusion"] = ""
    stacked: bool = False


def network_alone(train: Dataset, trained: GaugePlus) -> GaugePlus:
    """The combination is learned after training, so GAUGE+ without it is the same trained network."""
    trained.combination = None
    return trained


def heads_alone(train: Dataset, trained: GaugePlus) -> WeightedVote:
    """The votes of the trained heads, whose weights are learned anew."""
    assert trained.heads is not None
    return WeightedVote(trained.encoder, trained.heads, corrupt=trained.corrupt)


PRETRAINED, STUDENT = "gauge_plus-pretrained", "gauge_plus-student"
CELLS = ("logistic_cells", "boosted_cells")
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
    "gauge_plus-trust": PlusVariant("the same, gated by the learned trust in each unit", gating="trust", corrupts=True),
    "gauge_plus-trust-imputed": PlusVariant(
        "on imputed inputs, gated by the learned trust in each unit", gating="trust", imputes=True
    ),
    "gauge_plus-pretrained": PlusVariant(
        "started from self-supervised training on all training samples, with and without labels", pretrained=True
    ),
    "gauge_plus-pretrained-no-heads": PlusVariant(
        "the same without heads, the network alone", pretrained=True, heads="none"
    ),
    "gauge_plus-pretrained-no-masked": PlusVariant(
        "the same, nothing is hidden and reconstructed in pre-training", pretrained=True, without="masked"
    ),
    "gauge_plus-pretrained-no-contrast": PlusVariant(
        "the same, modalities do not look for each other in pre-training", pretrained=True, without="contrast"
    ),
    "gauge_plus-pretrained-no-matching": PlusVariant(
        "the same, modalities of other samples are not looked for in pre-training", pretrained=True, without="matching"
    ),
    "gauge_plus-student": PlusVariant(
        "distilled from gauge_plus-pretrained on all training samples", pretrained=True, teacher="gauge_plus-pretrained"
    ),
    "gauge_plus-every-row": PlusVariant(
        "pre-trained teacher, its student and classifiers of the cells, combined as far as validation says so",
        stacked=True,
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
    chosen, name = VARIANTS[variant], f"{variant}-s{seed}"
    settings = seeded_with(benchmark.settings.plus, seed)
    if chosen.answers is not None:
        trained = (stage(benchmark, "gauge_plus", seed),)
        return Stage(name, chosen.answers, {}, settings.model_copy(update={"epochs": 0}), trained)
    if chosen.stacked:
        return stacked_stage(benchmark, name, seed)
    if chosen.corrupts:
        settings = with_swaps(settings)
    arguments: dict[str, Any] = {
        "subsets_per_step": benchmark.subsets_per_step,
        "gating": chosen.gating,
        "heads": chosen.heads,
        "corrupt": settings.corrupt,
    }
    needs: tuple[Stage, ...] = ()
    make: Callable[..., GaugePlus] = make_gauge_plus
    if chosen.pretrained:
        needs, make = (pretraining_stage(benchmark, seed, chosen.without),), make_from_pretrained
    else:
        arguments["parts"] = plus_parts(benchmark, whole=chosen.whole, deep=chosen.deep)
    if chosen.imputes:
        masks = benchmark.settings.finetune.masks  # imputed inputs are encoded once, under one mask for each sample
        settings, needs = settings.model_copy(update={"masks": masks}), (imputer_stage(benchmark),)
    if not chosen.teacher:
        return Stage(name, make, arguments, settings, needs)
    teacher = teacher_stage(benchmark, chosen.teacher, seed)
    settings = seeded_with(benchmark.settings.student, seed)
    return Stage(name, make_distilled, arguments | {"make": make}, settings, (teacher, *needs), split="imputer")


def teacher_stage(benchmark: Benchmark, row: str, seed: int) -> Stage:
    """Several trainings of a row and, beside what is pre-trained, classifiers of the cells wherever there is a table."""
    together = several(benchmark, row, seed)
    if row != PRETRAINED or not table_columns(benchmark):
        return together
    return stack(benchmark, f"teachers-s{seed}", {row: together, **cell_stages(benchmark, seed)}, seed)


def stacked_stage(benchmark: Benchmark, name: str, seed: int) -> Stage:
    """The student is left out where all training samples are labelled: nobody has to teach it."""
    members = {PRETRAINED: several(benchmark, PRETRAINED, seed)}
    if benchmark.imputer_reads_more:
        members[STUDENT] = stage(benchmark, STUDENT, seed)
    return stack(benchmark, name, {**members, **cell_stages(benchmark, seed)}, seed)


def several(benchmark: Benchmark, row: str, seed: int) -> Stage:
    """As many trainings of a row as there are to be teachers."""
    method = "late_fusion" if row == "late_fusion" else "gauge_plus"
    return ensemble_stage(last_stage(benchmark, method, row, seed), options_of(benchmark, "gauge_plus")["teachers"])


def cell_stages(benchmark: Benchmark, seed: int) -> dict[str, Stage]:
    return {row: last_stage(benchmark, row, row, seed) for row in CELLS} if table_columns(benchmark) else {}


def stack(benchmark: Benchmark, name: str, members: Mapping[str, Stage], seed: int) -> Stage:
    settings = seeded_with(benchmark.settings.plus, seed).model_copy(update={"epochs": 0})
    sizes = {"modalities": len(benchmark.modalities), "num_classes": benchmark.num_classes}
    return Stage(name, make_stacking, {"names": tuple(members), **sizes}, settings, tuple(members.values()))


def make_gauge_plus(train: Dataset, imputer: Imputer | None = None, *, parts: Parts, **options: Any) -> GaugePlus:
    return GaugePlus(*parts.unit_network(), imputer, **options)


def make_from_pretrained(train: Dataset, pretrained: Pretrainer, **options: Any) -> GaugePlus:
    return GaugePlus(*pretrained.cpu().release(), **options)


def make_distilled(
    train: Dataset, teacher: Method, *needs: Any, make: Callable[..., GaugePlus], **options: Any
) -> Distilled:
    return distilled(make(train, *needs, **options), train, teacher)


def make_stacking(train: Dataset, *members: Method, names: Sequence[str], **sizes: int) -> Stacking:
    return Stacking(dict(zip(names, members, strict=True)), **sizes)


PLAN = Plan(VARIANTS, stage, options={"dim": None, "teachers": 1})
