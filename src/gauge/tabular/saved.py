"""The files of a saved classifier: bounded before they are read, checked against their checksums, described by types.

A checksum says that files are as they were written, not by whom. So nothing in them is believed: sizes are compared with
limits before memory is taken, every value has a type, and what cannot be a classifier is refused in one line.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

FORMAT = "gauge-classifier-9"
METADATA, WEIGHTS, CARD, TOKENIZERS = "model.json", "model.safetensors", "README.md", "tokenizers"
HISTORY = "metrics.jsonl"
MAX_JSON_BYTES, MAX_WEIGHTS_BYTES = 64 * 2**20, 16 * 2**30  # of one file
UNSAVED_OPTIONS = ("device", "n_jobs", "image_folder", "outside_images", "verbose")  # those of a machine
MAX_TOKENIZER_FILES = 10_000
MAX_COLUMNS, MAX_CLASSES, MAX_ROWS = 100_000, 100_000, 10**12

T = TypeVar("T", bound=BaseModel)
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, le=MAX_ROWS)]
CLASS_TYPE = r"^(?:object|text|bool|u?int(?:8|16|32|64)|float(?:16|32|64))$"
ClassType = Annotated[str, Field(pattern=CLASS_TYPE)]
Score = FiniteFloat | None
Estimates = Annotated[list[FiniteFloat], Field(min_length=5, max_length=5)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class SavedSchema(_Strict):
    """What `Schema.to_json` wrote; the columns check themselves."""

    columns: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MAX_COLUMNS)]
    ignored: dict[str, str]
    names: list[str]


class SavedEnsemble(_Strict):
    """What `Ensemble.save` wrote; the experts check themselves."""

    prior: Annotated[list[Share], Field(min_length=1, max_length=MAX_CLASSES)]
    smoothing: Share
    experts: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]


class SavedTrust(_Strict):
    """What `CellTrust.save` wrote beside its tensors."""

    observed: Annotated[list[FiniteFloat], Field(min_length=2, max_length=2)]
    imputed: Annotated[list[FiniteFloat], Field(min_length=2, max_length=2)]
    trees: list[Annotated[list[dict[str, Any]], Field(max_length=3)]]


class SavedGroup(_Strict):
    """The scores of rows held out, for one share of missing values."""

    rows: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    scores: Annotated[list[FiniteFloat], Field(min_length=1)]
    classes: list[Annotated[int, Field(ge=0, lt=MAX_CLASSES)]] = []


class SavedSets(_Strict):
    """What `PredictionSets.to_json` wrote."""

    columns: Annotated[int, Field(ge=1, le=MAX_COLUMNS)]
    groups: Annotated[list[SavedGroup], Field(min_length=2, max_length=100)]


class SavedTraining(_Strict):
    """The record of a training, without its history."""

    rows: Count
    strategy: Literal["mask", "impute"]
    metric: str
    scores: dict[Literal["mask", "impute"], Score]
    epochs: dict[str, Count]
    cut_short: dict[str, Annotated[list[Count], Field(min_length=2, max_length=2)]]
    donors: list[Count]
    taught: Count = 0
    gate_losses: dict[Literal["with", "without"], FiniteFloat] = {}

    def record(self) -> dict[str, Any]:
        """The arguments of `Training`."""
        return self.model_dump() | {
            "cut_short": {stage: (done, planned) for stage, (done, planned) in self.cut_short.items()}
        }


class SavedUnlabelled(_Strict):
    """What rows without a label brought."""

    rows: Count
    experts: list[str]
    held_out: Count
    log_loss_with: Score
    log_loss_without: Score
    shifted: Annotated[list[Share], Field(max_length=MAX_CLASSES)]
    reason: str


class LeaderboardRow(_Strict):
    """The scores of one expert, or of all combined."""

    expert: str
    accuracy: Score
    log_loss: Score
    auc: Score
    calibration_error: Score = None
    weight: Share


class Epoch(_Strict):
    """One line of the history."""

    stage: str
    epoch: Count
    losses: dict[str, float | None]
    seconds: float


class Description(_Strict):
    """What `model.json` holds."""

    format: Literal["gauge-classifier-9"]
    version: str
    table: Annotated[SavedSchema, Field(alias="schema")]
    ensemble: SavedEnsemble
    classes: Annotated[list[str | bool | int | FiniteFloat], Field(min_length=1, max_length=MAX_CLASSES)]
    class_type: ClassType | None = None
    class_weight: list[Annotated[FiniteFloat, Field(ge=0)]]
    named: bool
    target: str | None
    trust: SavedTrust | None
    advice: dict[str, Estimates] | None = None
    leaderboard: list[LeaderboardRow]
    training: SavedTraining
    n_rows: dict[Literal["train", "val", "empty"], Count]
    missing_rates: dict[str, Share]
    largest_class: Annotated[list[str | Share], Field(min_length=2, max_length=2)]
    donor_rows: list[str]
    groups: str | None = None
    prediction_sets: SavedSets | None = None
    unlabelled: SavedUnlabelled | None = None
    left_out: list[str] = []
    options: dict[str, Any]
    files: dict[str, str]
    sizes: dict[str, Count] = {}

    def check(self) -> None:
        """An error if parts of it do not belong together."""
        columns = [str(column.get("name")) for column in self.table.columns]
        experts = {row.expert for row in self.leaderboard} - {"combined"}
        rules = {
            "the classes, their prior and their weights differ in number": len(self.classes)
            == len(self.ensemble.prior)
            == len(self.class_weight),
            "a class occurs twice": len(set(self.classes)) == len(self.classes),
            "a column occurs twice": len(set(columns)) == len(columns),
            "missing_rates are not those of the columns": set(self.missing_rates) == set(columns),
            "advice is not that of the columns": self.advice is None or set(self.advice) == set(columns),
            "names lacks a column": set(columns) <= set(self.table.names),
            "the leaderboard is not that of the experts": experts == set(self.ensemble.experts),
            "n_rows is not complete": len(self.n_rows) == 3,
            "the prior is not one in all": abs(sum(self.ensemble.prior) - 1) < 1e-6,
            "largest_class is not a name and a share": [type(each) for each in self.largest_class] == [str, float],
            "options has no size": isinstance(self.options.get("size"), str),
        }
        for problem, fine in rules.items():
            if not fine:
                raise ValueError(problem)


def read_description(folder: Path) -> Description:
    """What `model.json` has, checked together with the other files of the folder."""
    path = folder / METADATA
    if not path.is_file():
        raise ValueError(
            f"{folder} is not a saved classifier (it has no {METADATA}); give a folder that `save` or `gauge fit` wrote"
        )
    content = _bounded_bytes(path)
    try:
        metadata = json.loads(content.decode())
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
        description = validated(Description, metadata)
        description.check()
    check_sizes(folder, description.sizes)
    files = file_checksums(folder)
    for name in {**description.files, **files}:
        if description.files.get(name) != files.get(name):
            raise ValueError(f"{folder / name} is damaged: its checksum does not match; save the classifier again")
    return description


def read_history(folder: Path) -> list[dict[str, Any]]:
    """The losses of every epoch."""
    path = folder / HISTORY
    with usable(path):
        lines = [json.loads(line) for line in _bounded_bytes(path).decode().splitlines()]
        return [validated(Epoch, line).model_dump() for line in lines]


def validated(kind: type[T], value: Any) -> T:
    """The value as a model of this kind; an error of one line says where it differs."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise ValueError(f"{field[:100]}: {first['msg'][:200]}") from error


@contextmanager
def usable(path: Path) -> Iterator[None]:
    """Turns whatever wrong values cause into one error of one line: libraries raise errors of all kinds for them."""
    try:
        yield
    except Exception as error:
        reason = f"{error}".partition("\n")[0][:300] if isinstance(error, ValueError) else f"{error!r:.300}"
        reason = " ".join(reason.split())
        raise ValueError(f"{path} cannot be used: {reason}; fit the classifier again") from error


def _bounded_bytes(path: Path) -> bytes:
    _check_size(path, MAX_JSON_BYTES)
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error}); fit the classifier again") from error


def _check_size(path: Path, limit: int) -> None:
    """An error if a file is larger: a sparse one of terabytes takes no place on a disk, and hours to read."""
    size = path.stat().st_size
    if size > limit:
        raise ValueError(f"{path} has {size:,} bytes, the limit is {limit:,}; fit the classifier again")


def _files(folder: Path) -> dict[str, Path]:
    """Weights, losses and tokenizers."""
    entries = list(islice((folder / TOKENIZERS).rglob("*"), MAX_TOKENIZER_FILES + 1))  # a link may lead anywhere
    if len(entries) > MAX_TOKENIZER_FILES:
        raise ValueError(f"{folder / TOKENIZERS} has more than {MAX_TOKENIZER_FILES} files; fit the classifier again")
    paths = (folder / WEIGHTS, folder / HISTORY, *sorted(entries))
    return {path.relative_to(folder).as_posix(): path for path in paths if path.is_file()}


def file_sizes(folder: Path) -> dict[str, int]:
    """Those of the files that have checksums: a file of another size is refused before it is read."""
    return {name: path.stat().st_size for name, path in _files(folder).items()}


def check_sizes(folder: Path, expected: Mapping[str, int]) -> None:
    """An error if a file is too large, or has another size than it had or than its header says, without reading it."""
    for name, path in _files(folder).items():
        _check_size(path, MAX_WEIGHTS_BYTES if path.name == WEIGHTS else MAX_JSON_BYTES)
        size = path.stat().st_size
        if expected.get(name, size) != size:
            raise ValueError(
                f"{path} is damaged: its checksum does not match, as it has {size:,} bytes and had {expected[name]:,}; save "
                "the classifier again"
            )
    if (folder / WEIGHTS).is_file():
        from gauge.training import checkpoint  # it imports torch, which exported models do without

        with usable(folder / WEIGHTS):
            checkpoint.read_metadata(folder / WEIGHTS)


def file_checksums(folder: Path) -> dict[str, str]:
    """Those of the weights, losses and tokenizers, so that they belong together."""
    checksums = {}
    for name, path in _files(folder).items():
        try:
            with path.open("rb") as file:
                checksums[name] = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise ValueError(f"{path} cannot be read ({error}); fit the classifier again") from error
    return checksums


def file_record(folder: Path) -> dict[str, Any]:
    """What `model.json` has of the other files."""
    return {"files": file_checksums(folder), "sizes": file_sizes(folder)}


def checksum(metadata: Mapping[str, Any]) -> str:
    """That of all other values of `model.json`."""
    return hashlib.sha256(json.dumps(metadata, sort_keys=True).encode()).hexdigest()


def local_folder(name: str, revision: str | None) -> Path:
    """The folder of that name or, if there is none, the files of the Hub's repository of that name, which are downloaded."""
    if Path(name).is_dir():
        return Path(name)
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    except ImportError as error:
        raise ValueError(
            f"there is no folder {name}, and the Hub needs huggingface_hub; install it with: pip install 'gauge-ml[hub]'"
        ) from error
    patterns = [METADATA, WEIGHTS, HISTORY, CARD, f"{TOKENIZERS}/*"]
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=patterns))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"there is no folder {name}, and no such repository on the Hub ({reason}); check name and token"
        ) from error


def json_options(options: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The options that JSON can represent; the others are back at their default in a loaded model."""
    for name, value in options.items():
        try:
            survives = bool(json.loads(json.dumps(value)) == value)
        except TypeError:
            survives = False
        if survives and name not in UNSAVED_OPTIONS:
            yield name, value
