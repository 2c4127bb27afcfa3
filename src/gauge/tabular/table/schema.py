"""Schema: which columns of a table are used, and how its rows become the modalities of a model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gauge.choices import pick
from gauge.registry import COLUMNS
from gauge.tabular.table.arrays import (
    MAX_LISTED_COLUMNS,
    by_modality,
    cells,
    columns_from_json,
    contents,
    encode_row,
    encode_rows,
    flag_positions,
)
from gauge.tabular.table.cells import missing, plain
from gauge.tabular.table.columns import (
    FINE_COLUMNS,
    IGNORE,
    IMAGE_SIDE,
    MAX_CATEGORIES,
    Cell,
    Column,
    Content,
    ImageFiles,
    ReadOptions,
    infer_kind,
    kinds,
    pick_kind,
)
from gauge.tabular.table.numbers import uses_decimal_commas


@dataclass(frozen=True)
class Encoded:
    """The rows of a table as modalities, and which rows have no values."""

    inputs: dict[str, np.ndarray]
    observed: dict[str, np.ndarray]
    empty: np.ndarray

    def take(self, rows: np.ndarray | slice) -> "Encoded":
        inputs, observed = ({name: each[rows] for name, each in part.items()} for part in (self.inputs, self.observed))
        return Encoded(inputs, observed, self.empty[rows])

    def with_observed(self, observed: dict[str, np.ndarray]) -> "Encoded":
        every = np.concatenate(list(map(per_column, observed.values())), 1)
        return Encoded(self.inputs, observed, np.asarray(~every.any(1)))


@dataclass(frozen=True)
class Schema:
    """The columns in use, and why others are ignored; `names` are those of all columns in training, in order. Cells
    (numbers and categories) form one modality, `table`, with a flag for each; every column of texts, images or another
    content is a modality of its own: `text0`, `image0`, `image1` ...

    >>> schema = Schema.from_frame(pd.DataFrame({"age": [41, None, 7], "sex": ["f", "m", ""]}))
    >>> [(column.name, column.kind) for column in schema.columns], schema.cardinalities
    ([('age', 'number'), ('sex', 'category')], (1, 2))
    """

    columns: tuple[Column, ...]
    ignored: Mapping[str, str] = field(default_factory=dict)
    names: tuple[str, ...] = ()

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        specified: Mapping[str, str] | None = None,
        encoders: Mapping[str, str | Path] | None = None,
        image_size: int = IMAGE_SIDE,
        files: ImageFiles = ImageFiles(),
        max_categories: int = MAX_CATEGORIES,
    ) -> "Schema":
        """Inferred from the training rows; `specified` are kinds that override inferred ones, `encoders` pretrained models
        by column, `image_size` is the height and width of images without one, `files` are those of images and signals;
        `max_categories` of a column are kept, the others are rare."""
        specified, encoders = dict(specified or {}), dict(encoders or {})
        names = dict.fromkeys(map(str, frame.columns))
        for name, kind in specified.items():
            pick(names, name, "column")
            pick_kind(kind)
        for name in encoders:
            pick(names, name, "column to encode")
        commas = uses_decimal_commas(frame)
        columns: list[Column] = []
        ignored: dict[str, str] = {}
        for label in frame.columns:
            name, values = str(label), plain(frame[label].rename(str(label)))
            kind, reason = (specified[name], "as specified") if name in specified else infer_kind(values)
            if name in encoders:
                _check_encoder(name, kind)
            if kind == IGNORE or missing(values).all():
                ignored[name] = reason if kind == IGNORE else "it is empty"
            else:
                encoder = str(encoders[name]) if name in encoders else None
                options = ReadOptions(encoder, image_size, files, commas, max_categories)
                columns.append(COLUMNS.get(kind).from_column(values, options))
        if not columns:
            reasons = "; ".join(f"{name!r}: {reason}" for name, reason in ignored.items())
            raise ValueError(f"no column can be used ({reasons}); give one that varies, or set kinds with columns=")
        return cls(tuple(columns), ignored, tuple(names))

    @cached_property
    def table(self) -> tuple[Cell, ...]:
        """The columns that form the modality `table`: numbers and categories."""
        return cells(self.columns)

    @cached_property
    def contents(self) -> dict[str, Content]:
        """The columns that are modalities of their own, by modality: texts, images."""
        return contents(self.columns)

    @cached_property
    def modalities(self) -> dict[str, tuple[Column, ...]]:
        return by_modality(self.columns)

    @cached_property
    def cardinalities(self) -> tuple[int, ...]:
        """The number of categories of each column of the table, 1 for numbers."""
        return tuple(column.cardinality for column in self.table)

    @cached_property
    def cycle_positions(self) -> np.ndarray:
        """The position in the table of the column that each of the `cycles` belongs to."""
        return np.repeat(np.arange(len(self.table)), [column.cycle_count for column in self.table])

    @property
    def with_cycles(self) -> tuple[int, ...]:
        """The `cardinalities` of the columns of the table, and 1 for each of their cycles."""
        return (*self.cardinalities, *[1] * len(self.cycle_positions))

    @cached_property
    def positions(self) -> list[int]:
        """Where the flag of each column is, if the flags of all modalities stand side by side."""
        return flag_positions(self.columns)

    @property
    def encoders(self) -> dict[str, str]:
        """The names or paths of pretrained models, by column."""
        return {column.name: column.encoder_source for column in self.columns if column.encoder_source}

    def summary(self) -> list[str]:
        """The columns by kind, and those that are ignored."""
        lines = []
        for kind in kinds():
            if names := [column.name for column in self.columns if column.kind == kind]:
                lines.append(f"{kind}: {_listed(names)}")
        for what, reasons in (
            ("read as guessed", {column.name: column.note for column in self.columns if column.note}),
            ("ignored", self.ignored),
        ):
            alike: dict[str, list[str]] = {}
            for name, reason in reasons.items():
                alike.setdefault(reason, []).append(name)
            lines += [f"{what}: {_listed(names)} ({reason})" for reason, names in alike.items()]
        return lines

    def encode(self, frame: pd.DataFrame, files: ImageFiles = ImageFiles(), *, training: bool = False) -> Encoded:
        """The rows as arrays. A column that the table lacks counts as missing; most of them have to be there. In training
        many unreadable values are an error; afterwards every one of them counts as missing, however many rows there are."""
        return _encoded(encode_rows(self.columns, frame, files, training=training))

    def encode_row(self, row: Mapping[str, Any], files: ImageFiles = ImageFiles()) -> Encoded:
        """What `encode` gives for a table of this one row, which has a value for every column by its name."""
        return _encoded(encode_row(self.columns, row, files))

    def blank(self, rows: int) -> Encoded:
        """Rows of this form without content, every column of which counts as observed."""
        encoded = self.encode(pd.DataFrame({column.name: [np.nan] for column in self.columns}, dtype=object))
        observed = {name: np.ones_like(flags) for name, flags in encoded.observed.items()}
        return encoded.with_observed(observed).take(np.zeros(rows, int))

    def missing_rates(self, encoded: Encoded) -> dict[str, float]:
        """The share of rows in which each column is missing, or encoded as if it were."""
        rates: dict[str, float] = {}
        for modality, columns in self.modalities.items():
            absent = ~per_column(encoded.observed[modality])
            rates |= zip((column.name for column in columns), absent.mean(0).tolist(), strict=True)
        return {column.name: rates[column.name] for column in self.columns}

    def to_json(self) -> dict[str, Any]:
        columns = [column.to_json() for column in self.columns]
        return {"columns": columns, "ignored": dict(self.ignored), "names": list(self.names)}

    def save_files(self, folder: Path) -> None:
        """Write what `to_json` leaves out: a folder for each column that needs one, named by its position."""
        for index, column in enumerate(self.columns):
            column.save_files(folder / str(index))

    @classmethod
    def from_json(cls, content: Mapping[str, Any], files: Path = Path()) -> "Schema":
        columns = columns_from_json(content["columns"], files)
        return cls(columns, dict(content["ignored"]), tuple(content.get("names", ())))


def _listed(names: Sequence[str]) -> str:
    """The first of the names, each in one line."""
    more = f" ... ({len(names)} in all)" if len(names) > MAX_LISTED_COLUMNS else ""
    return ", ".join(" ".join(name.split()) for name in names[:MAX_LISTED_COLUMNS]) + more


def _check_encoder(name: str, kind: str) -> None:
    readable = [known for known, column in kinds().items() if column.takes_encoder]
    if kind not in readable:
        raise ValueError(
            f"pretrained encoders read columns of kind {' and '.join(readable)}, but {name!r} is of kind {kind!r}; remove "
            "it from encoders=, or set its kind in columns="
        )


def _encoded(arrays: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Encoded:
    """All of which may be written to, as some arrays of pandas may not."""
    inputs, observed = (
        {modality: np.require(pair[part], requirements="W") for modality, pair in arrays.items()} for part in (0, 1)
    )
    return Encoded(inputs, {}, np.zeros(0, bool)).with_observed(observed)


def per_column(flags: np.ndarray) -> np.ndarray:
    """One flag for each column of a modality."""
    return flags[:, None] if flags.ndim == 1 else flags


def width_problems(columns: int) -> Iterator[str]:
    """What many columns of numbers and categories mean for the network."""
    if columns > FINE_COLUMNS:
        yield (
            f"{columns} columns are numbers and categories, more than {FINE_COLUMNS}; a network would read them as one unit "
            "with one score and is fitted only beside texts and images, or if it is named (experts=, --experts): drop "
            "columns (columns=, --column NAME=ignore) for a score of each"
        )
