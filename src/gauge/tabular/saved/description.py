"""What `model.json` of a saved classifier holds: each field is written here once, for training, writing and reading."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import pandas as pd
from pydantic import ConfigDict, Field, TypeAdapter

from gauge.reports.evidence import Gain
from gauge.tabular.experts import Training
from gauge.tabular.saved.files import (
    MAX_CLASSES,
    MAX_COLUMNS,
    METADATA,
    STRICT,
    Classes,
    ClassWeights,
    Count,
    Share,
    bounded_bytes,
    check_files,
    checksum,
    stored,
    usable,
    validated,
)
from gauge.tabular.saved.prediction_sets import PredictionSets
from gauge.training.metrics import NORMAL_QUANTILE

FORMAT = "gauge-classifier-1"


@dataclass(frozen=True)
class LeaderboardRow:
    """The scores of one expert, or of all combined."""

    expert: str
    accuracy: float | None
    log_loss: float | None
    auc: float | None
    calibration_error: float | None
    weight: Share


def _records(board: pd.DataFrame) -> list[Any]:
    return board.astype(object).where(board.notna(), None).to_dict("records")


def _board(lines: Sequence[LeaderboardRow]) -> pd.DataFrame:
    """Return a leaderboard with NaN for None, also where a column has no other value."""
    board = pd.DataFrame(map(vars, lines))
    return board.astype({name: float for name in board.columns if name != "expert"})


class ColumnGain(NamedTuple):
    """The gain of a column for each unit of information with the ends of its 95 % interval, the mean gain over all trials
    with its standard error, and how many more predictions are right for each unit of information."""

    slope: float
    low: float
    high: float
    mean: float
    error: float
    right: float


@dataclass(frozen=True)
class Advice:
    """What the rows held out say about the gains of every column."""

    columns: Mapping[str, ColumnGain]

    def column_gains(self) -> dict[str, Gain]:
        """Return how far the log loss of rows held out fell on average once a hidden value of each column was known."""
        return {
            name: Gain(mean, mean - NORMAL_QUANTILE * error, mean + NORMAL_QUANTILE * error)
            for name, (_, _, _, mean, error, _) in self.columns.items()
        }


@dataclass(frozen=True, kw_only=True)
class Record:
    """What training leaves beside its models; `Fitted` describes the fields."""

    classes: Classes
    class_weight: ClassWeights
    named: bool
    target: str | None
    advice: Advice | None
    leaderboard: Annotated[pd.DataFrame, stored(list[LeaderboardRow], _board, _records)]
    training: Training
    n_rows: Mapping[str, Count]
    missing_rates: Mapping[str, Share]
    largest_class: tuple[str, Share]
    groups: str | None
    prediction_sets: PredictionSets | None
    left_out: Sequence[str] = ()
    options: Mapping[str, Any]

    def record_fields(self) -> dict[str, Any]:
        """Return the fields of a record by name, without those of a subclass."""
        return {each.name: getattr(self, each.name) for each in fields(Record)}


@dataclass(frozen=True)
class SavedSchema:
    """What `Schema.to_json` wrote; the columns check themselves."""

    columns: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MAX_COLUMNS)]
    ignored: dict[str, str]
    names: list[str]


@dataclass(frozen=True)
class SavedEnsemble:
    """What `Ensemble.save` wrote; the experts check themselves."""

    prior: Annotated[list[Share], Field(min_length=1, max_length=MAX_CLASSES)]
    smoothing: Share
    experts: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]


@dataclass(frozen=True)
class SavedTrust:
    """What `CellTrust.save` wrote beside its tensors."""

    observed: tuple[float, float]
    imputed: tuple[float, float]
    trees: list[Annotated[list[dict[str, Any]], Field(max_length=3)]]


@dataclass(frozen=True, kw_only=True)
class Description(Record):
    """All of `model.json` but its own checksum."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    format: Literal["gauge-classifier-1"] = "gauge-classifier-1"
    version: str
    schema: SavedSchema
    ensemble: SavedEnsemble
    trust: SavedTrust | None
    files: dict[str, tuple[Count, str]]

    def to_json(self) -> str:
        """Return the text of `model.json`. The history has a file of its own."""
        metadata = TypeAdapter(Description).dump_python(self, mode="json", exclude={"training": {"history"}})
        return json.dumps(metadata | {"sha256": checksum(metadata)}, indent=1) + "\n"

    def check(self) -> None:
        """Raise an error if parts of it do not belong together."""
        columns = [str(column.get("name")) for column in self.schema.columns]
        experts = set(self.leaderboard["expert"]) - {"combined"}
        prior, sets = self.ensemble.prior, self.prediction_sets
        counts = {len(self.classes), len(prior), len(self.class_weight)}
        rules = {
            "the classes, their prior and their weights differ in number": len(counts) == 1,
            "a column occurs twice": len(set(columns)) == len(columns),
            "missing_rates are not those of the columns": set(self.missing_rates) == set(columns),
            "advice is not that of the columns": self.advice is None or set(self.advice.columns) == set(columns),
            "prediction_sets are not those of the columns": sets is None or sets.columns == len(columns),
            "names lacks a column": set(columns) <= set(self.schema.names),
            "the leaderboard is not that of the experts": experts == set(self.ensemble.experts),
            "n_rows is not that of three kinds": set(self.n_rows) == {"train", "val", "empty"},
            "the prior is not one in all": abs(np.sum(prior) - 1) < 1e-6,
            "options has no size": isinstance(self.options.get("size"), str),
        }
        for problem, fine in rules.items():
            if not fine:
                raise ValueError(problem)


def read_description(folder: Path) -> Description:
    """Return what `model.json` has, checked together with the other files of the folder."""
    path = folder / METADATA
    if not path.is_file():
        raise ValueError(
            f"{folder} is not a saved classifier (it has no {METADATA}); give a folder that `save` or `gauge fit` wrote"
        )
    try:
        metadata = json.loads(bounded_bytes(path).decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged ({error}); save the classifier again") from error
    form = metadata.get("format") if isinstance(metadata, dict) else None
    if form != FORMAT:
        raise ValueError(
            f"{path} has format {form!r:.50}, this version reads {FORMAT!r}; fit again, or use that version"
        )
    if metadata.pop("sha256", None) != checksum(metadata):
        raise ValueError(f"{path} is damaged: its checksum does not match; save the classifier again")
    with usable(path):
        description: Description = validated(Description, metadata)
        description.check()
    check_files(folder, description.files)
    return description
