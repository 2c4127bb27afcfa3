"""One file for each benchmark: a `Benchmark` value. It names encoders and imputer, so data never imports models."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from gauge import registry
from gauge.config import TrainSettings
from gauge.data import Dataset
from gauge.registry import pick


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


@dataclass(frozen=True)
class Benchmark:
    """Data, protocol and sizes of one comparison: all that distinguishes it from the next.

    `settings` holds how each stage trains: `imputer`, `backbone`, `finetune`; `baseline` (methods with a network of their
    own, as the backbone unless told otherwise), `pretrain` (what some of them start from, as the imputer), and `experts`,
    the classifiers of single modalities, whose encoder of images takes `expert_options`. `vector_dim` is the width of a
    modality as one vector, `dim` where it is 0. `protocols` are the conditions it is evaluated under.
    Fine-tuning with seed s starts from backbone s mod `backbones`. `projection` is the width of the space in which the
    backbone learns class prototypes. `small_init` starts Linear and Embedding weights at N(0, 0.02²) instead of torch's
    default. Where one division into splits would decide too much there are several `folds`; seed s sees fold s mod `folds`.
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
    protocols: tuple[str, ...]
    settings: Mapping[str, TrainSettings]
    read: Callable[..., Dataset]
    metric: Literal["accuracy", "auc"] = "accuracy"
    small_init: bool = True
    backbones: int = 3
    expert_options: Mapping[str, Any] = field(default_factory=dict)
    vector_dim: int = 0
    folds: int = 1
    fold: int = 0

    def __post_init__(self) -> None:
        """One metric: what is reported also selects."""
        others = {"baseline": self.settings["backbone"], "pretrain": self.settings["imputer"], "experts": EXPERTS}
        settings = others | dict(self.settings)
        settings = {name: stage.model_copy(update={"metric": self.metric}) for name, stage in settings.items()}
        object.__setattr__(self, "settings", settings)

    def load(self, split: str, data: Path | None = None) -> Dataset:
        """The train, val or test split."""
        if split not in ("train", "val", "test"):
            raise ValueError(f"{self.name} has no split {split!r}; use train, val or test")
        return self.read(split, data) if self.folds == 1 else self.read(split, data, self.fold)

    def for_seed(self, seed: int) -> "Benchmark":
        """The benchmark on the fold of that seed."""
        return replace(self, fold=seed % self.folds)

    def _options_for(self, imputer: str) -> dict[str, Any]:
        """The options of its own imputer; another one gets what describes the data, if it asks for it."""
        if imputer == self.imputer:
            return dict(self.imputer_options)
        asked = inspect.signature(registry.get("imputers", imputer).of).parameters
        return {name: value for name, value in self.imputer_options.items() if name in {"cardinalities"} & set(asked)}

    def with_settings(self, overrides: Mapping[str, Mapping[str, object]]) -> "Benchmark":
        """The benchmark with some settings of its stages changed, or options of its imputer (`imputer_options`, with `name`
        another one) and of the encoders of its modalities (`modality_options`: a mapping for each)."""
        settings, modalities = dict(self.settings), dict(self.modalities)
        options = dict(overrides.get("imputer_options", {}))
        imputer = str(options.pop("name", self.imputer))
        options = {**self._options_for(imputer), **options}
        for name, changes in overrides.get("modality_options", {}).items():
            before = pick(modalities, name, f"modality of {self.name}")
            if not isinstance(changes, Mapping):
                raise ValueError(
                    f"modality_options of {name!r}: {changes!r} must be a mapping, for example {{weights: FILE}}"
                )
            modalities[name] = replace(before, options={**before.options, **changes})
        for stage, changes in overrides.items():
            if stage in ("imputer_options", "modality_options"):
                continue
            trained = pick(settings, stage, f"stage of {self.name}")
            if not isinstance(changes, Mapping) or {"seed", "metric"} & set(changes):
                raise ValueError(
                    f"stage {stage!r}: {changes!r} must be a mapping of settings without seed and metric, which the "
                    "experiment and the benchmark decide, for example {epochs: 20}"
                )
            settings[stage] = TrainSettings.parse(trained.model_dump() | dict(changes), f"stage {stage!r}")
        return replace(self, settings=settings, imputer=imputer, imputer_options=options, modalities=modalities)
