"""Typed settings: YAML in and out, unknown keys are errors."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError, field_validator

from gauge.choices import did_you_mean, pick
from gauge.data.files import write_text
from gauge.masks import Complete, Corrupted, Corruption, Protocol, parse_corruption, parse_protocol
from gauge.training.metrics import ACCURACY, METRICS, Metric


def read_yaml(path: Path) -> dict[str, Any]:
    if not Path(path).exists():
        raise ValueError(f"there is no file {path}; give a YAML file of settings")
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"{path} cannot be read as YAML: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold a mapping of settings, not {type(content).__name__}")
    return content


class Settings(BaseModel):
    """Immutable settings that refuse unknown names."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    if not TYPE_CHECKING:  # type checkers know the settings by name

        def __init__(self, **content):
            try:
                super().__init__(**content)
            except ValidationError as error:
                raise ValueError("; ".join(_mistake(type(self), each) for each in error.errors())) from error

    @classmethod
    def parse(cls, content: Mapping[str, Any], where: str) -> Self:
        """The settings in a mapping; every mistake is reported with the name of the setting."""
        try:
            return cls(**{str(name): value for name, value in content.items()})
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the settings in a YAML file.

        Parameters
        ----------
        path
            Of a file that `save` wrote, or one written by hand: settings that it does not name have their defaults, and
            unknown names are errors.

        Returns
        -------
        Settings
            Of this class.

        Examples
        --------
        >>> TrainSettings(epochs=3).save("settings.yaml")
        >>> TrainSettings.load("settings.yaml").epochs
        3
        """
        return cls.parse(read_yaml(Path(path)), str(path))

    def save(self, path: str | Path) -> None:
        """Write the settings that were given to a YAML file; all others have their defaults when it is read.

        Parameters
        ----------
        path
            Of the file; one that exists is overwritten.

        Examples
        --------
        >>> TrainSettings(epochs=3).save("settings.yaml")
        """
        write_text(Path(path), yaml.safe_dump(self.model_dump(mode="json", exclude_unset=True), sort_keys=False))


def _mistake(settings: type[BaseModel], error: Mapping[str, Any]) -> str:
    """The rule, the value and, for a name that is not known, the nearest one."""
    name, message = ".".join(map(str, error["loc"])), error["msg"].removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        hint = did_you_mean(name, settings.model_fields) or f"known: {', '.join(settings.model_fields)}"
        return f"there is no setting {name!r}; {hint}"
    given = "" if error["type"] in ("missing", "value_error") else f", not {error['input']!r}"
    return f"{name}: {message}{given}"


def _text_form(parse: Callable[[str], object]) -> BeforeValidator:
    return BeforeValidator(lambda value: parse(value) if isinstance(value, str) else value)


ProtocolField = Annotated[Protocol, _text_form(parse_protocol), PlainSerializer(str)]
CorruptionField = Annotated[Corruption, _text_form(parse_corruption), PlainSerializer(str)]
MetricField = Annotated[Metric, _text_form(lambda name: pick(METRICS, name, "metric")), PlainSerializer(str)]
Augment = Literal[
    "", "cars", "hearts", "lesions", "leaves", "faces", "digits", "cars-tip", "hearts-tip", "lesions-tip", "leaves-tip"
]


class TrainSettings(Settings):
    """How to train. Settings do not change; `settings.model_copy(update={"epochs": 5})` makes others.

    NOTE[PAPER] finetune-patience: the paper does not say whether fine-tuning ends early; here it does, after `patience`
    epochs without a better validation score.

    Parameters
    ----------
    epochs
        How often all samples are seen, at most.
    batch_size
        Samples in a step.
    learning_rate
        That of AdamW.
    gate_rate
        Multiplies the learning rate of gates: τ and ρ are two numbers that move by about the rate in a step.
    warm_up
        The share of all steps in which the rate rises linearly to that of the schedule.
    weight_decay
        That of AdamW, for weights with two or more dimensions.
    schedule
        "constant", or "cosine", which falls to zero in the last epoch.
    patience
        Training ends after so many epochs without a better validation score, if epochs are selected; None never ends it.
    masks
        What is hidden in training batches: a protocol such as "any-subset" or "eta=0.5".
    corrupt
        What is wrong in training batches, for example "swapped=0.2".
    augment
        How images are changed at random: one of `gauge.data.augmentation.AUGMENTATIONS`.
    selection
        The protocols whose mean validation metric chooses the best epoch; without any, the last epoch is kept.
    metric
        What is better on validation samples: "accuracy", "auc" ...
    seed
        Of all random draws.
    precision
        On a GPU "tf32" rounds the factors of matrix products, "bf16" runs the forward pass in half precision.
    deterministic
        Whether only operations are used that give the same bits every time.

    Examples
    --------
    >>> settings = TrainSettings(epochs=20, learning_rate=3e-3, selection=("complete", "any-subset"))
    >>> settings.batch_size, settings.schedule
    (256, 'constant')
    """

    epochs: int = Field(ge=0)
    batch_size: int = Field(default=256, ge=1)
    learning_rate: float = Field(default=1e-3, gt=0)
    gate_rate: float = Field(default=1.0, gt=0)
    warm_up: float = Field(default=0.0, ge=0, lt=1)
    weight_decay: float = Field(default=0.0, ge=0)
    schedule: Literal["constant", "cosine"] = "constant"
    patience: int | None = Field(default=20, ge=1)
    masks: ProtocolField = Complete()
    corrupt: CorruptionField = Corruption()
    augment: Augment = ""
    selection: tuple[ProtocolField, ...] = ()
    metric: MetricField = ACCURACY
    seed: int = 0
    precision: Literal["float32", "tf32", "bf16"] = "float32"
    deterministic: bool = False

    @field_validator("masks")
    @classmethod
    def _only_masks(cls, masks: Protocol) -> Protocol:
        if isinstance(masks, Corrupted):
            raise ValueError(f"masks say what is missing, not {masks.corruption}; set corrupt: {masks.corruption}")
        return masks
