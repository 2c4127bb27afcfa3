"""One of the categories seen in training; any other counts as missing."""

import logging
import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd
from pydantic import Field

from gauge.tabular.table.columns import (
    DEFAULT_OPTIONS,
    MIN_IDENTIFIERS,
    Cell,
    Guess,
    ImageFiles,
    Question,
    ReadOptions,
    has_category_type,
    missing,
    missing_cells,
)
from gauge.tabular.table.numbers import are_codes, plain_cells, without_fraction

__all__ = ["Category"]

logger = logging.getLogger(__name__)

MAX_CATEGORIES = 255  # per column; rarer ones are encoded as missing ones are
MAX_CHARACTERS = 1000  # of a category in a request


@dataclass(frozen=True)
class Category(Cell):
    """`words` are the categories in order, as text."""

    name: str
    words: tuple[str, ...]
    kind: ClassVar[str] = "category"
    order: ClassVar[int] = 1
    precedence: ClassVar[int] = 4
    unread_reason: ClassVar[str] = "was not seen in training, or too rare there"
    display: ClassVar[Any] = "category"

    @classmethod
    def recognise(cls, values: pd.Series) -> Guess | None:
        if has_category_type(values):
            return Guess()
        words = values.astype(str)
        if words.nunique() == len(words) > MIN_IDENTIFIERS and not words.str.contains(r"\s").any():
            return Guess("every value is different, as in an identifier", ignored=True)
        return Guess("digits are read as codes, not as a number" if are_codes(values) else "")

    @classmethod
    def from_column(cls, column: pd.Series, options: ReadOptions = DEFAULT_OPTIONS) -> "Category":
        counts = _counts(column[~missing(column)])
        if rare := _rare(counts):
            logger.warning("column %r: %s", column.name, rare)
        return cls(str(column.name), tuple(word for word, _ in sorted(counts.most_common(MAX_CATEGORIES))))

    @classmethod
    def inspect(cls, values: pd.Series, files: ImageFiles) -> tuple[np.ndarray, list[str]]:
        absent, problems = super().inspect(values, files)
        if rare := _rare(_counts(values)):
            problems.append(rare)
        return absent, problems

    @property
    def saved_problem(self) -> str:
        fine = 1 <= len(self.words) <= MAX_CATEGORIES and len(set(self.words)) == len(self.words)
        return "" if fine else f"it has no categories, more than {MAX_CATEGORIES}, or one twice"

    @property
    def cardinality(self) -> int:
        return max(2, len(self.words))

    @cached_property
    def codes(self) -> dict[str, float]:
        """The number of every category."""
        return {word: float(index) for index, word in enumerate(self.words)}

    @staticmethod
    def clean(column: pd.Series) -> pd.Series:
        return plain_cells(column)

    def numbers(self, column: pd.Series, *, training: bool = False) -> np.ndarray:
        available = ~missing_cells(column)
        cells = column.tolist()
        codes = np.full(len(column), np.nan)
        codes[available] = [self._code(cells[row]) for row in np.flatnonzero(available)]
        unknown = np.flatnonzero(available & np.isnan(codes))
        if len(unknown) and not training:  # in training `from_column` has reported rare ones
            logger.warning(
                "column %r: %d values were not seen in training, or too rare there, and count as missing, "
                "first %.100r (row %s)",
                *(self.name, len(unknown), str(column.iloc[unknown[0]]), column.index[unknown[0]]),
            )
        return codes

    def _code(self, value: Any) -> float:
        """The number of a category, NaN if there is none; most values are written as in training."""
        code = self.codes.get(value) if type(value) is str else None
        return self.codes.get(_word(value), math.nan) if code is None else code

    def quick_number(self, value: Any) -> float | None:
        if value is None or (type(value) is float and math.isnan(value)):
            return math.nan
        if type(value) is str and value in self.codes:
            return self.codes[value]
        return self.codes.get(_word(value)) if type(value) in (str, int, float) else None

    def rare(self, column: pd.Series) -> np.ndarray:
        if len(self.words) < MAX_CATEGORIES:  # all were kept
            return super().rare(column)
        column = self.clean(column)
        return ~missing_cells(column) & np.isnan(self.numbers(column, training=True))

    def decode(self, value: float) -> str:
        return self.words[min(max(round(value), 0), len(self.words) - 1)]

    def request_type(self, *, max_pixels: int) -> Any:
        return Annotated[str, Field(max_length=MAX_CHARACTERS)] | bool | int | float | None

    def question(self) -> Question:
        return Question("choice", choices=self.words)


def _counts(values: pd.Series) -> Counter[str]:
    """How often each category occurs; none of the values is missing."""
    codes, words = _words(values)
    counts: Counter[str] = Counter()
    for word, count in zip(words, np.bincount(codes, minlength=len(words)).tolist(), strict=True):
        counts[word] += count
    return counts


def _rare(counts: Counter[str]) -> str:
    """How many values are of categories that are not kept, a sentence; empty if all are kept."""
    if len(counts) <= MAX_CATEGORIES:
        return ""
    rare = counts.total() - sum(count for _, count in counts.most_common(MAX_CATEGORIES))
    return (
        f"{rare} of {counts.total()} values are rare: the {MAX_CATEGORIES} most frequent of {len(counts)} categories are "
        "kept, and nothing is learned from the others"
    )


def _words(column: pd.Series) -> tuple[np.ndarray, list[str]]:
    """The different values as texts, and which of them each cell has."""
    codes, texts = pd.factorize(column.map(str))
    return codes, [_word(text) for text in texts]


def _word(value: Any) -> str:
    """The category of a cell; that of 1.0 is 1, since pandas turns integers into floats where cells are missing."""
    return without_fraction(str(value).strip())
