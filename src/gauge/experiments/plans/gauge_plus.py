"""Plan of GAUGE+, trained from scratch in one stage, and of what is left when one of its parts is taken away."""

from dataclasses import dataclass, replace
from typing import Any

import torch

from gauge.data import Dataset
from gauge.experiments.benchmarks import Benchmark, Modality
from gauge.experiments.parts import EncoderPart, Parts, imputer_stage, seeded_with, with_swaps
from gauge.experiments.plans import Plan, options_of
from gauge.masks import Complete
from gauge.methods._distilled import Distilled
from gauge.methods.gauge_plus import GaugePlus
from gauge.model.encoders._with_whole import WithWhole
from gauge.model.encoders.deep_grid import DeepGrid
from gauge.model.encoders.flat_table import FlatTable
from gauge.model.gauge import UNGATED, Gating
from gauge.registry import ENCODERS
from gauge.training.inference import predict_split
from gauge.training.stages import Stage
from gauge.types import Encoder, Imputer

__all__ = ["PLAN", "PlusVariant"]


@dataclass(frozen=True)
class PlusVariant:
    """One row of a table: GAUGE+ itself, with gates, or without one of its parts."""

    note: str
    gating: Gating = UNGATED
    whole: bool = True
    heads: bool = True
    combines: bool = True
    deep: bool = True
    corrupts: bool = False
    imputes: bool = False
    distilled: bool = False


TRUST = Gating(granularity="trust")
VARIANTS = {
    "gauge_plus": PlusVariant("fine and whole units, a head for each modality, all answers combined"),
    "gauge_plus-gated": PlusVariant("the same with one gate per evidence unit", gating=Gating()),
    "gauge_plus-no-whole": PlusVariant("without whole units; heads read the mean of the fine ones", whole=False),
    "gauge_plus-no-heads": PlusVariant("without heads, the network alone", heads=False),
    "gauge_plus-no-combination": PlusVariant("the network of GAUGE+ alone answers", combines=False),
    "gauge_plus-swaps": PlusVariant("trained with swapped evidence", corrupts=True),
    "gauge_plus-trust": PlusVariant("the same, gated by the learned trust in each unit", gating=TRUST, corrupts=True),
    "gauge_plus-trust-imputed": PlusVariant(
        "on imputed inputs, gated by the learned trust in each unit", gating=TRUST, imputes=True
    ),
    "gauge_plus-informed": PlusVariant(
        "on imputed inputs, with gates that know what is imputed", gating=Gating(informed=True), imputes=True
    ),
    "gauge_plus-distilled": PlusVariant(
        "distilled from GAUGE+ on all training samples, with and without labels", distilled=True
    ),
    "gauge_plus-old-encoders": PlusVariant("with the encoders of the paper's backbone", deep=False),
}
RESNETS = ("resnet_grid", "resnet_vector")  # encoders of images that stay; `deep_grid` takes the place of all others
TABLES = ("cells", "columns", "tabular")  # whose whole unit `flat_table` makes


def stage(benchmark: Benchmark, variant: str, seed: int) -> Stage:
    chosen = VARIANTS[variant]
    units = {name: unit_part(modality, chosen) for name, modality in benchmark.modalities.items()}
    dim = options_of(benchmark, "gauge_plus")["dim"] or benchmark.dim
    arguments = {
        "parts": replace(Parts.from_benchmark(benchmark), units=units, dim=dim, small_init=False),
        "subsets_per_step": benchmark.subsets_per_step,
        "gating": chosen.gating,
        "heads": chosen.heads,
    }
    settings = seeded_with(benchmark.settings.plus, seed)
    if chosen.corrupts:
        settings = with_swaps(settings)
    arguments["corrupt"] = settings.corrupt
    needs: tuple[Stage, ...] = ()
    if not chosen.combines:
        trained = settings.model_copy(update={"epochs": 0})
        return Stage(f"{variant}-s{seed}", make_uncombined, {}, trained, (stage(benchmark, "gauge_plus", seed),))
    if chosen.imputes:
        masks = benchmark.settings.finetune.masks  # imputed inputs are encoded once, under one mask for each sample
        settings, needs = settings.model_copy(update={"masks": masks}), (imputer_stage(benchmark),)
    if chosen.distilled:
        settings, teacher = seeded_with(benchmark.settings.student, seed), stage(benchmark, "gauge_plus", seed)
        return Stage(f"{variant}-s{seed}", make_distilled, arguments, settings, (teacher,), split="imputer")
    return Stage(f"{variant}-s{seed}", make_gauge_plus, arguments, settings, needs)


def unit_part(modality: Modality, variant: PlusVariant) -> EncoderPart:
    """A modality's encoder, a ResNet or a deep grid for images, and its whole unit."""
    fine = EncoderPart(ENCODERS.get(modality.encoder), modality.shape, modality.options)
    if variant.deep and len(modality.shape) == 3 and modality.encoder not in RESNETS:
        channels = {name: value for name, value in modality.options.items() if name == "channels"}
        fine = EncoderPart(DeepGrid, modality.shape, channels)
    if not variant.whole:
        return fine
    whole = None
    if modality.encoder in TABLES:
        cells = {name: value for name, value in modality.options.items() if name == "cardinalities"}
        whole = EncoderPart(FlatTable, modality.shape, cells)
    return EncoderPart(fine_and_whole, modality.shape, {"fine": fine, "whole": whole})


def fine_and_whole(shape: tuple[int, ...], width: int, *, fine: EncoderPart, whole: EncoderPart | None) -> Encoder:
    """An encoder with a single unit reads all of the modality as it is."""
    encoder = fine.build(width)
    return encoder if encoder.units == 1 else WithWhole(encoder, None if whole is None else whole.build(width))


def make_gauge_plus(train: Dataset, imputer: Imputer | None = None, *, parts: Parts, **options: Any) -> GaugePlus:
    return GaugePlus(*parts.unit_network(), imputer, **options)


def make_uncombined(train: Dataset, trained: GaugePlus) -> GaugePlus:
    """The combination is learned after training, so GAUGE+ without it is the same trained network."""
    trained.combination = None
    return trained


def make_distilled(train: Dataset, teacher: GaugePlus, *, parts: Parts, **options: Any) -> Distilled:
    """The teacher answers once, from all that was observed of each sample."""
    answers = predict_split(teacher.to(train.device), train, Complete()).probabilities
    return Distilled(GaugePlus(*parts.unit_network(), **options), torch.from_numpy(answers))


PLAN = Plan(VARIANTS, stage, options={"dim": None})
