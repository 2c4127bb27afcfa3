"""Numbers, dates and times, encoded as normal scores of their rank in training: scale and outliers do not matter."""

import logging
import math
import re
from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from itertools import takewhile
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd
from pydantic import BeforeValidator, Field
from scipy.special import ndtr, ndtri

from gauge.tabular.table.cells import as_words, has_category_type, missing, plain_cells
from gauge.tabular.table.columns import MAX_UNREADABLE, MIN_IDENTIFIERS, Cell, Guess, Question, ReadOptions
from gauge.tabular.table.dates import DATES, MIN_SHARE, TIMES, ZONED, as_clock, zone
from gauge.tabular.table.guard import Limits, note_numbers
from gauge.tabular.table.numbers import MAX_LOOKED_AT, Writing, are_codes, are_whole, is_named, typed_numbers

__all__ = ["Number"]

logger = logging.getLogger(__name__)

PLAIN_WRITING = Writing()
# what programs write for none; the largest numbers are those of geographical files
CODES = r"-?(?:7{2,}|8{2,}|9{2,}|1e\+\d\d|3\.402\d*e\+38|9\.969\d*e\+36|1\.797\d*e\+308)"


@dataclass(frozen=True)
class Number(Cell):
    """`values` are quantiles of the training column, `ranks` their levels; `writing` says how its numbers are written,
    `clock` whether its dates have times of day, and `limits` which numbers are unlike them."""

    name: str
    values: tuple[float, ...]
    ranks: tuple[float, ...]
    writing: Writing = PLAIN_WRITING
    clock: bool = False
    limits: Limits | None = None
    quantile_count: ClassVar[int] = 65
    clip_quantile: ClassVar[float] = 0.001  # numbers beyond it, on either side, are clipped to it
    kind: ClassVar[str] = "number"
    order: ClassVar[int] = 0
    precedence: ClassVar[int] = 1
    display: ClassVar[Any] = "number"

    @classmethod
    def recognise(cls, values: pd.Series) -> Guess | None:
        values = values[~_none(values)]
        if has_category_type(values) or are_codes(values):
            return None
        writing = Writing.from_values(values)
        if writing is None:
            return None
        numbers = writing.read(values)
        if _has_levels(values, numbers):
            return None
        unread = values[np.isnan(numbers)].astype(str)
        if writing.date == TIMES and (unread.str.contains(r"\d").any() or len(unread) > (1 - MIN_SHARE) * len(values)):
            return None  # durations, or no times
        identifier = "" if writing.date else _why_identifier(values)
        return Guess(identifier, ignored=True) if identifier else Guess(writing.note)

    @classmethod
    def from_column(cls, column: pd.Series, options: ReadOptions = ReadOptions()) -> "Number":
        values = column[~(missing(column) | _none(column))]
        writing, numbers = _written_numbers(values, options)
        if np.isnan(numbers).all():
            cls.report_unreadable(values, range(len(values)), f"{str(values.iloc[0])!r} is not a number", len(values))
        for problem in _doubts(values, writing, numbers):
            logger.warning("column %r: %s", column.name, problem)
        levels = np.linspace(0, 1, cls.quantile_count)
        known = numbers[~np.isnan(numbers)]
        quantiles, position = np.unique(np.quantile(known, levels), return_inverse=True)
        ranks = np.bincount(position, levels) / np.bincount(position)
        clock = writing.date not in ("", TIMES) and bool((numbers % 1 > 0).any())
        limits = Limits.fit(known, ratios=not writing.date, clock=clock)
        return cls(str(column.name), tuple(quantiles.tolist()), tuple(ranks.tolist()), writing, clock, limits)

    @classmethod
    def inspect(cls, values: pd.Series, options: ReadOptions = ReadOptions()) -> tuple[np.ndarray, list[str]]:
        absent, problems = _none(values), list[str]()
        values = values[~absent]
        writing, numbers = _written_numbers(values, options)
        wrong = values[np.isnan(numbers)]
        problems += _doubts(values, writing, numbers)
        if len(wrong):
            outcome = "they count as missing" if len(wrong) <= MAX_UNREADABLE * len(values) else "too many to train on"
            example = f"{str(wrong.iloc[0])!r} (row {wrong.index[0]})"
            problems.append(f"{len(wrong)} of {len(values)} values cannot be read, e.g. {example}; {outcome}")
        return absent, problems

    @staticmethod
    def clean(column: pd.Series) -> pd.Series:
        return plain_cells(column)

    @cached_property
    def quantiles(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.values, np.float64), np.array(self.ranks, np.float64)

    def numbers(self, column: pd.Series, *, training: bool = False) -> np.ndarray:
        numbers = self._read(column, training)
        if not training and self.limits is not None:
            note_numbers(self, column, numbers)
        ranks = np.interp(numbers, *self.quantiles)
        return ndtri(np.minimum(np.maximum(ranks, self.clip_quantile), 1 - self.clip_quantile))

    @cached_property
    def bounds(self) -> np.ndarray:
        """Those of `Training`: limits and twentieths, the share of the latter, and what is unlike training within these."""
        assert self.limits is not None  # there are no bounds without
        values, ranks = self.quantiles
        low, high = values[ranks <= 0.05].max(initial=values[0]), values[ranks >= 0.95].min(initial=values[-1])
        limits = self.limits
        lowest, highest, nearest = limits.lowest, limits.highest, limits.nearest
        if values[0] > 0:  # what is near to 0 is beyond all of one sign
            lowest, nearest = max(lowest, nearest), 0
        elif values[-1] < 0:
            highest, nearest = min(highest, -nearest), 0
        whole = 1 if limits.whole else 0 if limits.clock else -1
        return np.array([lowest, low, highest, high, limits.ends, whole, nearest])

    @property
    def cycle_count(self) -> int:
        if not self.writing.date:
            return 0
        return 2 if self.writing.date == TIMES else 4 + 2 * self.clock

    def cycles(self, column: pd.Series) -> np.ndarray:
        """Of the hours of a day, of a date also the days of a week and of a year."""
        if not self.writing.date:
            return super().cycles(column)
        numbers = self._given(column)
        days = np.floor(numbers)
        turns = [days % 7 / 7, days % 365.2425 / 365.2425, *[numbers % 1] * self.clock]
        if self.writing.date == TIMES:
            turns = [numbers % 24 / 24]
        angles = 2 * np.pi * np.stack(turns, 1)
        return np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)

    def quick_number(self, value: Any) -> float | None:
        if value is None or (type(value) is float and math.isnan(value)):
            return math.nan
        if self.writing.date:
            value = self.writing.quick_date(value) if isinstance(value, str) else None
        elif type(value) not in (float, int) or not self.writing.takes_any_number or not abs(value) <= 1e300:
            return None
        if value is None or (self.limits is not None and self.limits.beyond(float(value))):
            return None
        rank = float(np.interp(value, *self.quantiles))
        return float(ndtri(min(max(rank, self.clip_quantile), 1 - self.clip_quantile)))

    def decode(self, value: float) -> str:
        number = float(np.interp(ndtr(value), self.ranks, self.values))
        return self.shown(number)

    def shown(self, number: float) -> str:
        """One of its numbers, days or hours as people write it."""
        if self.writing.date == TIMES:
            return as_clock(number)
        if self.writing.date:
            return _as_day(number)
        return f"{number:.4g}{' days' * self.writing.durations}"

    @property
    def bins(self) -> int:
        return 10

    def counts(self, numbers: np.ndarray) -> np.ndarray:
        """By tenths of the ranks."""
        ranks = ndtr(numbers[~np.isnan(numbers)].astype(float))
        return np.bincount(np.minimum((ranks * self.bins).astype(int), self.bins - 1), minlength=self.bins)

    def far(self, column: pd.Series) -> np.ndarray:
        return super().far(column) if self.limits is None else self.limits.beyond(self._given(column))

    def shift(self, old: np.ndarray, numbers: np.ndarray, column: pd.Series) -> str:
        below = np.concatenate([[0], np.cumsum(old)]) / old.sum()
        rank = np.interp(0.5, below, np.linspace(0, 1, len(below)))  # of the median of training
        then = self.shown(float(np.interp(rank, *reversed(self.quantiles))))
        now = self.shown(float(np.nanmedian(self._given(column))))
        beyond = float((np.abs(numbers[~np.isnan(numbers)].astype(float)) >= 3.09).mean())  # clipped, or almost
        ends = f", {100 * beyond:.0f} % at the ends of what training saw or beyond" if beyond > 0.05 else ""
        return f"median {now} instead of {then}{ends}" if now != then else f"spread differently{ends}, median {now}"

    def _given(self, column: pd.Series) -> np.ndarray:
        """The numbers of the cells, not clipped to those of training; NaN where they are missing."""
        numbers, known = np.full(len(column), np.nan), np.flatnonzero(~missing(column))
        numbers[known] = self.writing.read(self.clean(column.iloc[known]))
        return numbers

    @property
    def saved_problem(self) -> str:
        values, ranks = np.array(self.values), np.array(self.ranks)
        if not 1 <= len(values) == len(ranks) <= self.quantile_count:
            return f"it has {len(values)} quantiles at {len(ranks)} levels"
        if not (np.isfinite(values).all() and (np.diff(values) > 0).all() and (np.diff(ranks) > 0).all()):
            return "its quantiles do not rise"
        if not (ranks.min() >= 0 and ranks.max() <= 1):
            return "its levels are not between 0 and 1"
        if self.limits and not (np.isfinite(astuple(self.limits)).all() and self.limits.lowest <= values[0]):
            return "its limits are not those of its numbers"
        if self.writing.date and not -719_162 <= values[0] <= values[-1] <= 2_932_896:  # days from 1970
            return "its dates are not between the years 1 and 9999"
        known = self.writing.decimal in (".", ",") and self.writing.date in ("", "ISO8601", ZONED, TIMES, *DATES)
        return (
            "" if known and len(self.writing.unit) <= 100 else "its numbers are written in a way that is not supported"
        )

    @property
    def note(self) -> str:
        return self.writing.note

    def request_type(self, *, max_pixels: int) -> Any:
        if self.writing.date or self.writing.durations:
            given = BeforeValidator(lambda value: value if value is None else self._requested_text(value))
            return Annotated[str | None, given]
        written = BeforeValidator(lambda value: self._requested_number(value) if isinstance(value, str) else value)
        number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
        return Annotated[number | None if self.writing.takes_any_number else number | str | None, written]

    def question(self) -> Question:
        lowest, low, high, highest = (self._quantile(level) for level in (0.01, 0.05, 0.95, 0.99))
        unit = "days" if self.writing.durations else self.writing.unit * (not self.writing.date)
        low, high = (text.replace(".", self.writing.decimal) for text in (low, high))  # as people have to write them
        hint = f"Mostly {low} to {high}{f' {unit}' * bool(unit)}."
        if self.writing.durations:
            return Question("text", f"{hint} Write it with its unit.")
        if self.writing.date == ZONED:
            return Question("text", f"{hint} Write it as {self.writing.example}.")
        return Question(self.writing.noun, hint, low=lowest, high=highest)

    def _quantile(self, level: float) -> str:
        """A quantile of the training column: an ISO date, a time, or a number of three digits without an exponent."""
        if self.writing.date:
            return self.decode(float(ndtri(level)))
        number = np.interp(level, self.ranks, self.values)
        return np.format_float_positional(number, precision=3, unique=False, fractional=False, trim="-")

    def _requested_number(self, text: str) -> float | str:
        """The number in a text that is written as those of the training table; the text itself where it says what the number
        alone does not: 0.5 is half of a percent, or of the whole, without the sign."""
        own = self.writing
        if own.quick and own.thirds and re.fullmatch(r"[+-]?[0-9]{1,15}(?:\.[0-9]{1,15})?", text):
            return float(text)  # far faster than a column of one cell
        number = float(own.read(pd.Series([text], dtype=object))[0])
        if math.isnan(number):
            raise ValueError("is not a valid number; send a number, or text as it was written in training")
        return number if own.takes_any_number else text

    def _requested_text(self, text: Any) -> str:
        """The text, if it is written as the dates, times or durations of the training table, or an ISO date for a date."""
        if isinstance(text, str) and self.writing.date and self.writing.quick_date(text) is not None:
            return text  # far faster than a column of one cell
        if not isinstance(text, str) or np.isnan(self.writing.read(pd.Series([text], dtype=object))).any():
            if self.writing.durations:
                raise ValueError("is not a number with its unit; write it as 5 days")
            example = self.writing.example if self.writing.date in (TIMES, ZONED) else "2026-01-31"
            zoned = self.writing.date not in (TIMES, ZONED) and not math.isnan(zone(text))
            without = ", without its zone, as in training" if zoned else ""
            raise ValueError(f"is not a {self.writing.noun}{without}; write it as {example}{' 14:35' * zoned}")
        return text

    def _read(self, column: pd.Series, training: bool) -> np.ndarray:
        """The cells as numbers; NaN where they are missing."""
        if self.writing.takes_any_number and isinstance(column.dtype, np.dtype) and column.dtype.kind in "iuf":
            numbers = np.asarray(column.values, np.float64)  # to_numpy takes several times as long
            if not np.isinf(numbers).any():
                return numbers
        rows = np.flatnonzero(~(missing(column) | _none(column)))
        values, numbers = column if len(rows) == len(column) else column.iloc[rows], np.full(len(column), np.nan)
        numbers[rows] = self.writing.read(values)
        unreadable = rows[np.isnan(numbers[rows])]
        if len(unreadable):
            this = self.writing.noun
            first = f"{str(column.iloc[unreadable[0]])!r}"
            given = None
            if len(unreadable) == len(rows) > 1:  # one cell says nothing of its column
                given = Writing.from_values(column.infer_objects().iloc[rows])
            if given and given.noun != this:
                raise ValueError(
                    f"column {column.name!r}, row {values.index[0]}: {first} is a {given.noun}, but the column held "
                    f"{this}s in training; give {this}s, or leave the column empty"
                )
            form = "number with a decimal comma" if self.writing.decimal == "," else "number"
            form = f"{this} such as {self.writing.example}" if self.writing.date else form
            self.report_unreadable(column, unreadable, f"{first} is not a {form}", len(rows) if training else None)
        return numbers


def _none(cells: pd.Series) -> np.ndarray:
    """Python's None as texts say it, which is a level of categories and counts as missing among numbers."""
    return np.asarray(cells.isin(["None", "none"]), bool)


def _has_levels(values: pd.Series, numbers: np.ndarray) -> bool:
    """Whether few different numbers stand beside a value that recurs and is none, such as 10+: all of them are levels."""
    unknown = np.isnan(numbers)
    if not unknown.any() or len(np.unique(numbers[~unknown])) > 20:
        return False
    return bool(values[unknown].astype(str).value_counts().iloc[0] >= 5)


def _written_numbers(values: pd.Series, options: ReadOptions) -> tuple[Writing, np.ndarray]:
    """How training values are written, and their numbers. Truth values are numbers where all numbers are 0 or 1."""
    writing = Writing.from_values(values, commas=options.decimal_commas) or PLAIN_WRITING
    numbers = writing.read(values)
    if writing.unit == "%":  # 1.2 may be 120 %
        writing = replace(writing, share=max(1.0, float(np.nanmax(np.abs(numbers))) / 100))
    if writing.date or np.isin(numbers[~np.isnan(numbers)], (0, 1)).all():
        return writing, numbers
    writing = replace(writing, truth=False)
    return writing, writing.read(values)


def _doubts(values: pd.Series, writing: Writing, numbers: np.ndarray) -> list[str]:
    """What speaks against the numbers of training values: codes for missing ones, thousands read as decimals, underflow."""
    problems = [*_sentinels(numbers, writing)]
    tiny = int(((numbers != 0) & (np.abs(numbers) < np.finfo(float).tiny)).sum())
    if tiny:
        problems.append(f"{tiny} of {len(numbers)} values are so near to 0 that digits are lost; use another unit")
    if values.dtype.kind in "iufM":
        return problems
    values = values.head(MAX_LOOKED_AT)
    words = as_words(values).str.strip()
    short = words.str.fullmatch(r"[+-]?\d{1,3}") | typed_numbers(values)
    whole, rest = words[short], words[~short]
    if len(whole) and len(rest) and writing.decimal == "." and rest.str.fullmatch(r"[+-]?[1-9]\d{0,2}\.\d{3}").all():
        problems.append(
            f"{rest.iloc[0]!r} is read as a decimal, but beside {whole.iloc[0]!r} every point stands before three digits, "
            "as that of thousands does; if it is one, remove it"
        )
    return problems


def _sentinels(numbers: np.ndarray, writing: Writing) -> Iterator[str]:
    """That sevens, eights or nines, the largest numbers, or dates that programs write for none, far from all others, may
    stand for missing values."""
    values, counts = np.unique(numbers[~np.isnan(numbers)], return_counts=True)
    if writing.date == TIMES or not len(values):
        return
    pattern = r"(?:1900|1901|1970|2099|2100|2999|9999)-(?:01-01|12-31)" if writing.date else CODES

    def is_code(value: float) -> bool:
        return re.fullmatch(pattern, _as_day(value) if writing.date else f"{value:.10g}") is not None

    for order in (slice(None), slice(None, None, -1)):  # codes with no other value beyond them
        end = len(list(takewhile(is_code, values[order])))
        codes, others = values[order][:end][order], values[order][end:]
        count = int(counts[order][:end].sum())
        if count < 3 or not len(codes) or not len(others):
            continue
        with np.errstate(over="ignore"):  # of the largest numbers of both signs
            far = np.abs(others[:, None] - codes).min() > max(np.ptp(others), 1.0)
        if far:
            shown = " or ".join(_as_day(code) if writing.date else f"{code:.10g}" for code in codes)
            yield (
                f"{count} of {counts.sum()} values are {shown}, far from all others; if that means missing, leave these "
                "cells empty"
            )


def _as_day(number: float) -> str:
    return str(np.datetime64(math.floor(number), "D"))


def _why_identifier(values: pd.Series) -> str:
    """Why integers that are all different are an identifier, empty if they are not."""
    if len(values) <= MIN_IDENTIFIERS or not are_whole(values) or values.nunique() < len(values):
        return ""
    steps = pd.to_numeric(values, errors="coerce").diff().iloc[1:]
    if (steps == 1).all() or (steps == -1).all():
        return "its values are running numbers, as in an identifier"
    named = is_named(values, r"(?:^|[\s_.-])(?:id|ids|uuid|guid|index|key)$|^[a-z]+I[dD]$|^unnamed: 0$")
    return "every value is different, and its name is that of an identifier" if named else ""
