"""Numbers, dates and times that are written as text: currencies, percent signs, separators, the order of day and month."""

import math
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime
from fractions import Fraction
from operator import is_
from typing import Any

import numpy as np
import pandas as pd

from gauge.tabular.table.dates import (
    FIRST_YEAR,
    MIN_SHARE,
    NUMERIC_TYPES,
    SECONDS_PER_DAY,
    date_format,
    first_year,
    plain_days,
    read_days,
    with_century,
)
from gauge.tabular.table.quantities import COUNT, TIME, duration, find_scale, quantity
from gauge.tabular.table.times import TIMES, hours

MIN_SAMPLES = 8  # of an array that is kept as one
MAX_SHOWN_BYTES = 100  # more are a file, whose start says of which kind it is
CURRENCIES = ["USD", "EUR", "GBP", "CHF", "JPY", "CNY", "INR", "SEK", "NOK", "DKK", "PLN", "CZK", "AUD", "CAD"]
UNIT = re.compile(rf"[A-Z]{{1,2}}\$|[$€£¥₹₩₽₺₦₱₫₴₪฿%]|\b(?:{'|'.join(CURRENCIES)})\b|\bRs\.?|\bkr\.?|zł|Kč")
MEASURE = (
    r"^[+−-]?\d(?:[\d.,'’\s]*\d)?\s*((?:[^\W\d_]|[°/])[^\n]{0,30})$"  # the unit in "12.5 kg", "37 °C" or "900 sq ft"
)
DIGIT = re.compile(r"\d")
GAPS = str.maketrans({"−": "-", "'": "", "’": "", "_": "x", **dict.fromkeys(" \u00a0\u2009\u202f", "")})
SPACED = r"[+−-]?\d{1,3}(?:[ \u00a0\u2009\u202f'’]\d{3})+(?:[.,]\d+)?"
ONE_GROUP = r"[+−-]?[1-9]\d{0,2},\d{3}"  # 1,234: more than a thousand, or more than one
DECIMAL_COMMA = r"\D?\d+,(?:\d{1,2}|\d{4,})\D?|\D?0,\d+\D?|\D?\d{1,3}(?:\.\d{3})+,\d*\D?"
BOUND = re.compile(r"^[<>≤≥]=?\s*(?=[^<>≤≥=\s])")
MAX_BOUNDS, MIN_MEASURED = 0.5, 10  # the share of bounds, and how many values without one differ
MAX_LOOKED_AT = 1000  # values of a column, for decimal commas
MIN_GLANCED_AT = 100  # for units that differ
CODE = r"(?:^|[\s_.-])(?:zip|zipcode|zip code|postal|postcode|plz|code)$"  # names of columns
WHOLE = re.compile(r"^(-?\d+)\.0$")
TRUTH = {"true": "1", "false": "0"}  # numbers that other programs wrote as truth values
HALVES = {"am", "pm", "a.m.", "p.m."}  # of a day, and no units


@dataclass(frozen=True)
class Writing:
    """How numbers are written: the decimal separator, the unit beside them, and whether thousands are separated by the other
    mark: if not, 1,234 may be 1.234 and counts as missing. `date` is the format of dates, or of times of day, or empty.
    With `bounds`, a value such as <5 is read as the limit, 5; (5) is always -5, as accountants write it. Years of two digits
    are the hundred from `first_year` on. With a `scale`, units differ from cell to cell, and numbers are in this one.

    >>> Writing.from_values(pd.Series(["1.200,50 €", "7,25 €", "n"] * 10)) is None
    True
    >>> Writing.from_values(pd.Series(["1.200,50 €", "7,25 €"])).note
    "numbers with a decimal comma, '€' removed"
    """

    decimal: str = "."
    unit: str = ""
    date: str = ""
    guessed: bool = False
    grouped: bool = True
    bounds: bool = False
    first_year: int = FIRST_YEAR
    scale: str = ""

    @classmethod
    def from_values(cls, values: pd.Series, *, commas: bool = False) -> "Writing | None":
        """That of most values, none of them missing; None if they are neither numbers nor dates nor times. `commas` says
        that other columns of the table have decimal commas, which decides where all values are written as 1,234."""
        if pd.api.types.is_datetime64_any_dtype(values):
            return cls(date="ISO8601")
        if pd.api.types.is_numeric_dtype(values) or values.dtype.kind == "m":
            return cls()
        words = as_words(values).str.strip()
        if len(words) and values.map(lambda value: isinstance(value, date)).mean() >= MIN_SHARE:
            return cls(date="ISO8601")
        if sum(DIGIT.search(word) is not None for word in words) < MIN_SHARE * len(words):  # neither takes long to see
            return None
        if form := date_format(words):
            return _date_writing(words, *form)
        return _number_writing(words, commas) or _time_writing(words)

    def read(self, values: pd.Series) -> np.ndarray:
        """The values as numbers, dates as days since 1970, times as hours; NaN where they cannot be read."""
        if self.date == TIMES:
            return np.array([hours(cell) for cell in plain_cells(values).tolist()], np.float64)
        if self.date:
            return np.full(len(values), np.nan) if _numeric(values) else self._read_days(values)
        if values.dtype.kind == "m":
            days = (values.dt.total_seconds() / SECONDS_PER_DAY).to_numpy(np.float64)
            known = self.scale == TIME or (self.scale == "" and self.unit in ("", "d", "day", TIME))
            return days if known else np.full(len(values), np.nan)
        if _numeric(values):
            numbers = values.to_numpy(np.float64, na_value=np.nan)
        else:
            cells = values.tolist()
            numbers = self._from_text([cell if isinstance(cell, str) else None for cell in cells])
            for row, cell in enumerate(cells):
                if isinstance(cell, NUMERIC_TYPES):
                    numbers[row] = _as_float(cell)
        if self.unit == "%":
            numbers = np.where(_perhaps_fractions(values, numbers), np.nan, numbers)
        if self.scale not in ("", COUNT):  # 90 may be minutes or hours
            bare = np.array([not isinstance(cell, str) for cell in values.tolist()], bool)
            numbers = np.where(bare & (numbers != 0), np.nan, numbers)
        return np.where(np.isinf(numbers), np.nan, numbers)

    @property
    def note(self) -> str:
        """What was guessed, empty for plain numbers."""
        if self.date == TIMES:
            return "times of day, in hours"
        if self.date in ("", "ISO8601"):
            parts = ["a decimal comma" if self.decimal == "," else "a decimal point"] * self.guessed
            parts += [f"{self.unit!r} removed"] if self.unit else []
            parts += [f"different units, in {self.scale}"] if self.scale else []
            parts += ["'<' and '>' read as the limit"] if self.bounds else []
            return "dates" if self.date else f"numbers with {', '.join(parts)}" if parts else ""
        order = "day first" if self.date.startswith("%d") else "month first" if self.date[1] in "mbB" else "year first"
        if self.date.startswith("%b-"):
            order = "month and year"
        years = f", years {self.first_year} to {self.first_year + 99}" if "%y" in self.date else ""
        return f"dates, {order} ({self.date}){years}{self._doubt}"

    @property
    def _doubt(self) -> str:
        """Why the reading of dates is a guess, if it is."""
        if not self.guessed:
            return ""
        reason = "the numbers may be days" if self.date == "%b-%y" else "no day is above 12, or years span a century"
        return f", a guess: {reason if '%y' in self.date else 'no day is above 12'}"

    @property
    def noun(self) -> str:
        """What is written so."""
        return "number" if not self.date else "time" if self.date == TIMES else "date"

    @property
    def example(self) -> str:
        """A date or time in this form."""
        return datetime(2020, 12, 31, 14, 35).strftime("%Y-%m-%d" if self.date == "ISO8601" else self.date)

    def quick_date(self, text: str) -> float | None:
        """A date of digits alone as days since 1970, or a time; None for any other text."""
        if self.date == TIMES:
            return None if math.isnan(number := hours(text)) else number
        if "%y" in self.date:
            text = with_century(text.strip(), self.first_year)
        return plain_days([text], self._full_date)[0]

    @property
    def _full_date(self) -> str:
        """The format with years of four digits."""
        return self.date.replace("%y", "%Y")

    def _read_days(self, values: pd.Series) -> np.ndarray:
        if "%y" in self.date and values.dtype.kind != "M":
            values = values.map(
                lambda cell: with_century(cell.strip(), self.first_year) if isinstance(cell, str) else cell
            )
        return read_days(values, self._full_date)

    def _from_text(self, texts: list[str | None]) -> np.ndarray:
        """The numbers of texts, NaN where there is none."""
        numbers = np.full(len(texts), np.nan)
        rest = {row: text for row, text in enumerate(texts) if text is not None}
        if self.decimal == "." and not self.unit and not self.scale and rest:
            numbers[list(rest)] = _to_numeric(list(rest.values()))
            rest = {row: text for row, text in rest.items() if np.isnan(numbers[row])}
        if rest and self.scale:
            numbers[list(rest)] = [
                quantity(self._without_unit(_signed(text.strip())), self.scale) for text in rest.values()
            ]
        elif rest:
            numbers[list(rest)] = _to_numeric([self._plain(text) for text in rest.values()])
            for row in () if self.unit else [row for row in rest if np.isnan(numbers[row])]:
                numbers[row] = duration(rest[row].strip())  # of a column that held durations, as a file has them
        return numbers

    def _plain(self, text: str) -> str:
        """In the notation of Python, or the text itself if it is not a number of this form."""
        text = _signed(text.strip())
        text = self._without_unit(BOUND.sub("", text) if self.bounds else text)
        if not text.isascii():
            text = "".join(str(int(mark)) if mark.isdecimal() else mark for mark in text)
        if text.lower() in TRUTH:
            return TRUTH[text.lower()]
        if re.fullmatch(SPACED, text) or text.startswith("−"):
            text = text.translate(GAPS)
        decimal, thousands = (r"\.", ",") if self.decimal == "." else (",", r"\.")
        groups = rf"[1-9]\d{{0,2}}(?:{thousands}\d{{3}})+" + (r"|[1-9]\d?(?:,\d\d)+,\d{3}" if decimal == r"\." else "")
        if re.fullmatch(rf"[+-]?(?:{groups})(?:{decimal}\d*)?", text):
            if not self.grouped and re.fullmatch(rf"[+-]?\d+{thousands}\d+", text):
                return "x"
            text = text.replace(thousands[-1], "")
        elif self.decimal == "," and "." in text:
            return "x"  # a decimal point where commas are expected
        return text.replace(",", ".") if self.decimal == "," else text

    def _without_unit(self, text: str) -> str:
        if not self.unit:
            return text
        one = self.unit.removesuffix("s")  # 1 day beside 2 days
        known = self.unit if text.endswith(self.unit) else one if text.endswith(one) else ""
        text = (text.removesuffix(known) if known else text.removeprefix(self.unit)).strip()
        return _signed(re.sub(rf"^([+−-]){re.escape(self.unit)}\s*", r"\1", text))


def as_words(values: pd.Series) -> pd.Series:
    """Values as texts that Python's regular expressions read: those of Arrow know fewer escapes and no letters but ASCII."""
    return values.astype(str).astype(object)


def are_codes(values: pd.Series) -> bool:
    """Whether digits are codes: by the name of their column, or by leading zeros, which numbers do not have."""
    if is_named(values, CODE) and are_whole(values, MIN_SHARE):
        return True
    if pd.api.types.is_numeric_dtype(values):
        return False
    words = as_words(values).str.strip()
    return bool(words.str.fullmatch(r"\d+").mean() >= MIN_SHARE and words.str.match(r"0\d").any())


def are_whole(values: pd.Series, share: float = 1.0) -> bool:
    """Whether at least this share of the values are integers, and no others are numbers."""
    numbers = pd.to_numeric(values.astype(object), errors="coerce")
    return bool((numbers % 1 == 0).mean() >= share and (numbers.dropna() % 1 == 0).all())


def is_named(values: pd.Series, pattern: str) -> bool:
    """Whether the name of the column matches a pattern, as written or in lower case."""
    name = str(values.name)
    return bool(re.search(pattern, name) or re.search(pattern, name.lower()))


def without_fraction(text: str) -> str:
    """1.0 as 1, other texts as they are.

    >>> without_fraction("-7.0"), without_fraction("7.10")
    ('-7', '7.10')
    """
    return WHOLE.sub(r"\1", text)


def uses_decimal_commas(frame: pd.DataFrame) -> bool:
    """Whether a column of texts has decimal commas beyond doubt."""
    for _, column in frame.items():
        if not (_numeric(column) or column.dtype.kind in "mM"):
            texts = [cell.strip() for cell in column.head(MAX_LOOKED_AT).tolist() if isinstance(cell, str)]
            commas = sum(bool(re.fullmatch(DECIMAL_COMMA, text)) for text in texts)
            if commas and sum(text[:1].isdigit() or text[1:2].isdigit() for text in texts) >= MIN_SHARE * len(texts):
                return True
    return False


def _perhaps_fractions(values: pd.Series, numbers: np.ndarray) -> np.ndarray:
    """Which values of a column of percentages have no sign and lie within -1 and 1: 0.13 may be 0.13 % or 13 %."""
    signed = [isinstance(cell, str) and "%" in cell for cell in values.tolist()]
    return ~np.array(signed, bool) & (numbers != 0) & (np.abs(numbers) <= 1)


def _number_writing(words: pd.Series, commas: bool) -> Writing | None:
    bounds = words.str.match(BOUND)
    if 0 < bounds.mean() <= MAX_BOUNDS and words[~bounds].nunique() >= MIN_MEASURED:  # not groups: <18, 18, >18
        writing = _number_writing(words.str.replace(BOUND, "", regex=True), commas)
        return writing and replace(writing, bounds=True)
    if words.str.startswith("(").all():
        return None
    words = words.map(_signed)
    units = {unit for text in words for unit in UNIT.findall(text)}
    if len(units) > 1:  # different currencies are not one number
        return None
    unit = next(iter(units), "")
    writing = _written(words, unit, commas) or (None if units else _with_measure(words, commas))
    return writing or _scaled(words, unit)


def _signed(text: str) -> str:
    """(12.50), as accountants write it, as -12.50."""
    return f"-{text[1:-1].strip()}" if text.startswith("(") and text.endswith(")") and text[1:2] not in "+-−" else text


def _with_measure(words: pd.Series, commas: bool) -> Writing | None:
    """Numbers that most values write with one and the same unit; different units are not one number."""
    measures = words.str.extract(MEASURE, expand=False).dropna()
    unit = max(measures, key=len, default="")
    alike = len(measures) >= MIN_SHARE * len(words) and measures.isin([unit, unit.removesuffix("s")]).all()
    return _written(words, unit, commas) if alike and unit.lower() not in HALVES else None


def _scaled(words: pd.Series, unit: str) -> Writing | None:
    """Numbers with different units of one scale, and the currency before or after them."""
    bare = words.map(Writing(unit=unit)._without_unit)
    if not find_scale(bare.head(MIN_GLANCED_AT), MIN_SHARE / 2):  # it takes a while
        return None
    scale = find_scale(bare, MIN_SHARE)
    return Writing(unit=unit, scale=scale) if scale and unit != "%" else None


def _date_writing(words: pd.Series, form: str, guessed: bool) -> Writing:
    if "%y" not in form:
        return Writing(date=form, guessed=guessed)
    first, unsure = first_year(words)
    return Writing(date=form, guessed=guessed or unsure, first_year=first)


def _written(words: pd.Series, unit: str, commas: bool) -> Writing | None:
    """The writing of numbers with this unit, None if less than most values can be read."""
    one = rf"{re.escape(unit[:-1])}s?" if len(unit) > 1 and unit.endswith("s") else re.escape(unit)
    bare = words.str.replace(one, "", regex=True).str.strip().map(_signed) if unit else words
    comma, point = (
        bare.str.contains(
            rf"\d{mark}(?:\d{{1,2}}|\d{{4,}})$|^\D?0{mark}\d|\{other}\d{{3}}(?:{mark}|\{other}\d{{3}})", regex=True
        ).sum()
        for mark, other in ((",", "."), (r"\.", ","))
    )
    thirds = r"|\.\d{3}$" if comma == point == 0 else ""  # 1.200 may be more than a thousand
    grouped = bare.str.contains(rf"\d,\d|\d[ \u00a0\u2009\u202f'’]\d{{3}}|\.\d{{3}}\.{thirds}", regex=True).any()
    same = commas and comma == point == 0 and bool(bare.str.fullmatch(ONE_GROUP).all())
    decimal, mark = (",", r"\.") if comma > point or same else (".", ",")
    seen = bare.str.contains(rf"\d{mark}\d{{3}}(?:\D|$)", regex=True).any()
    writing = Writing(decimal, unit, guessed=bool(grouped), grouped=bool(seen))
    return writing if np.mean(~np.isnan(writing.read(words))) >= MIN_SHARE else None


def _time_writing(words: pd.Series) -> Writing | None:
    known = [not math.isnan(hours(word)) for word in words]
    return Writing(date=TIMES) if known and np.mean(known) >= MIN_SHARE else None


def _numeric(values: pd.Series) -> bool:
    if isinstance(values.dtype, np.dtype):
        return values.dtype.kind in "biuf"
    return pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_complex_dtype(values)


def _to_numeric(texts: list[str]) -> np.ndarray:
    return np.asarray(pd.to_numeric(np.array(texts, object), errors="coerce"), np.float64)


def _as_float(value: Any) -> float:
    convert: Callable[[Any], float] = float
    try:
        return convert(value)
    except (OverflowError, TypeError, ValueError):  # 10**400, complex numbers, Decimal("sNaN")
        return float("nan")


def plain(column: pd.Series) -> pd.Series:
    """The column with texts, numbers, dates, durations, arrays of numbers and missing cells only: other objects become
    text."""
    kind = column.dtype
    if isinstance(kind, np.dtype) and kind.kind in "biufM":
        return column
    if isinstance(kind, pd.SparseDtype):
        return pd.Series(np.asarray(column), column.index, name=column.name)
    if column.dtype.kind == "m":
        return column if isinstance(kind, np.dtype) else pd.to_timedelta(column.astype(object))
    if isinstance(kind, pd.PeriodDtype | pd.IntervalDtype | pd.ArrowDtype) or column.dtype.kind == "c":
        column = column.astype(object)
    if isinstance(kind, pd.CategoricalDtype):
        categories = [value if isinstance(value, str | int | float) else str(value) for value in kind.categories]
        return column if categories == list(kind.categories) else column.map(str, na_action="ignore").astype("category")
    return column if column.dtype != object else plain_cells(column).infer_objects()


def plain_cells(column: pd.Series) -> pd.Series:
    """As `plain`, but texts and other objects are a column of objects: finding a type for them takes longer than reading
    them, and the arrays that pandas keeps texts in are slow to read."""
    if isinstance(column.dtype, pd.StringDtype):
        return pd.Series(cells_of(column), column.index, object, column.name)
    if column.dtype != object:
        return plain(column)
    given = column.tolist()
    cells = [_plain_cell(value) for value in given]
    return column if all(map(is_, cells, given)) else pd.Series(cells, column.index, object, column.name)


def cells_of(column: pd.Series | pd.Index) -> list[Any]:
    """The cells of a column, None for texts that are missing. `tolist` takes a hundred times as long for the texts that
    pandas keeps in Arrow."""
    kind = column.dtype
    if isinstance(kind, pd.StringDtype) and kind.storage == "pyarrow":
        cells: list[Any] = column.array.__arrow_array__().to_pylist()  # the protocol of Arrow
        return cells
    return column.tolist()


def paths_or_bytes(column: pd.Series, *kept: type) -> pd.Series:
    """The column of images or signals with bytes, and other types that are kept, as they are, and anything else as in
    `plain`."""
    cells = [value if isinstance(value, (bytes, *kept)) else _plain_cell(value) for value in column]
    return pd.Series(cells, column.index, object, column.name)


def is_pixels(value: Any) -> bool:
    """Whether it is an array of pixels with colours: [height, width, colours]."""
    return isinstance(value, np.ndarray) and value.ndim == 3 and value.shape[2] in (1, 3, 4)


def _samples(values: Any) -> np.ndarray | None:
    """The numbers of an array or a list that is long enough for a signal; None if it is none."""
    try:
        samples = np.asarray(values)
        samples = samples.astype(np.float64) if samples.dtype == object else samples  # None becomes NaN
    except (TypeError, ValueError):
        return None
    return samples if samples.dtype.kind in "biuf" and samples.ndim in (1, 2) and samples.size >= MIN_SAMPLES else None


def _plain_cell(value: Any) -> Any:
    value = float(value) if isinstance(value, Fraction) else value
    if isinstance(value, int) and value.bit_length() > 1000:
        return "an integer beyond 1e300"  # it cannot be a float, and Python may refuse to print it
    if isinstance(value, str):  # lone surrogates cannot be written anywhere
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    kept = (*NUMERIC_TYPES, date) if not isinstance(value, np.complexfloating) else ()
    if value is None or is_pixels(value) or (isinstance(value, kept) and value is not pd.NaT):
        return value
    if value is pd.NA or value is pd.NaT or (isinstance(value, np.datetime64) and np.isnat(value)):
        return None
    if isinstance(value, pd.Period):
        first = value.asfreq("D", how="start")  # as "2020-01" is read, the text of a month
        return f"{first.year:04d}-{first.month:02d}-{first.day:02d}"
    if isinstance(value, np.ndarray | list | tuple) and (samples := _samples(value)) is not None:
        return samples
    if isinstance(value, bytes) and len(value) > MAX_SHOWN_BYTES:
        return f"{value[:16]!r}, {len(value)} bytes, {zlib.crc32(value):08x}"
    return _plain_cell(str(value))
