"""The kinds of columns in a table, one file each: how a kind is recognised, read, encoded, saved, requested and shown.

A column is either a `Cell`, one value in the modality `table` that all cells of a row form together, or a `Content`, a
modality of its own with units of its own: words, parts of an image. These files import no torch before a network is built,
because exported models read tables with them.
"""

import json
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field, TypeAdapter, ValidationError

from gauge.choices import pick
from gauge.data.graph import Graph
from gauge.registry import COLUMNS
from gauge.tabular.table.cells import missing, plain
from gauge.tabular.table.guard import Limits, note
from gauge.tabular.table.numbers import Writing

if TYPE_CHECKING:
    from gauge.types import Encoder

logger = logging.getLogger(__name__)

IGNORE = "ignore"  # in place of a kind
IMAGE_SIDE = 64  # pixels
MAX_UNREADABLE = 0.1  # share of unreadable values in a training column that count as missing; more are an error
MIN_IDENTIFIERS = 20  # values; with fewer, that all are different means little
MAX_CATEGORIES = 255  # that a column keeps; the others are rare
FINE_COLUMNS = 500  # numbers and categories that have a unit each; more are one unit in all, as attention is quadratic


class Guess(NamedTuple):
    """That a column is of a kind, with a note on what was guessed; or that it is `ignored`, and why."""

    note: str = ""
    ignored: bool = False


class Part(NamedTuple):
    """The name and the value of a unit, as evidence shows them."""

    name: str
    value: str


class Question(NamedTuple):
    """How a form asks people for a value: as a "number", "date", "time", "choice", "text" or "image", with a hint. Almost
    all values of training were between `low` and `high`, if those are given."""

    form: Any
    hint: str = ""
    choices: tuple[str, ...] = ()
    low: str = ""
    high: str = ""


@dataclass(frozen=True)
class ImageFiles:
    """The folder that image paths are relative to; they have to stay in it unless `outside` is True."""

    folder: Path = Path()
    outside: bool = True

    def path(self, value: str) -> Path | None:
        """The file, None if it lies outside. `..` is resolved as written, so links within the folder may lead elsewhere."""
        folder = os.path.abspath(self.folder)
        path = Path(os.path.normpath(os.path.join(folder, value)))
        return path if self.outside or path.is_relative_to(folder) else None

    def absence(self, value: str) -> str:
        """Why no file of this path can be read, in words about several files; empty if there is one."""
        path = self.path(value)
        if path is None:
            return f"lie outside {self.folder}"
        return "" if os.path.isfile(path) else "do not exist"


class ReadOptions(NamedTuple):
    """How a training column is read: the name or path of a pretrained encoder, the side of images, where files are, whether
    other columns have decimal commas, and how many categories are kept."""

    encoder: str | None = None
    image_size: int = IMAGE_SIDE
    files: ImageFiles = ImageFiles()
    decimal_commas: bool = False
    max_categories: int = MAX_CATEGORIES


class Column(ABC):
    """A column as it was in training. Kinds are frozen dataclasses whose fields JSON can represent.

    Attributes
    ----------
    kind
        The name under which the kind is registered.
    order
        Kinds are listed, and become modalities, in this order.
    precedence
        A column is of the kind with the smallest number among those that recognise it.
    may_be_constant
        Whether a column whose cells are all the same can be of this kind.
    takes_encoder
        Whether a pretrained encoder can read it.
    read_by_trees
        Whether trees read it: as a cell, or by its `vectors`.
    by_components
        Whether they read the principal components of its `vectors` instead of these themselves.
    unread_reason
        Why a value counts as missing although it was given.
    display
        How the evidence page draws its units: as a "number" or "category", as the words of a "text", or on an "image".
    """

    name: str
    kind: ClassVar[str]
    order: ClassVar[int] = 100
    precedence: ClassVar[int] = 0
    may_be_constant: ClassVar[bool] = False
    takes_encoder: ClassVar[bool] = False
    read_by_trees: ClassVar[bool] = False
    by_components: ClassVar[bool] = True
    unread_reason: ClassVar[str] = "cannot be read"
    display: ClassVar[Any] = "text"

    @classmethod
    def recognise(cls, values: pd.Series) -> Guess | None:
        """What to make of these values, none of which is missing; None if they are of another kind."""
        return None

    @classmethod
    @abstractmethod
    def from_column(cls, column: pd.Series, options: ReadOptions) -> "Column":
        """Fitted to a training column, in which at least one value is not missing."""

    @classmethod
    def inspect(cls, values: pd.Series, options: ReadOptions) -> tuple[np.ndarray, list[str]]:
        """Which of the values count as missing because nothing is behind them, and problems in words; the options are
        those of `from_column`."""
        return np.zeros(len(values), bool), []

    @staticmethod
    def clean(column: pd.Series) -> pd.Series:
        """The cells in a form that `numbers` of a cell and `encode` of a content read."""
        return plain(column)

    @property
    def note(self) -> str:
        """What was guessed about the way its values are written."""
        return ""

    @property
    def encoder_source(self) -> str | None:
        """The name or path of its pretrained encoder."""
        return None

    @property
    def export_problem(self) -> str | None:
        """Why a classifier that reads it cannot be exported."""
        return None

    def request_type(self, *, max_pixels: int) -> Any:
        """The type of its value in a request, for pydantic. A value is text unless a kind says otherwise; images have at
        most `max_pixels`, and the context of the validation counts those of all images of the request."""
        return Annotated[str, Field(max_length=100_000)] | None

    def question(self) -> Question:
        """How a form asks for a value."""
        return Question("text")

    def to_json(self) -> dict[str, Any]:
        values = {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]  # kinds are dataclasses
        return {"kind": self.kind} | {
            name: asdict(each) if isinstance(each, Limits | Writing) else each for name, each in values.items()
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any], folder: Path) -> "Column":
        """What `to_json` and `save_files` wrote; an error if it cannot be that."""
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in content.items()}
        values.pop("kind")
        for field in fields(cls):  # type: ignore[arg-type]  # every kind is a dataclass
            if field.name in values and not isinstance(field.type, str):  # written as a text, it is not known here
                values[field.name] = _checked(field.name, values[field.name], field.type)
        column = cls(**values)
        if problem := column.saved_problem:
            raise ValueError(f"column {column.name!r:.50}: {problem}; fit again")
        return column

    @property
    def saved_problem(self) -> str:
        """Why these fields cannot be those of a fitted column, which bounds what it asks for; empty if they can."""
        return ""

    def save_files(self, folder: Path) -> None:
        """Write what `to_json` leaves out to a folder of its own."""
        return

    @staticmethod
    def report_unreadable(
        column: pd.Series, rows: Sequence[int] | np.ndarray, reason: str, known: int | None = None, share: float = 0.0
    ) -> None:
        """Unreadable values count as missing, up to this share of all by chance. In training, where they are some of `known`
        values, many are an error."""
        others = f", and {len(rows) - 1} more cannot be read" if len(rows) > 1 else ""
        message = f"column {column.name!r}, row {column.index[rows[0]]}: {reason}{others}"
        if known is not None and len(rows) > MAX_UNREADABLE * known:
            raise ValueError(
                f"{message}; fix them, leave unknown cells empty, or set the column's kind (columns=, --column)"
            )
        if not note(column, rows, "cannot be read", "; counted as missing", first=reason, share=share):
            logger.warning("%s; counted as missing", message)

    def report_absent_files(self, column: pd.Series, rows: Mapping[str, Sequence[int]]) -> None:
        """Log how many files count as missing; `rows` are those of every reason that `ImageFiles.absence` gives."""
        for reason, own in rows.items():
            logger.warning(
                "column %r: %d %s files %s and count as missing, first %.100s (row %s)",
                *(column.name, len(own), self.kind, reason, column.iloc[own[0]], column.index[own[0]]),
            )


def _checked(name: str, value: Any, kind: Any) -> Any:
    """The value of a field, if it is of this type; a mapping becomes the dataclass that it was."""
    try:
        if isinstance(value, Mapping):
            return TypeAdapter(kind).validate_json(json.dumps(value), strict=True)
        return TypeAdapter(kind).validate_python(value, strict=True)
    except ValidationError as error:
        message = error.errors(include_url=False, include_input=False)[0]["msg"]
        raise ValueError(f"{name!r} of a column: {message}; fit again") from error


class Cell(Column):
    """A column whose value in a row is one unit of the modality `table`: a number or one of some categories."""

    read_by_trees: ClassVar[bool] = True

    @property
    def cardinality(self) -> int:
        """The number of categories, that of rare values included, 1 for numbers."""
        return 1

    @property
    def rare_code(self) -> int | None:
        """The code of the category that stands for all rare ones; None if there are none."""
        return None

    @property
    def level_count(self) -> int:
        """The number of categories with the rare ones that are told apart, see `rare_levels`."""
        return self.cardinality

    @property
    def categorical(self) -> bool:
        return self.cardinality > 1

    @abstractmethod
    def numbers(self, column: pd.Series, *, training: bool = False) -> np.ndarray:
        """Numbers of about normal distribution, or the codes of categories; NaN where they are missing. In training many
        unreadable values are an error; afterwards they all count as missing."""

    @property
    def tells_rare_apart(self) -> bool:
        return self.level_count > self.cardinality

    def rare_levels(self, column: pd.Series) -> np.ndarray:
        """Which rare category each cell has: a number above the `rare_code`, or that for one which is not told apart. What
        other cells get has no meaning."""
        raise NotImplementedError

    def quick_number(self, value: Any) -> float | None:
        """One cell as `numbers` reads it, NaN where it is missing; None for values that kinds have no faster way for."""
        return None

    @property
    def cycle_count(self) -> int:
        """The number of its `cycles`."""
        return 0

    def cycles(self, column: pd.Series) -> np.ndarray:
        """Where each cell is in what recurs, such as the hours of a day, for trees and the linear expert: sines and cosines,
        NaN where it is missing: [rows, cycles]."""
        return np.zeros((len(column), 0), np.float32)

    @abstractmethod
    def decode(self, value: float) -> str:
        """One of these numbers as people write it."""

    @property
    def bins(self) -> int:
        """Into how many parts `counts` divides its values."""
        return self.cardinality

    def counts(self, numbers: np.ndarray) -> np.ndarray:
        """How many of these `numbers` are in each of the `bins`; NaN is in none."""
        return np.bincount(numbers[~np.isnan(numbers)].astype(int), minlength=self.bins)

    def new_share(self, counts: np.ndarray) -> float:
        """The share of values in further rows that are expected to be new and not encoded, from the counts of training."""
        return 0.0

    def far(self, column: pd.Series) -> np.ndarray:
        """Which cells are far beyond all of training."""
        return np.zeros(len(column), bool)

    def shift(self, old: np.ndarray, numbers: np.ndarray, column: pd.Series) -> str:
        """How values moved since training, in words: from its counts to these `numbers`, which are those of a column."""
        shares = [each / each.sum() for each in (self.counts(numbers), old)]
        most = int(np.abs(shares[0] - shares[1]).argmax())
        now, then = (f"{100 * each[most]:.0f} %" for each in shares)
        return f"{self.decode(float(most))!r} in {now} of the values instead of {then}"


class Content(Column):
    """A column that is a modality of its own, with as many units as its encoder makes."""

    @property
    def values_per_row(self) -> int:
        """Of its encoding, where they are so many that fewer rows have to be read at once."""
        return 0

    @abstractmethod
    def encode(self, column: pd.Series, files: ImageFiles, *, training: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """The cells as numbers, one entry for each row, and which rows have a value. In training many unreadable values are
        an error; afterwards they all count as missing."""

    @abstractmethod
    def encoder(self, dim: int, channels: Sequence[int], *, weights: bool) -> "Encoder":
        """The encoder of the network. `channels` are those of an image encoder of this size; with `weights` a pretrained
        one is read with its weights, without them these are loaded later."""

    def texts(self, column: pd.Series) -> np.ndarray | None:
        """The cells as texts, "" where they are missing, if trees and the linear expert read them as texts."""
        return None

    def vectors(self, values: np.ndarray) -> np.ndarray:
        """Encoded rows as vectors that trees and the linear expert read, see `by_components`: [rows, features]."""
        return values.reshape(len(values), -1).astype(np.float32)

    def export_vectors(self, graph: Graph, values: str) -> str:
        """The `vectors` of encoded rows in an ONNX graph, in double precision."""
        if type(self).vectors is not Content.vectors:
            raise ValueError(f"column {self.name!r} cannot be exported: kind {self.kind!r} has no export_vectors")
        return graph.cast(graph.node("Flatten", values), np.float64)

    def unread(self, column: pd.Series) -> str:
        """What the network does not read of the cells, a sentence."""
        return ""

    def parts(self, cell: Any, values: np.ndarray, count: int | None) -> list[Part]:
        """The units of an observed `cell` with these encoded `values`, in order; `count` is the number of units that the
        network has, None if there is none."""
        return [Part(str(number), str(number)) for number in range(1, (count or 1) + 1)]

    def image(self, values: np.ndarray, count: int | None) -> tuple[np.ndarray, tuple[int, int]] | None:
        """One encoded row as an image in RGB to show the units on, and the rows and columns that these form."""
        return None

    def hide_part(self, values: np.ndarray, index: int, count: int) -> None:
        """Make one of `count` parts of an encoded row missing, in place: it becomes the mean of the row."""
        length = values.shape[-1]
        start, end = (round(number * length / count) for number in (index, index + 1))
        values[..., start:end] = values.astype(np.float32).mean(-1, keepdims=True).astype(values.dtype)

    def text_without(self, text: str, index: int) -> str:
        """One of its `texts` without a part."""
        return text


def kinds() -> dict[str, type[Column]]:
    """The kinds of columns by name, in their order."""
    return dict(sorted(((name, COLUMNS.get(name)) for name in COLUMNS.names()), key=lambda item: item[1].order))


def pick_kind(name: str) -> None:
    pick(dict.fromkeys((*kinds(), IGNORE)), name, "kind of column")


def infer_kind(column: pd.Series) -> tuple[str, str]:
    """The kind of a column, and the reason if it is ignored or had to be guessed.

    >>> infer_kind(pd.Series(["a.png", None, "b.png"])), infer_kind(pd.Series([1.5, 2.0]))
    (('image', ''), ('number', ''))
    >>> infer_kind(pd.Series(["3.10.2020", "24.12.2021"]))
    ('number', 'dates, day first (%d.%m.%Y)')
    """
    values = column[~missing(column)]
    if not len(values):
        return IGNORE, "it is empty"
    constant = (values if pd.api.types.is_numeric_dtype(values) else values.astype(str)).nunique() == 1
    for kind in sorted(kinds().values(), key=lambda kind: kind.precedence):
        guess = kind.recognise(values) if kind.may_be_constant or not constant else None
        if guess is not None:
            return IGNORE if guess.ignored else kind.kind, guess.note
    if min(len(values), len(column) - len(values)) >= 5:  # as a box to check
        return "category", "one value, or none"
    return IGNORE, "it is constant"  # a category can be anything else
