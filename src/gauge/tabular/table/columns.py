"""The kinds of columns in a table: how their values become tensors, and how tensors become readable values again."""

import logging
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeGuard

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from gauge.data.images import gather, open_image
from gauge.tabular.table.numbers import Writing
from gauge.tabular.table.pretrained import Pretrained

logger = logging.getLogger(__name__)

Kind = Literal["number", "category", "text", "image"]
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
MISSING = frozenset({"", "?", "na", "n/a", "#n/a", "nan", "nat", "null", "unknown", "missing", "-", "--"})  # lower case
WHOLE = re.compile(r"^(-?\d+)\.0$")
WORD = re.compile(r"\w+|[^\w\s]")  # or a punctuation mark
KNOTS = 65  # quantiles that describe a column of numbers
EDGE = 0.001  # numbers beyond this quantile, on either side, are clipped to it
CATEGORIES = 255  # per column; rarer ones count as missing
VOCABULARY = 5000  # words per column
TEXT_WORDS = 48  # longest text, in words
TEXT_TOKENS = 64  # longest text for a pretrained encoder, in tokens
UNKNOWN, FIRST_WORD = 1, 2  # numbers of words; 0 is padding
TOLERATED = 0.1  # share of unreadable values in a training column that count as missing; more are an error
IMAGE_SIDE = 64  # pixels
FINE_COLUMNS = 500  # numbers and categories that have a unit each; more are one unit in all, as attention is quadratic


def missing(column: pd.Series) -> pd.Series:
    """True where a cell is NaN, None, NaT, blank, or a word such as "NA", "?" and "unknown"."""
    if column.dtype.kind in "biufMm":
        return column.isna()
    if isinstance(column.dtype, pd.StringDtype):  # each different text is looked at once
        codes, texts = pd.factorize(column)
        flags = [*(text.strip().lower() in MISSING for text in texts), True]
        return pd.Series(np.array(flags)[codes], column.index, name=column.name)
    words = column.map(lambda value: isinstance(value, str) and value.strip().lower() in MISSING)
    return column.isna() | words.astype(bool)


@dataclass(frozen=True)
class Number:
    """Numbers and dates, encoded as normal scores of their rank in training: scale and outliers do not matter."""

    name: str
    values: tuple[float, ...]
    ranks: tuple[float, ...]
    date: bool = False
    decimal: str = "."
    unit: str = ""
    date_format: str = "ISO8601"
    guessed: bool = False
    kind: ClassVar[Kind] = "number"
    cardinality: ClassVar[int] = 1

    @classmethod
    def of(cls, column: pd.Series) -> "Number":
        values = column[~missing(column)]
        writing = Writing.of(values) or Writing()
        numbers = writing.read(values)
        if np.isnan(numbers).all():
            _report_unreadable(values, range(len(values)), f"{str(values.iloc[0])!r} is not a number", len(values))
        grid = np.linspace(0, 1, KNOTS)
        quantiles = pd.Series(grid).groupby(np.quantile(numbers[~np.isnan(numbers)], grid)).mean()
        form = (bool(writing.date), writing.decimal, writing.unit, writing.date or "ISO8601", writing.guessed)
        return cls(str(column.name), tuple(quantiles.index), tuple(quantiles), *form)

    def encode(self, column: pd.Series, training: bool = False) -> np.ndarray:
        ranks = np.interp(self._read(column, training), self.values, self.ranks)
        return ndtri(ranks.clip(EDGE, 1 - EDGE))

    def decode(self, value: float) -> str:
        number = float(np.interp(ndtr(value), self.ranks, self.values))
        return str(np.datetime64(math.floor(number), "D")) if self.date else f"{number:.4g}"

    @property
    def writing(self) -> Writing:
        return Writing(self.decimal, self.unit, self.date_format if self.date else "", self.guessed)

    def _read(self, column: pd.Series, training: bool) -> np.ndarray:
        """The cells as numbers; NaN where they are missing."""
        rows = np.flatnonzero(~missing(column))
        values, numbers = column.iloc[rows], np.full(len(column), np.nan)
        numbers[rows] = self.writing.read(values)
        unreadable = rows[np.isnan(numbers[rows])]
        if len(unreadable):
            this, other = ("date", "number") if self.date else ("number", "date")
            first = f"{str(column.iloc[unreadable[0]])!r}"
            given = Writing.of(values) if len(unreadable) == len(rows) else None
            if given and bool(given.date) != self.date:
                raise ValueError(
                    f"column {column.name!r}, row {values.index[0]}: {first} is a {other}, but the column held "
                    f"{this}s in training; give {this}s, or leave the column empty"
                )
            form = f"date such as {self.writing.example}" if self.date else "number"
            _report_unreadable(column, unreadable, f"{first} is not a {form}", len(rows) if training else None)
        return numbers


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
        codes, words = _words(column[~missing(column)])
        counts: Counter[str] = Counter()
        for word, count in zip(words, np.bincount(codes, minlength=len(words)).tolist(), strict=True):
            counts[word] += count
        name = str(column.name)
        if len(counts) > CATEGORIES:
            logger.warning("column %r keeps %d of %d categories, the most frequent", name, CATEGORIES, len(counts))
        return cls(name, tuple(word for word, _ in sorted(counts.most_common(CATEGORIES))))

    def encode(self, column: pd.Series, training: bool = False) -> np.ndarray:
        available = ~missing(column)
        numbers = {word: float(index) for index, word in enumerate(self.words)}
        codes = np.full(len(column), np.nan)
        positions, words = _words(column[available])
        codes[available] = np.array([numbers.get(word, np.nan) for word in words])[positions]
        unknown = np.flatnonzero(available & np.isnan(codes))
        if len(unknown) and not training:  # in training `of` has reported rare ones
            logger.warning(
                "column %r: %d values were not seen in training, or too rare there, and count as missing, "
                "first %.100r (row %s)",
                *(self.name, len(unknown), str(column.iloc[unknown[0]]), column.index[unknown[0]]),
            )
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
        lengths = np.array([len(text) for text in texts])
        length = int(np.clip(np.quantile(lengths, 0.95), 1, TEXT_WORDS))
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
class ImageFiles:
    """The folder that image paths are relative to; they have to stay in it unless `outside` is True."""

    folder: Path = Path()
    outside: bool = True

    def path(self, value: str) -> Path | None:
        """The file, None if it lies outside. `..` is resolved as written, so links within the folder may lead elsewhere."""
        folder = os.path.abspath(self.folder)
        path = Path(os.path.normpath(os.path.join(folder, value)))
        return path if self.outside or path.is_relative_to(folder) else None


@dataclass(frozen=True)
class Image:
    """Images, given by the paths of their files or as the bytes of these, and resized to `side` x `side` pixels; one without
    a file is missing."""

    name: str
    side: int = IMAGE_SIDE
    model: Pretrained | None = None
    kind: ClassVar[Kind] = "image"

    @classmethod
    def of(cls, column: pd.Series, source: str) -> "Image":
        """In the size that a pretrained model expects."""
        model = Pretrained.of_image(source)
        return cls(str(column.name), model.side, model)

    def encode(self, column: pd.Series, files: ImageFiles, training: bool = False) -> tuple[np.ndarray, np.ndarray]:
        cells = {row: column.iloc[row] for row in np.flatnonzero(~missing(column)).tolist()}
        sources = {row: cell if isinstance(cell, bytes) else files.path(str(cell)) for row, cell in cells.items()}
        available = {row: source for row, source in sources.items() if isinstance(source, bytes) or _is_file(source)}
        outside = [row for row, source in sources.items() if source is None]
        without_file = [row for row, source in sources.items() if source is not None and row not in available]
        for rows, what in ((without_file, "do not exist"), (outside, f"lie outside {files.folder}")):
            if rows:
                logger.warning(
                    "column %r: %d image files %s and count as missing, first %.100s (row %s)",
                    *(self.name, len(rows), what, column.iloc[rows[0]], column.index[rows[0]]),
                )
        broken: dict[int, str] = {}
        sides = [0]

        def read(row: int) -> np.ndarray:
            try:
                image = open_image(available[row])
            except ValueError as error:
                broken[row] = str(error)
                return np.zeros((3, self.side, self.side), np.uint8)
            sides.append(max(image.size))
            return np.asarray(image.resize((self.side, self.side))).transpose(2, 0, 1)

        images, observed = np.zeros((len(column), 3, self.side, self.side), np.uint8), np.zeros(len(column), bool)
        rows = list(available)
        images[rows] = gather(rows, self.side, read)
        observed[rows] = [row not in broken for row in rows]
        if broken:
            _report_unreadable(column, sorted(broken), broken[min(broken)], len(rows) if training else None)
        if training and max(sides) > self.side:
            logger.warning(
                "column %r: images of up to %d pixels are shrunk to %d x %d; image_size= (--image-size) sets another size",
                *(self.name, max(sides), self.side, self.side),
            )
        return images, observed


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


def _is_file(path: Path | None) -> TypeGuard[Path]:
    return path is not None and os.path.isfile(path)


def _report_unreadable(column: pd.Series, rows: Sequence[int] | np.ndarray, reason: str, of: int | None) -> None:
    """Unreadable values count as missing. In training, where they are rows out of `of`, many of them are an error."""
    others = f", and {len(rows) - 1} more cannot be read" if len(rows) > 1 else ""
    message = f"column {column.name!r}, row {column.index[rows[0]]}: {reason}{others}"
    if of is not None and len(rows) > TOLERATED * of:
        raise ValueError(
            f"{message}; fix them, leave unknown cells empty, or set the column's kind (columns=, --column)"
        )
    logger.warning("%s; counted as missing", message)


def _words(column: pd.Series) -> tuple[np.ndarray, list[str]]:
    """The different values as texts, and which of them each cell has; 1.0 becomes 1, since pandas turns integers into
    floats where cells are missing."""
    codes, texts = pd.factorize(column.map(str))
    return codes, [WHOLE.sub(r"\1", text.strip()) for text in texts]
