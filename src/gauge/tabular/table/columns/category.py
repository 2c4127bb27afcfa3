"""One of the categories seen in training. A column of many keeps the most frequent ones, the others are rare; what training
has not seen counts as rare where a column has rare values, and as missing elsewhere."""

import logging
import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd
from pydantic import Field

from gauge.tabular.table.cells import (
    as_words,
    cells_of,
    has_category_type,
    is_missing,
    missing,
    normal_form,
    plain_cells,
    without_fraction,
    written_alike,
)
from gauge.tabular.table.columns import MIN_IDENTIFIERS, Cell, Guess, Question, ReadOptions
from gauge.tabular.table.guard import note, upper_share
from gauge.tabular.table.numbers import are_codes, unread_numbers

__all__ = ["Category"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Category(Cell):
    """`words` are the categories that are kept, in order, as text. If there are others, one more category, the last, stands
    for all of them, and `rare_words` are those that occur more than once, which trees and the linear expert tell apart; at
    most the share `once` of further values is none of these, but for chance: 0 where every category has at least 5 rows."""

    name: str
    words: tuple[str, ...]
    has_rare: bool = False
    rare_words: tuple[str, ...] = ()
    once: float = 0.0
    kind: ClassVar[str] = "category"
    order: ClassVar[int] = 1
    precedence: ClassVar[int] = 4
    unread_reason: ClassVar[str] = "was not seen in training"
    max_rare_words: ClassVar[int] = 10_000
    display: ClassVar[Any] = "category"

    @classmethod
    def recognise(cls, values: pd.Series) -> Guess | None:
        if has_category_type(values):
            return Guess()
        words = as_words(values)
        if words.nunique() == len(words) > MIN_IDENTIFIERS:
            several = "; numbers in it would need columns of their own" if unread_numbers(words) else ""
            return Guess(f"every value is different, as in an identifier{several}", ignored=True)
        return Guess("digits are read as codes, not as a number" if are_codes(values) else "")

    @classmethod
    def from_column(cls, column: pd.Series, options: ReadOptions = ReadOptions()) -> "Category":
        counts, limit = _counts(column[~missing(column)]), options.max_categories
        rare = _rare(counts, limit)
        for problem in filter(None, (rare, unread_numbers(counts))):
            logger.warning("column %r: %s", column.name, problem)
        ranked = counts.most_common()
        # nothing can be learned from one row, and be tried on another
        known = [word for word, count in ranked[limit : limit + cls.max_rare_words] if count >= 2]
        kept = sorted(word for word, _ in ranked[:limit])
        others = counts.total() - sum(counts[word] for word in (*kept, *known))
        new = sum(count == 1 for count in counts.values())  # as many are new in further rows (Good and Turing)
        closed = min(counts.values()) >= 5 and not rare  # no category is rare, so that none should be new
        once = 0.0 if closed else upper_share(others + new, counts.total())
        return cls(str(column.name), tuple(kept), bool(rare), tuple(sorted(known)), once)

    @classmethod
    def inspect(cls, values: pd.Series, options: ReadOptions = ReadOptions()) -> tuple[np.ndarray, list[str]]:
        absent, problems = super().inspect(values, options)
        counts = _counts(values)
        problems += filter(None, (_rare(counts, options.max_categories), unread_numbers(counts)))
        if alike := written_alike(counts):
            first = ", ".join(map(repr, alike[:4]))
            problems.append(f"categories differ only in spaces or capital letters ({first}); write the same alike")
        return absent, problems

    @property
    def saved_problem(self) -> str:
        words = (*self.words, *self.rare_words)
        fine = 1 <= len(self.words) <= 4096 and len(self.rare_words) <= self.max_rare_words
        if not fine or len(set(words)) < len(words):
            return "it has no categories, more than 4096, or one twice"
        return "" if self.has_rare or not self.rare_words else "it has rare categories, and none is rare"

    @property
    def cardinality(self) -> int:
        return max(2, len(self.words) + self.has_rare)

    @property
    def rare_code(self) -> int | None:
        return len(self.words) if self.has_rare else None

    @property
    def level_count(self) -> int:
        return self.cardinality + len(self.rare_words)

    @cached_property
    def codes(self) -> dict[str, float]:
        return {word: float(index) for index, word in enumerate(self.words)}

    @cached_property
    def alike(self) -> dict[str, str]:
        """The category of each normal form that one category alone has; 1 and 0 are truth values where there are such."""
        forms = Counter(map(normal_form, (*self.words, *self.rare_words)))
        alike = {form: word for word in (*self.words, *self.rare_words) if forms[form := normal_form(word)] == 1}
        return alike | {"1": alike["true"], "0": alike["false"]} if sorted(alike) == ["false", "true"] else alike

    @staticmethod
    def clean(column: pd.Series) -> pd.Series:
        return column if isinstance(column.dtype, pd.StringDtype) else plain_cells(column)

    def numbers(self, column: pd.Series, *, training: bool = False) -> np.ndarray:
        cells, known = cells_of(column), self.codes
        texts = isinstance(column.dtype, pd.StringDtype)
        words = cells if texts else [cell if type(cell) is str else None for cell in cells]
        codes = np.fromiter(map(known.get, words, repeat(math.nan)), np.float64, len(cells))
        # most values are written as in training
        others = [row for row in np.flatnonzero(np.isnan(codes)).tolist() if not is_missing(cells[row])]
        written = [self._known_word(cells[row]) for row in others]
        codes[others] = [known.get(word, math.nan) for word in written]
        unknown = {row: word for row, word in zip(others, written, strict=True) if word not in known}
        rows = list(unknown)
        if self.has_rare:
            codes[rows] = self.rare_code
            new = [row for row, word in unknown.items() if word not in self.rare_numbers]
            note(column, new, "was seen once in training or never, and is read as rare", share=self.once)
        elif rows:
            first = f"{str(column.iloc[rows[0]])!r:.100} {self.unread_reason}"
            self.report_unreadable(column, rows, first, share=self.once)
        return codes

    def quick_number(self, value: Any) -> float | None:
        if value is None or (type(value) is float and math.isnan(value)):
            return math.nan
        if type(value) is str and value in self.codes:
            return self.codes[value]
        return self.codes.get(self._known_word(value)) if type(value) in (str, int, float) else None

    def _known_word(self, cell: Any) -> str:
        """The category of a cell: as it is written, or the only one that differs from that in capital letters, spaces, or
        the way in which accents are encoded."""
        word = without_fraction(cell)
        known = word in self.codes or word in self.rare_numbers
        return word if known else self.alike.get(normal_form(word), word)

    def rare_levels(self, column: pd.Series) -> np.ndarray:
        cells = cells_of(self.clean(column))
        return np.array([self.rare_numbers.get(self._known_word(cell), len(self.words)) for cell in cells], np.int64)

    @cached_property
    def rare_numbers(self) -> dict[str, int]:
        """The level of every rare category that is told apart."""
        return {word: number for number, word in enumerate(self.rare_words, len(self.words) + 1)}

    def decode(self, value: float) -> str:
        code = max(round(value), 0)
        return "a rare value" if code == self.rare_code else self.words[min(code, len(self.words) - 1)]

    def new_share(self, counts: np.ndarray) -> float:
        """That of values which occurred once (Good and Turing), unless these are rare ones as those of training are."""
        return 0.0 if self.has_rare else float((counts == 1).sum() / max(counts.sum(), 1))

    def request_type(self, *, max_pixels: int) -> Any:
        return Annotated[str, Field(max_length=1000)] | bool | int | float | None

    def question(self) -> Question:
        return Question("choice", choices=self.words)


def _counts(values: pd.Series) -> Counter[str]:
    """How often each category occurs; none of the values is missing."""
    counts: Counter[str] = Counter()
    for text, count in Counter(values.map(str)).items():
        counts[without_fraction(text)] += count
    return counts


def _rare(counts: Counter[str], limit: int) -> str:
    """How many values are of categories that are not kept, a sentence; empty if all are kept."""
    if len(counts) <= limit:
        return ""
    rare = counts.total() - sum(count for _, count in counts.most_common(limit))
    return (
        f"{rare} of {counts.total()} values are rare: the {limit} most frequent of {len(counts)} categories are kept, the "
        "others are one for the network; max_categories= (--max-categories) keeps more"
    )
