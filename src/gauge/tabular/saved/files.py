"""The files of a saved classifier: bounded before they are read, checked against their checksums, described by types.

A checksum says that files are as they were written, not by whom. So nothing in them is believed: sizes are compared with
limits before memory is taken, every value has a type, and what cannot be a classifier is refused in one line. A type is
written once: `stored` says how a value that JSON lacks is written and read. Nothing here imports torch.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import ConfigDict, Field, GetPydanticSchema, TypeAdapter, ValidationError
from pydantic_core import core_schema

METADATA, WEIGHTS, CARD, TOKENIZERS = "model.json", "model.safetensors", "README.md", "tokenizers"
HISTORY = "metrics.jsonl"
MAX_JSON_BYTES, MAX_WEIGHTS_BYTES = 64 * 2**20, 16 * 2**30  # of one file
MAX_TOKENIZER_FILES = 10_000
MAX_COLUMNS, MAX_CLASSES = 100_000, 100_000
STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, le=10**12)]
CLASS_TYPE = r"^(?:object|text|bool|u?int(?:8|16|32|64)|float(?:16|32|64))$"


def stored(form: Any, read: Callable[[Any], Any], write: Callable[[Any], Any]) -> GetPydanticSchema:
    """Annotate a type whose values are written as plain values of the type `form`, and read from them."""
    return GetPydanticSchema(
        lambda _, handler: core_schema.no_info_after_validator_function(
            read, handler.generate_schema(form), serialization=core_schema.plain_serializer_function_ser_schema(write)
        )
    )


@dataclass(frozen=True)
class SavedClasses:
    """The classes and the name of their type, None if it has none."""

    values: Annotated[list[str | bool | int | float], Field(min_length=1, max_length=MAX_CLASSES)]
    type: Annotated[str, Field(pattern=CLASS_TYPE)] | None


def saved_classes(classes: np.ndarray) -> SavedClasses:
    """Return classes as plain values with the name of their type."""
    values, name = classes.tolist(), "text" if classes.dtype.kind == "U" else classes.dtype.name
    if not all(isinstance(value, str | int | float) for value in values):
        raise ValueError(f"labels of type {type(values[0]).__name__} cannot be saved; use texts or numbers")
    return SavedClasses(values, name if re.match(CLASS_TYPE, name) else None)


def typed_classes(saved: SavedClasses) -> np.ndarray:
    """Return classes with their type, that of Python's values where it has no name; an error if they are of another, or if
    one occurs twice.

    >>> typed_classes(SavedClasses([0, 1], "int8")).dtype.name
    'int8'
    """
    values, name = saved.values, saved.type
    plain = np.array(values)
    typed = plain if name in (None, "text") else plain.astype(name)
    if typed.tolist() != values or (name == "text" and plain.dtype.kind != "U"):
        raise ValueError(f"its classes are not of the type {name}")
    if len(set(values)) != len(values):
        raise ValueError("a class occurs twice")
    return typed


Classes = Annotated[np.ndarray, stored(SavedClasses, typed_classes, saved_classes)]
ClassWeights = Annotated[np.ndarray, stored(list[Annotated[float, Field(ge=0)]], np.array, np.ndarray.tolist)]


@dataclass(frozen=True)
class HistoryLine:
    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    stage: str
    epoch: Count
    losses: dict[str, Annotated[float, Field(allow_inf_nan=True)] | None]
    seconds: float


def read_history(folder: Path) -> list[dict[str, Any]]:
    path = folder / HISTORY
    with usable(path):
        lines = [json.loads(line) for line in bounded_bytes(path).decode().splitlines()]
        return [vars(epoch) for epoch in validated(list[HistoryLine], lines)]


def validated(kind: Any, value: Any) -> Any:
    """Return JSON's plain values as a value of this type; an error of one line says where they differ."""
    try:
        return TypeAdapter(kind).validate_json(json.dumps(value))
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


def bounded_bytes(path: Path) -> bytes:
    """Return the content of a file; an error if it is too large, or cannot be read."""
    _check_size(path, MAX_JSON_BYTES)
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error}); fit the classifier again") from error


def _check_size(path: Path, limit: int) -> None:
    """An error if a file is larger: a sparse one of terabytes takes no space on a disk, and hours to read."""
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


def file_record(folder: Path) -> dict[str, tuple[int, str]]:
    """Return the size and the checksum of weights, losses and tokenizers, so that they belong together; an error if one of
    them is too large to be read."""
    record = {}
    for name, path in _files(folder).items():
        _check_size(path, MAX_WEIGHTS_BYTES if path.name == WEIGHTS else MAX_JSON_BYTES)
        try:
            with path.open("rb") as file:
                record[name] = path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise ValueError(f"{path} cannot be read ({error}); fit the classifier again") from error
    return record


def check_files(folder: Path, expected: Mapping[str, tuple[int, str]]) -> None:
    """Raise an error if a file is not what it was, those that are too large or of another size before any is read."""
    for name, path in _files(folder).items():
        _check_size(path, MAX_WEIGHTS_BYTES if path.name == WEIGHTS else MAX_JSON_BYTES)
        size, (before, _) = path.stat().st_size, expected.get(name, (0, ""))
        if size != before:
            raise ValueError(
                f"{path} is damaged: its checksum does not match, as it has {size:,} bytes and had {before:,}; save the "
                "classifier again"
            )
    if (folder / WEIGHTS).is_file():
        from gauge.training import checkpoint  # it imports safetensors, which exported models do without

        with usable(folder / WEIGHTS):
            checkpoint.read_metadata(folder / WEIGHTS)  # another size than its header says is refused here
    files = file_record(folder)
    for name in {**expected, **files}:
        if expected.get(name) != files.get(name):
            raise ValueError(f"{folder / name} is damaged: its checksum does not match; save the classifier again")


def checksum(metadata: Mapping[str, Any]) -> str:
    """Return that of all other values of `model.json`."""
    return hashlib.sha256(json.dumps(metadata, sort_keys=True).encode()).hexdigest()


def json_options(options: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the options that JSON can represent; the others, and those of a machine, are back at their default in a loaded
    model."""
    for name, value in options.items():
        try:
            survives = bool(json.loads(json.dumps(value)) == value)
        except TypeError:
            survives = False
        if survives and name not in ("device", "n_jobs", "image_folder", "outside_images", "verbose"):
            yield name, value
