"""One file for each benchmark: a `Benchmark` value, which names its encoders and its imputer."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, model_validator

from gauge.data import Dataset
from gauge.masks import Protocol
from gauge.registry import IMPUTERS, pick
from gauge.training.metrics import ACCURACY, Metric
from gauge.training.settings import Settings, TrainSettings


@dataclass(frozen=True)
class Modality:
    """What one modality looks like, and the encoder that reads it; `vector` is the encoder for methods that want it as one
    vector, with the same options unless it has `vector_options`; the same encoder where there is no other. `columns` names
    its units, where they are columns of a table."""

    shape: tuple[int, ...]
    encoder: str
    options: Mapping[str, Any] = field(default_factory=dict)
    vector: str | None = None
    vector_options: Mapping[str, Any] | None = None
    columns: tuple[str, ...] = ()


# kept as they end: together they are perfect on complete samples long before each is as good as it gets
EXPERTS = TrainSettings(epochs=10, schedule="cosine", patience=None, precision="tf32")


STAGES = ("imputer", "backbone", "finetune", "experts", "baseline", "pretrain")  # the last two after those they follow


class StageOverride(TrainSettings):
    """Some settings of a stage; only those that were given count. Seed and metric are decided by the experiment and the
    benchmark."""

    epochs: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _without_seed_and_metric(self) -> "StageOverride":
        fixed = {"seed", "metric"} & self.model_fields_set
        if fixed:
            raise ValueError(
                f"{', '.join(sorted(fixed))} cannot be overridden; the experiment and the benchmark decide"
            )
        return self

    def applied_to(self, settings: TrainSettings) -> TrainSettings:
        return settings.model_copy(update={name: getattr(self, name) for name in self.model_fields_set})


class ImputerOverride(Settings):
    """Options of the benchmark's imputer, or, with `name`, of another one."""

    model_config = ConfigDict(extra="allow")

    name: str | None = None

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class Overrides(Settings):
    """What a configuration file may change of a benchmark: settings of its stages, options of its imputer and of the
    encoders of its modalities, and how many backbones fine-tuning starts from."""

    imputer: StageOverride | None = None
    pretrain: StageOverride | None = None
    backbone: StageOverride | None = None
    baseline: StageOverride | None = None
    experts: StageOverride | None = None
    finetune: StageOverride | None = None
    imputer_options: ImputerOverride | None = None
    modality_options: dict[str, dict[str, Any]] = Field(default_factory=dict)
    backbones: int | None = Field(default=None, ge=1)

    @property
    def stages(self) -> dict[str, StageOverride]:
        return {name: getattr(self, name) for name in STAGES if getattr(self, name) is not None}

    def with_epochs(self, epochs: int) -> "Overrides":
        """The same with every stage trained for so many epochs."""
        changed = {name: StageOverride.model_validate({**self._given(name), "epochs": epochs}) for name in STAGES}
        return self.model_copy(update=changed)

    def _given(self, stage: str) -> dict[str, Any]:
        override = getattr(self, stage)
        return {} if override is None else override.model_dump(mode="json", exclude_unset=True)


@dataclass(frozen=True)
class StageSettings:
    """How each stage of a benchmark trains. `baseline`, methods with a network of their own, is as the backbone unless it
    has settings of its own; `pretrain`, what some of them start from, as the imputer; `experts` are the classifiers of
    single modalities."""

    imputer: TrainSettings
    backbone: TrainSettings
    finetune: TrainSettings
    experts: TrainSettings = EXPERTS
    own_baseline: TrainSettings | None = None
    own_pretrain: TrainSettings | None = None

    @property
    def baseline(self) -> TrainSettings:
        return self.own_baseline or self.backbone

    @property
    def pretrain(self) -> TrainSettings:
        return self.own_pretrain or self.imputer

    def overridden(self, overrides: Mapping[str, StageOverride]) -> "StageSettings":
        """Overrides of the backbone also reach a baseline that has no settings of its own."""
        changed = self
        for name in STAGES:
            if name in overrides:
                target = f"own_{name}" if name in ("baseline", "pretrain") else name
                changed = replace(changed, **{target: overrides[name].applied_to(getattr(changed, name))})
        return changed

    def with_metric(self, metric: Metric) -> "StageSettings":
        given = {name: stage for name, stage in vars(self).items() if stage is not None}
        return replace(self, **{name: stage.model_copy(update={"metric": metric}) for name, stage in given.items()})


@dataclass(frozen=True)
class Benchmark:
    """Data, protocol and sizes of one comparison: all that distinguishes it from the next.

    `settings` holds how each stage trains. The image encoders of the classifiers of single modalities take
    `expert_options`. `vector_dim` is the width of a modality as one vector, `dim` where it is 0. `protocols` are the
    conditions it is evaluated under. Fine-tuning with seed s starts from backbone s mod `backbones`. `projection` is the
    width of the space in which the backbone learns class prototypes. `small_init` starts Linear and Embedding weights at
    N(0, 0.02²) instead of torch's default. Where one division into splits would decide too much there are several `folds`;
    seed s sees fold s mod `folds`.
    """

    name: str
    modalities: Mapping[str, Modality]
    num_classes: int
    dim: int
    heads: int
    depth: int
    subsets_per_step: int
    projection: int
    imputer: str
    imputer_options: Mapping[str, Any]
    protocols: tuple[Protocol, ...]
    settings: StageSettings
    read: Callable[..., Dataset]
    metric: Metric = ACCURACY
    small_init: bool = True
    backbones: int = 3
    expert_options: Mapping[str, Any] = field(default_factory=dict)
    vector_dim: int = 0
    folds: int = 1
    fold: int = 0

    def __post_init__(self) -> None:
        """One metric: what is reported also selects."""
        object.__setattr__(self, "settings", self.settings.with_metric(self.metric))

    def load(self, split: str, data: Path | None = None) -> Dataset:
        """The train, val or test split."""
        if split not in ("train", "val", "test"):
            raise ValueError(f"{self.name} has no split {split!r}; use train, val or test")
        return self.read(split, data) if self.folds == 1 else self.read(split, data, self.fold)

    def for_seed(self, seed: int) -> "Benchmark":
        """The benchmark on the fold of that seed."""
        return replace(self, fold=seed % self.folds)

    def with_overrides(self, overrides: Overrides) -> "Benchmark":
        """The benchmark with some of its settings and options changed."""
        modalities = dict(self.modalities)
        for name, changes in overrides.modality_options.items():
            before = pick(modalities, name, f"modality of {self.name}")
            modalities[name] = replace(before, options={**before.options, **changes})
        imputer, options = self.imputer, dict(self.imputer_options)
        if overrides.imputer_options is not None:
            imputer = overrides.imputer_options.name or self.imputer
            options = {**self._options_for(imputer), **overrides.imputer_options.options}
        return replace(
            self,
            settings=self.settings.overridden(overrides.stages),
            imputer=imputer,
            imputer_options=options,
            modalities=modalities,
            backbones=overrides.backbones or self.backbones,
        )

    def _options_for(self, imputer: str) -> dict[str, Any]:
        """The options of its own imputer; another one gets what describes the data, if it asks for it."""
        if imputer == self.imputer:
            return dict(self.imputer_options)
        asked = inspect.signature(IMPUTERS.get(imputer).of).parameters
        return {name: value for name, value in self.imputer_options.items() if name in {"cardinalities"} & set(asked)}
