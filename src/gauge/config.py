"""Typed settings: YAML in and out, unknown keys are errors."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from gauge.masks import parse_protocol


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file."""
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"{path} cannot be read as YAML: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold a mapping of settings, not {type(content).__name__}")
    return content


class Settings(BaseModel):
    """Immutable, strict about names, and told apart by value."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def parse(cls, content: Mapping[str, Any], where: str) -> Self:
        """The settings in a mapping; every mistake is reported with its place."""
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            mistakes = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            raise ValueError(f"{where}: {mistakes} (settings: {', '.join(cls.model_fields)})") from error

    @classmethod
    def load(cls, path: Path) -> Self:
        return cls.parse(read_yaml(path), str(path))

    def save(self, path: Path) -> None:
        Path(path).write_text(yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False), encoding="utf-8")


Augment = Literal["", "cars", "hearts", "lesions", "leaves", "cars-tip", "hearts-tip", "lesions-tip", "leaves-tip"]


class TrainSettings(Settings):
    """How one stage trains. `masks` is the protocol of the training batches; `selection` lists the protocols whose mean
    validation metric chooses the checkpoint (none: the last epoch is kept). `precision` matters on a GPU: tf32 rounds the
    factors of matrix products, bf16 runs the whole forward pass in half precision. `augment` names how training samples are
    changed at random (`AUGMENTATIONS`)."""

    epochs: int = Field(ge=0)
    batch_size: int = Field(default=256, ge=1)
    learning_rate: float = Field(default=1e-3, gt=0)
    schedule: Literal["constant", "cosine"] = "constant"
    patience: int | None = Field(default=20, ge=1)
    masks: str = "complete"
    augment: Augment = ""
    selection: tuple[str, ...] = ()
    metric: Literal["accuracy", "auc"] = "accuracy"
    seed: int = 0
    precision: Literal["float32", "tf32", "bf16"] = "float32"
    deterministic: bool = False

    @field_validator("masks", "selection")
    @classmethod
    def _known_protocols(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for text in [value] if isinstance(value, str) else value:
            parse_protocol(text)
        return value


class Experiment(Settings):
    """One row of a table: a method's variant on a benchmark with one seed. `overrides` changes settings of its stages,
    for example {"finetune": {"epochs": 20}}."""

    benchmark: str
    method: str = "gauge"
    variant: str = "gauge"
    seed: int = 0
    data: str | None = None
    overrides: dict[str, dict[str, object]] = {}

    @property
    def row(self) -> str:
        """The row of a table that it belongs to: `gauge:v2`, or the method alone where the variant is the method itself."""
        return row_name(self.method, self.variant)


def row_name(method: str, variant: str) -> str:
    return method if variant == method else f"{method}:{variant}"
