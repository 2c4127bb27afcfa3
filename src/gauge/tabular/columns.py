"""What a column of a table can hold, how its values become tensors, and what a value is in words."""

import logging
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from gauge.data.images import gather, open_image
from gauge.tabular.pretrained import Pretrained

logger = logging.getLogger(__name__)

Kind = Literal["number", "category", "text", "image"]
KINDS = ("number", "category", "text", "image", "ignore")
PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
DATE = r"\d{4}-\d{2}-\d{2}"
WORD = re.compile(r"\w+|[^\w\s]")
KNOTS = 65  # quantiles that describe a column of numbers
EDGE = 0.001  # how far out a number can lie: beyond these quantiles all are the same
CATEGORIES = 255  # of a column; rarer ones count as missing
VOCABULARY = 5000
TEXT_WORDS = 48  # of a text, at most
FIRST_WORD = 2  # the numbers before it stand for nothing and for an unknown word
TEXT_TOKENS = 64  # of a text that a pretrained encoder reads, at most


TOLERATED = 0.1  # the share of a column's values that may be unreadable: they count as missing


def missing(column: pd.Series) -> pd.Series:
    """Where a cell is NaN, None, NaT or blank."""
    if column.dtype.kind in "biufMm":
        return column.isna()
    blank = column.map(lambda value: isinstance(value, str) and not value.strip())
    return column.isna() | blank.astype(bool)


@dataclass(frozen=True)
class Number:
    """A number by its rank among the training values, as a normal score: outliers and units do not matter."""

    name: str
    values: tuple[float, ...]
    ranks: tuple[float, ...]
    date: bool = False
    kind: ClassVar[Kind] = "number"
    cardinality: ClassVar[int] = 1

    @classmethod
    def of(cls, column: pd.Series) -> "Number":
        date = holds_dates(column)
        found = _numbers(column, date=date)
        grid = np.linspace(0, 1, KNOTS)
        quantiles = pd.Series(grid).groupby(np.quantile(found[~np.isnan(found)], grid)).mean()
        return cls(str(column.name), tuple(quantiles.index), tuple(quantiles), date)

    def encode(self, column: pd.Series) -> np.ndarray:
        found = _numbers(column, date=self.date)
        return ndtri(np.interp(found, self.values, self.ranks).clip(EDGE, 1 - EDGE))

    def decode(self, value: float) -> str:
        number = float(np.interp(ndtr(value), self.ranks, self.values))
        return str(pd.Timestamp(number, unit="D").date()) if self.date else f"{number:.4g}"


@dataclass(frozen=True)
class Category:
    """One of some words; any other word is a missing value."""

    name: str
    words: tuple[str, ...]
    kind: ClassVar[Kind] = "category"

    @property
    def cardinality(self) -> int:
        return max(2, len(self.words))

    @classmethod
    def of(cls, column: pd.Series) -> "Category":
        counts = Counter(_words(column[~missing(column)]))
        if len(counts) > CATEGORIES:
            logger.warning(
                "column %r has %d categories; the %d most frequent are kept", column.name, len(counts), CATEGORIES
            )
        return cls(str(column.name), tuple(word for word, _ in sorted(counts.most_common(CATEGORIES))))

    def encode(self, column: pd.Series) -> np.ndarray:
        there = ~missing(column)
        codes = {word: float(place) for place, word in enumerate(self.words)}
        found = np.full(len(column), np.nan)
        found[there] = [codes.get(word, np.nan) for word in _words(column[there])]
        strange = int(np.isnan(found[there]).sum())
        if strange:
            logger.warning("column %r: %d values were never seen in training and count as missing", self.name, strange)
        return found

    def decode(self, value: float) -> str:
        return self.words[min(max(round(value), 0), len(self.words) - 1)]


@dataclass(frozen=True)
class Text:
    """Words by their numbers in a vocabulary that training texts gave: 0 is no word, 1 an unknown one."""

    name: str
    words: tuple[str, ...]
    length: int
    kind: ClassVar[Kind] = "text"

    @classmethod
    def of(cls, column: pd.Series) -> "Text":
        texts = [split_words(str(text)) for text in column[~missing(column)]]
        counts = Counter(word.lower() for text in texts for word in text)
        lengths = [len(text) for text in texts]
        known = [word for word, _ in sorted(counts.most_common(VOCABULARY), key=lambda item: (-item[1], item[0]))]
        return cls(str(column.name), tuple(known), int(min(max(np.quantile(lengths, 0.95), 1), TEXT_WORDS)))

    def encode(self, column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
        numbers = {word: place for place, word in enumerate(self.words, FIRST_WORD)}
        there = ~missing(column).to_numpy()
        found = np.zeros((len(column), self.length), np.int64)
        for row in np.flatnonzero(there):
            words = self.split(str(column.iloc[row]))
            found[row, : len(words)] = [numbers.get(word.lower(), FIRST_WORD - 1) for word in words]
            there[row] = len(words) > 0
        return found, there

    def split(self, text: str) -> list[str]:
        """The words that become units, as they stand."""
        return split_words(text)[: self.length]

    def decode(self, numbers: Sequence[int]) -> list[str]:
        """The words behind the numbers, up to the end of the text."""
        return [self.words[number - FIRST_WORD] if number >= FIRST_WORD else "…" for number in numbers if number]


@dataclass(frozen=True)
class PretrainedText:
    """Tokens by their numbers in a pretrained tokenizer plus one: 0 is no token. `prefix` and `suffix` are the special
    ones that it puts around a text ([CLS], [SEP]); they belong to the encoder, and people never see them."""

    name: str
    length: int
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    model: Pretrained
    kind: ClassVar[Kind] = "text"

    @classmethod
    def of(cls, column: pd.Series, source: str) -> "PretrainedText":
        model = Pretrained.of_text(source)
        texts = [str(text) for text in column[~missing(column)]]
        found = model.tokenizer(texts, return_special_tokens_mask=True, verbose=False)
        lengths = [mask.count(0) for mask in found["special_tokens_mask"]]
        longest = int(np.argmax(lengths))
        tokens, mask = found["input_ids"][longest], found["special_tokens_mask"][longest]
        if not lengths[longest]:
            raise ValueError(
                f"the tokenizer of {source!r} finds no token in column {column.name!r}; give a model of its language"
            )
        start, end = mask.index(0), len(mask) - mask[::-1].index(0)
        length = int(min(max(np.quantile(lengths, 0.95), 1), TEXT_TOKENS))
        return cls(str(column.name), length, tuple(tokens[:start]), tuple(tokens[end:]), model)

    def encode(self, column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
        there = ~missing(column).to_numpy()
        found = np.zeros((len(column), self.length), np.int64)
        for row in np.flatnonzero(there):
            tokens = self._tokens(str(column.iloc[row]))["input_ids"][: self.length]
            found[row, : len(tokens)] = np.array(tokens, np.int64) + 1
            there[row] = len(tokens) > 0
        return found, there

    def split(self, text: str) -> list[str]:
        """The pieces of a text that become units, as they stand there."""
        places = self._tokens(text, return_offsets_mapping=True)["offset_mapping"][: self.length]
        return [text[start:end].strip() or "…" for start, end in places]

    def decode(self, numbers: Sequence[int]) -> list[str]:
        """The tokens behind the numbers, up to the end of the text."""
        tokenizer, special = self.model.tokenizer, set(self.model.tokenizer.all_special_ids)
        tokens = [number - 1 for number in numbers if number]
        return ["…" if token in special else tokenizer.decode([token]).strip() or "…" for token in tokens]

    def _tokens(self, text: str, **options: bool) -> Any:
        return self.model.tokenizer(text, add_special_tokens=False, verbose=False, **options)


@dataclass(frozen=True)
class Image:
    """Pictures by the paths of their files, `side` pixels high and wide; one whose file is not there is missing."""

    name: str
    side: int = 64
    model: Pretrained | None = None
    kind: ClassVar[Kind] = "image"

    @classmethod
    def of(cls, column: pd.Series, source: str) -> "Image":
        """As large as a pretrained model takes them."""
        model = Pretrained.of_image(source)
        return cls(str(column.name), model.side, model)

    def encode(self, column: pd.Series, folder: Path) -> tuple[np.ndarray, np.ndarray]:
        given = np.flatnonzero(~missing(column))
        paths = {int(row): folder / str(column.iloc[row]) for row in given}
        absent = [row for row, path in paths.items() if not path.is_file()]
        if absent:
            logger.warning(
                "column %r: %d pictures are not there and count as missing, first %s (row %s)",
                self.name,
                len(absent),
                paths[absent[0]],
                column.index[absent[0]],
            )
        rows = [row for row in paths if row not in set(absent)]
        broken: dict[Path, str] = {}

        def square(path: Path) -> np.ndarray:
            try:
                return np.asarray(open_image(path).resize((self.side, self.side))).transpose(2, 0, 1)
            except ValueError as error:
                broken[path] = str(error)
                return np.zeros((3, self.side, self.side), np.uint8)

        found = np.zeros((len(column), 3, self.side, self.side), np.uint8)
        found[rows] = gather([paths[row] for row in rows], self.side, square)
        lost = [row for row in rows if paths[row] in broken]
        if lost:
            _tell_unreadable(column, lost, broken[paths[lost[0]]], len(rows))
        there = np.zeros(len(column), bool)
        there[rows] = True
        there[lost] = False
        return found, there


Cell = Number | Category
Words = Text | PretrainedText
Column = Cell | Words | Image
COLUMNS: dict[str, Any] = {"number": Number, "category": Category, "text": Text, "image": Image}
PRETRAINED: dict[str, Any] = {"text": PretrainedText, "image": Image}


def split_words(text: str) -> list[str]:
    """Words and signs as they stand.

    >>> split_words("No fever, 3 days.")
    ['No', 'fever', ',', '3', 'days', '.']
    """
    return WORD.findall(text)


def infer_kind(column: pd.Series) -> tuple[str, str]:
    """What a column seems to hold, and why it is ignored where it is.

    >>> infer_kind(pd.Series(["a.png", None, "b.png"])), infer_kind(pd.Series([1.5, 2.0]))
    (('image', ''), ('number', ''))
    """
    values = column[~missing(column)]
    if not len(values):
        return "ignore", "it is empty"
    if pd.api.types.is_bool_dtype(values) or isinstance(column.dtype, pd.CategoricalDtype):
        return _unless_constant("category", values)
    if pd.api.types.is_numeric_dtype(values) or holds_dates(values):
        return _unless_constant("number", values)
    words = values.astype(str)
    if words.str.lower().str.endswith(PICTURES).mean() > 0.8:
        return "image", ""
    if pd.to_numeric(words, errors="coerce").notna().mean() >= 1 - TOLERATED:
        return _unless_constant("number", values)
    distinct, length = words.nunique(), words.str.count(r"\w+").mean()
    if distinct > 20 and length >= 3:
        return "text", ""
    if distinct == len(words) > 20 and not words.str.contains(r"\s").any():
        return "ignore", "every value is another one, as in an identifier"
    return _unless_constant("category", words)


def _unless_constant(kind: str, values: pd.Series) -> tuple[str, str]:
    return (kind, "") if values.nunique() > 1 else ("ignore", "it is always the same")


def holds_dates(column: pd.Series) -> bool:
    """Whether all its values are dates, as such or written year-month-day."""
    if pd.api.types.is_datetime64_any_dtype(column):
        return True
    values = column[~missing(column)]
    return not pd.api.types.is_numeric_dtype(values) and bool(values.astype(str).str.match(DATE).all())


def _numbers(column: pd.Series, *, date: bool) -> np.ndarray:
    """The cells as numbers, dates as days; NaN where they are missing."""
    there = ~missing(column)
    if date:
        since = pd.to_datetime(column.where(there), errors="coerce", utc=True, format="ISO8601") - pd.Timestamp(
            0, tz="UTC"
        )
        values = (since / pd.Timedelta(days=1)).to_numpy(np.float64)
    else:
        values = pd.to_numeric(column.where(there), errors="coerce").to_numpy(np.float64, na_value=np.nan)
    values = np.where(np.isinf(values), np.nan, values)
    wrong = np.flatnonzero(np.isnan(values) & there.to_numpy())
    if len(wrong):
        reason = f"{str(column.iloc[wrong[0]])!r} is not a {'date' if date else 'number'}"
        _tell_unreadable(column, wrong, reason, int(there.sum()))
    return values


def _tell_unreadable(column: pd.Series, rows: Sequence[int] | np.ndarray, reason: str, filled: int) -> None:
    """A few values that cannot be read are missing ones; many are a mistake."""
    others = f", and {len(rows) - 1} more cannot be read" if len(rows) > 1 else ""
    told = f"column {column.name!r}, row {column.index[rows[0]]}: {reason}{others}"
    if len(rows) > TOLERATED * filled:
        raise ValueError(
            f"{told}; mend them, leave unknown cells empty, or say what the column holds (columns=, --column)"
        )
    logger.warning("%s; they count as missing", told)


def _words(column: pd.Series) -> list[str]:
    """Values as words; 1.0 is 1, as a column of whole numbers turns to fractions where cells are missing."""
    return [
        str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip() for value in column
    ]
