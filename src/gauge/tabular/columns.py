"""The kinds of columns in a table: how their values become tensors, and how tensors become readable values again."""

import logging
import re
from collections import Counter
from collections.abc import Callable, Sequence
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
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
DATE = r"\d{4}-\d{2}-\d{2}"
WORD = re.compile(r"\w+|[^\w\s]")  # or a punctuation mark
KNOTS = 65  # quantiles that describe a column of numbers
EDGE = 0.001  # numbers beyond this quantile, on either side, are clipped to it
CATEGORIES = 255  # per column; rarer ones count as missing
VOCABULARY = 5000  # words per column
TEXT_WORDS = 48  # longest text, in words
TEXT_TOKENS = 64  # longest text for a pretrained encoder, in tokens
UNKNOWN, FIRST_WORD = 1, 2  # numbers of words; 0 is padding
TOLERATED = 0.1  # share of unreadable values in a column that count as missing; more are an error


def missing(column: pd.Series) -> pd.Series:
    """True where a cell is NaN, None, NaT or blank."""
    if column.dtype.kind in "biufMm":
        return column.isna()
    blank = column.map(lambda value: isinstance(value, str) and not value.strip())
    return column.isna() | blank.astype(bool)


@dataclass(frozen=True)
class Number:
    """Numbers and dates, encoded as normal scores of their rank in training: scale and outliers do not matter."""

    name: str
    values: tuple[float, ...]
    ranks: tuple[float, ...]
    date: bool = False
    kind: ClassVar[Kind] = "number"
    cardinality: ClassVar[int] = 1

    @classmethod
    def of(cls, column: pd.Series) -> "Number":
        date = holds_dates(column)
        numbers = _numbers(column, date=date)
        grid = np.linspace(0, 1, KNOTS)
        quantiles = pd.Series(grid).groupby(np.quantile(numbers[~np.isnan(numbers)], grid)).mean()
        return cls(str(column.name), tuple(quantiles.index), tuple(quantiles), date)

    def encode(self, column: pd.Series) -> np.ndarray:
        ranks = np.interp(_numbers(column, date=self.date), self.values, self.ranks)
        return ndtri(ranks.clip(EDGE, 1 - EDGE))

    def decode(self, value: float) -> str:
        number = float(np.interp(ndtr(value), self.ranks, self.values))
        return str(pd.Timestamp(number, unit="D").date()) if self.date else f"{number:.4g}"


@dataclass(frozen=True)
class Category:
    """One of the categories seen in training; any other counts as missing."""

    name: str
    words: tuple[str, ...]
    kind: ClassVar[Kind] = "category"

    @property
    def cardinality(self) -> int:
        return max(2, len(self.words))

    @classmethod
    def of(cls, column: pd.Series) -> "Category":
        name, counts = str(column.name), Counter(_words(column[~missing(column)]))
        if len(counts) > CATEGORIES:
            logger.warning("column %r keeps %d of %d categories, the most frequent", name, CATEGORIES, len(counts))
        return cls(name, tuple(word for word, _ in sorted(counts.most_common(CATEGORIES))))

    def encode(self, column: pd.Series) -> np.ndarray:
        available = ~missing(column)
        numbers = {word: float(index) for index, word in enumerate(self.words)}
        codes = np.full(len(column), np.nan)
        codes[available] = [numbers.get(word, np.nan) for word in _words(column[available])]
        if unknown := int(np.isnan(codes[available]).sum()):
            logger.warning("column %r: %d values were not seen in training and count as missing", self.name, unknown)
        return codes

    def decode(self, value: float) -> str:
        return self.words[min(max(round(value), 0), len(self.words) - 1)]


@dataclass(frozen=True)
class Text:
    """Words, encoded as their numbers in the vocabulary of the training texts: 0 is padding, 1 an unknown word."""

    name: str
    words: tuple[str, ...]
    length: int
    kind: ClassVar[Kind] = "text"

    @classmethod
    def of(cls, column: pd.Series) -> "Text":
        texts = [WORD.findall(str(text)) for text in column[~missing(column)]]
        counts = Counter(word.lower() for text in texts for word in text)
        length = int(np.clip(np.quantile([len(text) for text in texts], 0.95), 1, TEXT_WORDS))
        known = [word for word, _ in sorted(counts.most_common(VOCABULARY), key=lambda item: (-item[1], item[0]))]
        return cls(str(column.name), tuple(known), length)

    def encode(self, column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
        codes = {word: number for number, word in enumerate(self.words, FIRST_WORD)}
        return _padded(
            column, self.length, lambda text: [codes.get(word.lower(), UNKNOWN) for word in self.split(text)]
        )

    def split(self, text: str) -> list[str]:
        """The words that become units, as written."""
        return WORD.findall(text)[: self.length]

    def decode(self, numbers: Sequence[int]) -> list[str]:
        """The words without padding."""
        return [self.words[number - FIRST_WORD] if number >= FIRST_WORD else "…" for number in numbers if number]


@dataclass(frozen=True)
class PretrainedText:
    """Tokens, encoded as their numbers in a pretrained tokenizer plus one: 0 is padding. `prefix` and `suffix` are the
    special tokens around a text ([CLS], [SEP]): the encoder adds them, and they are never shown."""

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
        encoded = model.tokenizer(texts, return_special_tokens_mask=True, verbose=False)
        lengths = [mask.count(0) for mask in encoded["special_tokens_mask"]]
        longest = int(np.argmax(lengths))
        if not lengths[longest]:
            raise ValueError(
                f"the tokenizer of {source!r} finds no token in {column.name!r}; use a model of its language"
            )
        tokens, mask = encoded["input_ids"][longest], encoded["special_tokens_mask"][longest]
        start, end = mask.index(0), len(mask) - mask[::-1].index(0)
        length = int(np.clip(np.quantile(lengths, 0.95), 1, TEXT_TOKENS))
        return cls(str(column.name), length, tuple(tokens[:start]), tuple(tokens[end:]), model)

    def encode(self, column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
        return _padded(column, self.length, lambda text: [token + 1 for token in self._tokens(text)["input_ids"]])

    def split(self, text: str) -> list[str]:
        """The pieces of a text that become units, as written."""
        spans = self._tokens(text, return_offsets_mapping=True)["offset_mapping"][: self.length]
        return [text[start:end].strip() or "…" for start, end in spans]

    def decode(self, numbers: Sequence[int]) -> list[str]:
        """The tokens without padding."""
        tokenizer, special = self.model.tokenizer, set(self.model.tokenizer.all_special_ids)
        tokens = [number - 1 for number in numbers if number]
        return ["…" if token in special else tokenizer.decode([token]).strip() or "…" for token in tokens]

    def _tokens(self, text: str, **options: bool) -> Any:
        return self.model.tokenizer(text, add_special_tokens=False, verbose=False, **options)


@dataclass(frozen=True)
class Image:
    """Images, given by the paths of their files or as the bytes of these, and resized to `side` x `side` pixels; one without
    a file is missing."""

    name: str
    side: int = 64
    model: Pretrained | None = None
    kind: ClassVar[Kind] = "image"

    @classmethod
    def of(cls, column: pd.Series, source: str) -> "Image":
        """In the size that a pretrained model expects."""
        model = Pretrained.of_image(source)
        return cls(str(column.name), model.side, model)

    def encode(self, column: pd.Series, folder: Path) -> tuple[np.ndarray, np.ndarray]:
        given = {row: column.iloc[row] for row in np.flatnonzero(~missing(column)).tolist()}
        sources = {row: cell if isinstance(cell, bytes) else folder / str(cell) for row, cell in given.items()}
        if without_file := [
            row for row, source in sources.items() if isinstance(source, Path) and not source.is_file()
        ]:
            first = without_file[0]
            logger.warning(
                "column %r: %d image files do not exist and count as missing, first %s (row %s)",
                *(self.name, len(without_file), sources[first], column.index[first]),
            )
        rows = sorted(sources.keys() - set(without_file))
        broken: dict[int, str] = {}

        def read(row: int) -> np.ndarray:
            try:
                return np.asarray(open_image(sources[row]).resize((self.side, self.side))).transpose(2, 0, 1)
            except ValueError as error:
                broken[row] = str(error)
                return np.zeros((3, self.side, self.side), np.uint8)

        images = np.zeros((len(column), 3, self.side, self.side), np.uint8)
        images[rows] = gather(rows, self.side, read)
        if broken:
            _report_unreadable(column, sorted(broken), broken[min(broken)], len(rows))
        available = np.zeros(len(column), bool)
        available[rows] = [row not in broken for row in rows]
        return images, available


Cell = Number | Category
Words = Text | PretrainedText
Column = Cell | Words | Image
COLUMNS: dict[str, Any] = {"number": Number, "category": Category, "text": Text, "image": Image}
PRETRAINED: dict[str, Any] = {"text": PretrainedText, "image": Image}


def _padded(column: pd.Series, length: int, tokenize: Callable[[str], list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of every text, cut or padded with 0 to `length`, and which rows have any."""
    numbers = np.zeros((len(column), length), np.int64)
    for row in np.flatnonzero(~missing(column)):
        tokens = tokenize(str(column.iloc[row]))[:length]
        numbers[row, : len(tokens)] = tokens
    return numbers, numbers[:, 0] > 0


def infer_kind(column: pd.Series) -> tuple[str, str]:
    """The kind of a column, and the reason if it is ignored.

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
    if words.str.lower().str.endswith(IMAGE_SUFFIXES).mean() > 0.8:
        return "image", ""
    if pd.to_numeric(words, errors="coerce").notna().mean() >= 1 - TOLERATED:
        return _unless_constant("number", values)
    distinct = words.nunique()
    if distinct > 20 and words.str.count(r"\w+").mean() >= 3:
        return "text", ""
    if distinct == len(words) > 20 and not words.str.contains(r"\s").any():
        return "ignore", "every value is different, as in an identifier"
    return _unless_constant("category", words)


def _unless_constant(kind: str, values: pd.Series) -> tuple[str, str]:
    return (kind, "") if values.nunique() > 1 else ("ignore", "it is constant")


def holds_dates(column: pd.Series) -> bool:
    """Whether all values are dates, as datetimes or as text that starts with year-month-day."""
    if pd.api.types.is_datetime64_any_dtype(column):
        return True
    values = column[~missing(column)]
    return not pd.api.types.is_numeric_dtype(values) and bool(values.astype(str).str.match(DATE).all())


def _numbers(column: pd.Series, *, date: bool) -> np.ndarray:
    """The cells as numbers, dates as days since 1970; NaN where they are missing."""
    available = ~missing(column).to_numpy()
    column = column.where(available)
    if date:
        dates = pd.to_datetime(column, errors="coerce", utc=True, format="ISO8601")
        numbers = ((dates - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)).to_numpy(np.float64)
    else:
        numbers = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    numbers = np.where(np.isinf(numbers), np.nan, numbers)
    unreadable = np.flatnonzero(np.isnan(numbers) & available)
    if len(unreadable):
        reason = f"{str(column.iloc[unreadable[0]])!r} is not a {'date' if date else 'number'}"
        _report_unreadable(column, unreadable, reason, int(available.sum()))
    return numbers


def _report_unreadable(column: pd.Series, rows: Sequence[int] | np.ndarray, reason: str, available: int) -> None:
    """A few unreadable values count as missing; many are an error."""
    others = f", and {len(rows) - 1} more cannot be read" if len(rows) > 1 else ""
    message = f"column {column.name!r}, row {column.index[rows[0]]}: {reason}{others}"
    if len(rows) > TOLERATED * available:
        raise ValueError(
            f"{message}; fix them, leave unknown cells empty, or set the column's kind (columns=, --column)"
        )
    logger.warning("%s; counted as missing", message)


def _words(column: pd.Series) -> list[str]:
    """Values as text; 1.0 becomes 1, since pandas turns integers into floats where cells are missing."""
    return [
        str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip() for value in column
    ]
