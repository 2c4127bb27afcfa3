"""Plan of late fusion: GAUGE+ without its network, classifiers that vote alike, and the paper's `unimodal`."""

from typing import Any

from gauge.data import Dataset
from gauge.masks import Corruption
from gauge.paper.units import UnitEncoder
from gauge.plus.heads import Heads
from gauge.plus.late_fusion import LateFusion, WeightedVote
from gauge.training.stages import Stage
from gauge.types import Imputer, Pretrainer
from gauge_lab.benchmarks import Benchmark
from gauge_lab.methods._distilled import Distilled
from gauge_lab.parts import Parts, imputer_stage, seeded_with
from gauge_lab.plans import Plan, Variant
from gauge_lab.plans._distilled import distilled
from gauge_lab.plans._pretrained import pretraining_stage
from gauge_lab.plans._trunks import voter_parts

__all__ = ["PLAN", "make_unimodal"]


def stage(benchmark: Benchmark, variant: str, seed: int) -> Stage:
    """The row `late_fusion` has the encoders, the width and the training of GAUGE+. The others see real values only, so they
    can also judge imputed ones."""
    settings, arguments = seeded_with(benchmark.settings.plus, seed), {"parts": Parts.from_benchmark(benchmark)}
    voters: dict[str, Any] = {"corrupt": settings.corrupt}
    if variant == "late_fusion":
        return Stage(f"weighted-vote-s{seed}", make_voters, voters | {"parts": voter_parts(benchmark)}, settings)
    if variant in ("pretrained", "student"):
        needs, voters = (pretraining_stage(benchmark, seed),), voters | {"num_classes": benchmark.num_classes}
        trained = Stage(f"pretrained-vote-s{seed}", make_from_pretrained, voters, settings, needs)
        if variant == "pretrained":
            return trained
        settings = seeded_with(benchmark.settings.student, seed)
        return Stage(f"student-vote-s{seed}", make_distilled, voters, settings, (trained, *needs), split="imputer")
    if variant == "unweighted":
        trained = stage(benchmark, "late_fusion", seed)
        return Stage(
            f"{variant}-vote-s{seed}", make_equal, {}, trained.settings.model_copy(update={"epochs": 0}), (trained,)
        )
    if variant == "equal-votes":  # the name of the stage decides its initial weights: it stays
        return Stage(f"late_fusion-s{seed}", make_experts, arguments, seeded_with(benchmark.settings.experts, seed))
    settings = seeded_with(benchmark.settings.baseline, seed)
    return Stage(f"{variant}-s{seed}", make_unimodal, arguments, settings, (imputer_stage(benchmark),))


def make_voters(train: Dataset, *, parts: Parts, corrupt: Corruption) -> WeightedVote:
    encoder = UnitEncoder({name: part.build(parts.dim) for name, part in parts.units.items()}, parts.dim)
    return WeightedVote(encoder, Heads(encoder, parts.dim, parts.num_classes), corrupt=corrupt)


def make_equal(train: Dataset, trained: WeightedVote) -> WeightedVote:
    return WeightedVote(trained.encoder, trained.heads, corrupt=trained.corrupt, weighs=False)


def make_from_pretrained(
    train: Dataset, pretrained: Pretrainer, *, num_classes: int, corrupt: Corruption
) -> WeightedVote:
    encoder, network = pretrained.cpu().release()
    return WeightedVote(encoder, Heads(encoder, network.head.in_features, num_classes), corrupt=corrupt)


def make_distilled(train: Dataset, teacher: WeightedVote, pretrained: Pretrainer, **options: Any) -> Distilled:
    return distilled(make_from_pretrained(train, pretrained, **options), train, teacher)


def make_experts(train: Dataset, *, parts: Parts) -> LateFusion:
    return LateFusion({name: part.build(parts.dim) for name, part in parts.experts.items()}, parts.num_classes)


def make_unimodal(train: Dataset, imputer: Imputer | None = None, *, parts: Parts) -> LateFusion:
    """A new linear classifier on the vector of each modality, for unimodal, QMF and PDF."""
    encoders = parts.vector_encoders(parts.vector_dim)
    return LateFusion(encoders, parts.num_classes, imputer, rectify=False)


PLAN = Plan(
    {
        "late_fusion": Variant(
            "GAUGE+ without its network: a classifier for each modality, calibrated and weighted votes"
        ),
        "unweighted": Variant("the same classifiers, equal votes"),
        "pretrained": Variant("late fusion, started from the same self-supervised training as GAUGE+"),
        "student": Variant("the same, distilled from itself on all training samples"),
        "equal-votes": Variant("classifiers of single modalities, trained on complete samples, equal votes"),
        "unimodal": Variant("a linear classifier on each modality's vector; all vote, on completed inputs"),
    },
    stage,
    rows=("late_fusion", "equal-votes", "unimodal"),
)
