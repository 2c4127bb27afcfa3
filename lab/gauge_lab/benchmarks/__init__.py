"""One file for each benchmark: a `Benchmark` value, which names its encoders and its imputer."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from jaxtyping import Bool
from pydantic import ConfigDict, Field, model_validator
from torch import Tensor

from gauge.choices import pick
from gauge.data import Dataset
from gauge.masks import Protocol
from gauge.registry import ENCODERS, IMPUTERS, Kind
from gauge.training.metrics import ACCURACY, Metric
from gauge.training.settings import Settings, TrainSettings
from gauge_lab import registry
from gauge_lab.benchmarks.readers.labels import labelled_rows
from gauge_lab.incomplete import Pattern, incomplete


@dataclass(frozen=True)
class Modality:
    """The shape of one modality, and its encoder. Methods that need a single vector use the encoder `vector`, if given,
    with `vector_options` or the same options, and otherwise project the units to one vector. `columns` are the names of
    units that are columns of a table."""

    shape: tuple[int, ...]
    encoder: str
    options: Mapping[str, Any] = field(default_factory=dict)
    vector: str | None = None
    vector_options: Mapping[str, Any] | None = None
    columns: tuple[str, ...] = ()


# without selection: together they are perfect on complete samples long before each one is at its best
EXPERTS = TrainSettings(epochs=10, schedule="cosine", patience=None, precision="tf32")

OWN = ("baseline", "pretrain", "plus", "student")  # stages that follow others unless they have settings of their own
STAGES = ("imputer", "backbone", "finetune", "experts", *OWN)


class StageOverride(TrainSettings):
    """Some settings of a stage; only those that are given apply. The seed belongs to the experiment and the metric to the
    benchmark, so they cannot be overridden."""

    epochs: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _without_seed_and_metric(self) -> "StageOverride":
        fixed = ", ".join(sorted({"seed", "metric"} & self.model_fields_set))
        if fixed:
            raise ValueError(f"{fixed} cannot be overridden; the experiment and the benchmark decide")
        return self

    def applied_to(self, settings: TrainSettings) -> TrainSettings:
        return settings.model_copy(update={name: getattr(self, name) for name in self.model_fields_set})


class ImputerOverride(Settings):
    """Options of the benchmark's imputer, or, with `name`, of another one."""

    model_config = ConfigDict(extra="allow")

    name: str | None = None


class Incomplete(Settings):
    """The share of the values that training and validation samples miss, and whether class and other values decide which
    (see `gauge_lab.incomplete`)."""

    rate: float = Field(gt=0, lt=1)
    pattern: Pattern = "random"


class Overrides(Settings):
    """What a configuration file can change: settings of stages, options of the imputer and of the encoders of modalities,
    the number of backbones and imputers, and which rows are used.

    `labels` keeps that many labelled training samples, drawn anew for each seed; the imputer still learns from all of them,
    which it reads without labels; with `label_groups` that many groups of samples that share a photo are labelled.
    `imputer_split: train` restricts it to the rows of the classifier. `folds: disjoint`
    gives a benchmark that can be divided in several ways test splits that do not overlap. `method_options` are options of
    plans, by method. `dim` is the width of the backbone and of all methods that are built on it, `encoders` names other
    encoders of modalities. `incomplete` hides values of the training and validation samples, anew for each seed; every
    stage learns from the values that remain.
    """

    imputer: StageOverride | None = None
    pretrain: StageOverride | None = None
    backbone: StageOverride | None = None
    baseline: StageOverride | None = None
    experts: StageOverride | None = None
    plus: StageOverride | None = None
    student: StageOverride | None = None
    finetune: StageOverride | None = None
    imputer_options: ImputerOverride | None = None
    modality_options: dict[str, dict[str, Any]] = Field(default_factory=dict)
    method_options: dict[str, dict[str, Any]] = Field(default_factory=dict)
    encoders: dict[str, str] = Field(default_factory=dict)
    dim: int | None = Field(default=None, ge=1)
    incomplete: Incomplete | None = None
    backbones: int | None = Field(default=None, ge=1)
    imputers: int | None = Field(default=None, ge=1)
    labels: int | None = Field(default=None, ge=1)
    label_groups: bool = False
    imputer_split: Literal["train"] | None = None
    folds: Literal["disjoint"] | None = None

    @property
    def stages(self) -> dict[str, StageOverride]:
        return {name: getattr(self, name) for name in STAGES if getattr(self, name) is not None}

    def with_epochs(self, epochs: int) -> "Overrides":
        stages = {name: {"epochs": epochs} for name in STAGES}
        for name, override in self.stages.items():
            stages[name] = override.model_dump(mode="json", exclude_unset=True) | stages[name]
        return self.model_copy(
            update={name: StageOverride.model_validate(settings) for name, settings in stages.items()}
        )


@dataclass(frozen=True)
class StageSettings:
    """How each stage of a benchmark trains. `baseline`, for methods with their own network, defaults to the settings of the
    backbone, and `pretrain`, for what some of them start from, to those of the imputer. `experts` are the classifiers of
    single modalities. `plus`, for GAUGE+, defaults to the settings of the backbone with a cosine schedule and without
    selection, and `student`, for a GAUGE+ that another one teaches, to those of `plus`."""

    imputer: TrainSettings
    backbone: TrainSettings
    finetune: TrainSettings
    experts: TrainSettings = EXPERTS
    own_baseline: TrainSettings | None = None
    own_pretrain: TrainSettings | None = None
    own_plus: TrainSettings | None = None
    own_student: TrainSettings | None = None

    @property
    def baseline(self) -> TrainSettings:
        return self.own_baseline or self.backbone

    @property
    def pretrain(self) -> TrainSettings:
        return self.own_pretrain or self.imputer

    @property
    def plus(self) -> TrainSettings:
        last: dict[str, Any] = {"schedule": "cosine", "patience": None, "selection": ()}
        return self.own_plus or self.backbone.model_copy(update=last)

    @property
    def student(self) -> TrainSettings:
        return self.own_student or self.plus

    def overridden(self, overrides: Mapping[str, StageOverride]) -> "StageSettings":
        """Overrides of the backbone also reach a baseline that has no settings of its own."""
        changed = self
        for name in STAGES:
            if name in overrides:
                target = f"own_{name}" if name in OWN else name
                changed = replace(changed, **{target: overrides[name].applied_to(getattr(changed, name))})
        return changed

    def with_metric(self, metric: Metric) -> "StageSettings":
        stages = {name: stage for name, stage in vars(self).items() if stage is not None}
        return replace(self, **{name: stage.model_copy(update={"metric": metric}) for name, stage in stages.items()})


@dataclass(frozen=True)
class Benchmark:
    """Data, sizes, training settings and protocols of one comparison.

    `read(split, data)` reads a split; `files` says what the folder `data` has to hold, where one is needed. `vector_dim` is
    the width of a modality as one vector, by default `dim`; `method_options` are options of plans, by method. Fine-tuning
    with seed s starts from backbone s mod `backbones` and imputer s mod `imputers`, on the division into splits s mod
    `folds`; their test splits overlap unless `disjoint`. A benchmark with an official division has one fold, which `folds:
    disjoint` replaces by `disjoint_folds` of them. `small_init` starts Linear and Embedding weights at N(0, 0.02²), as
    published, instead of torch's default, which learns sooner.

    The imputer learns from `imputer_split`: "all" training rows, also those without labels; those of the classifier
    ("train"); or, with "own", a split `imputer` that `read` has. `labels` is the number of labelled training rows, drawn
    with the seed `draw`; None keeps all. `incomplete` is what training and validation samples miss, also drawn with `draw`.
    """

    name: str
    modalities: Mapping[str, Modality]
    num_classes: int
    dim: int
    heads: int
    imputer: str
    imputer_options: Mapping[str, Any]
    protocols: tuple[Protocol, ...]
    settings: StageSettings
    read: Callable[..., Dataset]
    files: str = ""
    depth: int = 2
    subsets_per_step: int = 2
    metric: Metric = ACCURACY
    small_init: bool = False
    backbones: int = 3
    imputers: int = 1
    method_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    vector_dim: int = 0
    folds: int = 1
    fold: int = 0
    disjoint: bool = False
    disjoint_folds: int = 1
    imputer_split: Literal["all", "train", "own"] = "all"
    labels: int | None = None
    label_groups: bool = False
    draw: int = 0
    incomplete: Incomplete | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", self.settings.with_metric(self.metric))  # what is reported also selects

    def load(self, split: str, data: Path | None = None) -> Dataset:
        """The train, val or test split, or what the imputer learns from, always the same for the same files in `data`."""
        if split not in ("train", "val", "test", "imputer"):
            raise ValueError(f"{self.name} has no split {split!r}; use train, val, test or imputer")
        if data is None and self.files:
            raise ValueError(f"{self.name} needs data; give --data DIR with {self.files}")
        if split == "imputer":
            if not self.imputer_reads_more:
                return self.load("train", data)
            whole = self._read("imputer" if self.imputer_split == "own" else "train", data)
            return whole if self.labels is None else whole.without_labels(~self._labelled(whole))
        whole = self._read(split, data)
        if split != "train" or self.labels is None:
            return whole
        return whole.take(self._labelled(whole).nonzero()[:, 0])

    def _labelled(self, whole: Dataset) -> Bool[Tensor, "rows"]:
        """Which rows keep their labels: those drawn among the rows, or all rows of the groups drawn among the groups."""
        assert self.labels is not None
        if self.label_groups and whole.groups is None:
            raise ValueError(f"label_groups: {self.name} has no groups of samples; leave it out")
        groups = whole.groups if self.label_groups else None
        return labelled_rows(whole.labels, self.labels, groups, seed=self.draw)

    def _read(self, split: str, data: Path | None) -> Dataset:
        more = (self.fold,) if self.folds > 1 else ()
        whole = self.read(split, data, *more, **({"disjoint": True} if self.disjoint else {}))
        if self.incomplete is None or split == "test":
            return whole
        return incomplete(whole, self.incomplete.rate, self.incomplete.pattern, seed=self.draw)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: modality.shape for name, modality in self.modalities.items()}

    @property
    def imputer_reads_more(self) -> bool:
        """Whether the imputer learns from other rows than the classifier."""
        return self.imputer_split == "own" or (self.imputer_split == "all" and self.labels is not None)

    def division(self, split: str) -> str:
        """Which rows a split has, in words that are equal for two seeds if the rows are."""
        fold = f"{'disjoint ' if self.disjoint else ''}fold {self.fold}"
        drawn = split == "train" or (split == "imputer" and not self.imputer_reads_more)
        kind = "labelled groups" if self.label_groups else "labels"
        rows = f"{fold}, {self.labels} {kind} of draw {self.draw}" if drawn and self.labels else fold
        if self.incomplete is None or split == "test":
            return rows
        return f"{rows}, {self.incomplete.rate:g} missing ({self.incomplete.pattern}) of draw {self.draw}"

    def for_seed(self, seed: int) -> "Benchmark":
        """The benchmark on the fold, with the imputer and with the labelled samples of that seed."""
        imputer = self.settings.imputer.model_copy(update={"seed": seed % self.imputers})
        settings = replace(self.settings, imputer=imputer)
        return replace(
            self, fold=seed % self.folds, draw=seed if self.labels or self.incomplete else 0, settings=settings
        )

    def with_overrides(self, overrides: Overrides) -> "Benchmark":
        """The benchmark with some of its settings and options changed."""
        modalities = dict(self.modalities)
        for name, encoder in overrides.encoders.items():
            ENCODERS.get(encoder)
            before = pick(modalities, name, f"modality of {self.name}")
            modalities[name] = replace(before, encoder=encoder, options={})  # the options are those of another encoder
        for name, changes in overrides.modality_options.items():
            before = pick(modalities, name, f"modality of {self.name}")
            modalities[name] = replace(before, options={**before.options, **changes})
        folds = self.folds if overrides.folds is None or self.folds > 1 else self.disjoint_folds
        if overrides.folds and folds == 1:
            raise ValueError(
                f"folds: disjoint needs several divisions into splits, and {self.name} has one; leave it out"
            )
        if overrides.incomplete and (overrides.imputer_split or self.imputer_split) == "own":
            raise ValueError(
                f"the imputer of {self.name} learns from rows of its own, which would show what is missing; set "
                "imputer_split: train"
            )
        replaced = ("backbones", "imputers", "labels", "label_groups", "imputer_split", "dim", "incomplete")
        changed = replace(
            self,
            settings=self.settings.overridden(overrides.stages),
            modalities=modalities,
            **{name: getattr(overrides, name) or getattr(self, name) for name in replaced},
            folds=folds,
            disjoint=overrides.folds == "disjoint" or self.disjoint,
            method_options=dict(self.method_options)
            | {name: {**self.method_options.get(name, {}), **own} for name, own in overrides.method_options.items()},
        )
        if overrides.imputer_options is None:
            return changed
        imputer, options = overrides.imputer_options.name or self.imputer, dict(self.imputer_options)
        if imputer != self.imputer:  # only what describes the data, if the other imputer takes it
            accepted = {"cardinalities"} & inspect.signature(IMPUTERS.get(imputer).from_dataset).parameters.keys()
            options = {name: options[name] for name in accepted & options.keys()}
        options |= overrides.imputer_options.model_extra or {}
        return replace(changed, imputer=imputer, imputer_options=options)


BENCHMARKS: Kind[Benchmark] = registry.BENCHMARKS
