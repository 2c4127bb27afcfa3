"""Numbers, dates and times that are written as text: currencies, percent signs, separators, the order of day and month."""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any

import numpy as np
import pandas as pd

from gauge.tabular.table.cells import as_words, plain_cells
from gauge.tabular.table.dates import (
    MIN_SHARE,
    NUMERIC_TYPES,
    SECONDS_PER_DAY,
    TIMES,
    ZONED,
    date_format,
    duration,
    hours,
    iso_form,
    quick_day,
    read_days,
)

MEASURE = r"^[+−-]?\d(?:[\d.,'’\s]*\d)?\s*((?:[^\W\d_]|[°/])[^\n]{0,30})$"  # the unit in 12.5 kg, 37 °C or 900 sq ft
SPACES = " \u00a0\u2009\u202f"  # between groups of digits
BOUND = re.compile(r"^[<>≤≥]=?\s*(?=[^<>≤≥=\s])")
MAX_LOOKED_AT = 1000  # values of a column that decide for all


@dataclass(frozen=True)
class Writing:
    """How numbers are written: the decimal separator, the unit beside them, and whether thousands are separated by the other
    mark: if not, 1,234 may be 1.234 and counts as missing. So does 2,400 with a decimal comma, or 2.400 with a point, unless
    `thirds`: training had three digits after the mark, or plain numbers with decimals. `date` is the format of dates, or of
    times of day, or empty. With `bounds`, a value such as <5 is read as the limit, 5; (5) is always -5, as accountants write
    it. `durations` have units that may differ from cell to cell, and are numbers of days. With `truth`, all numbers are 0 or
    1, and truth values mean them. Percentages may be shares up to `share` where no sign is beside them.

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
    durations: bool = False
    thirds: bool = True
    truth: bool = True
    share: float = 1.0

    @classmethod
    def from_values(cls, values: pd.Series, *, commas: bool = False) -> "Writing | None":
        """That of most values, none of them missing; None if they are neither numbers nor dates nor times. `commas` says
        that other columns of the table have decimal commas, which decides where all values are written as 1,234."""
        if pd.api.types.is_numeric_dtype(values) or values.dtype.kind == "m":
            decimals = values.dtype.kind == "f" and not are_whole(values)
            return cls(durations=values.dtype.kind == "m", grouped=False, thirds=decimals)
        dates = values.map(lambda value: isinstance(value, date)) if values.dtype.kind != "M" else values.notna()
        if len(values) and dates.mean() >= MIN_SHARE:
            return cls(date=iso_form(values))
        words = as_words(values).str.strip()
        digits = sum(re.search(r"\d", word) is not None for word in words)
        if not len(words) or digits < MIN_SHARE * len(words):  # neither takes long to see
            return None
        if form := date_format(words):
            return cls(date=form[0], guessed=form[1])
        texts = words[~typed_numbers(values)]
        if writing := _number_writing(words, commas) or (
            0 < len(texts) < len(words) and _number_writing(texts, commas)
        ):
            return writing
        if _readable(words, hours):
            return cls(date=TIMES, unit="am" if words.str.contains(r"m\.?$", case=False).all() else "")
        glance = _readable(words[:100], duration, MIN_SHARE / 2)  # all of them take a while
        return cls(durations=True) if glance and _readable(words, duration) else None

    def read(self, values: pd.Series) -> np.ndarray:
        """The values as numbers, dates and durations as days, times as hours; NaN where they cannot be read."""
        nothing = np.full(len(values), np.nan)
        if self.date == TIMES:
            return np.array([self._hours(cell) for cell in plain_cells(values).tolist()], np.float64)
        if self.date:
            return nothing if _numeric(values) else read_days(values, self.date)
        if values.dtype.kind == "m":
            days = (values.dt.total_seconds() / SECONDS_PER_DAY).to_numpy(np.float64)
            return days if self.durations or self.unit in ("d", "day", "days") else nothing
        cells = values.tolist()
        if pd.api.types.is_bool_dtype(values) and not self.truth:
            return nothing
        if _numeric(values):
            numbers = values.to_numpy(np.float64, na_value=np.nan)
        else:
            numbers = self._from_text([cell if isinstance(cell, str) else None for cell in cells])
            for row, cell in enumerate(cells):
                if isinstance(cell, NUMERIC_TYPES) and (self.truth or not isinstance(cell, bool | np.bool_)):
                    numbers[row] = _as_float(cell)
        if not self.takes_any_number:  # 0.13 may be 0.13 % or 13 %, 300 may be 300 k, 90 may be minutes or hours
            bare = np.array([not isinstance(cell, str) or self.unit not in cell for cell in cells], bool)
            unclear = np.abs(numbers) <= (self.share if self.unit == "%" else np.inf)
            numbers = np.where(bare & unclear & (numbers != 0), np.nan, numbers)
        return np.where(np.isinf(numbers), np.nan, numbers)

    @property
    def note(self) -> str:
        """What was guessed, empty for plain numbers."""
        if self.date == TIMES:
            return "times of day, in hours"
        if self.durations:
            return "durations, in days"
        if not self.date:
            parts = ["a decimal comma" if self.decimal == "," else "a decimal point"] * self.guessed
            parts += [f"{self.unit!r} removed"] if self.unit else []
            parts += ["'<' and '>' read as the limit"] if self.bounds else []
            return f"numbers with {', '.join(parts)}" if parts else ""
        if self.date in ("ISO8601", ZONED):
            return "dates" + ", with their zones" * (self.date == ZONED)
        order = "day first" if self.date.startswith("%d") else "month first" if self.date[1] in "mbB" else "year first"
        order = "month and year" if self.date.startswith("%b-") else order
        years = ", years 1969 to 2068" if "%y" in self.date else ""
        doubt = "the numbers may be days" if self.date == "%b-%y" else "no day is above 12"
        return f"dates, {order} ({self.date}){years}" + f", a guess: {doubt}" * self.guessed

    @property
    def takes_any_number(self) -> bool:
        """Whether a number without a unit means itself: 0.13 among percentages and 90 among durations may not."""
        factor = r"[kKMBT]|[bm]n|mln|(?:[Mm]io|[Mm]rd|[Tt]sd)\.?|thousand|million|billion"
        return not (self.date or self.durations or self.unit == "%" or re.fullmatch(factor, self.unit))

    @property
    def noun(self) -> str:
        """What is written so."""
        return "number" if not self.date else "time" if self.date == TIMES else "date"

    @property
    def example(self) -> str:
        """A date or time in this form."""
        written = {"ISO8601": "%Y-%m-%d", ZONED: "%Y-%m-%dT%H:%M+01:00", TIMES + "am": "%I:%M %p"}
        return datetime(2020, 12, 31, 14, 35).strftime(written.get(self.date + self.unit, self.date))

    def quick_date(self, text: str) -> float | None:
        """A time, or a date without one as days since 1970; None for any other text."""
        number = self._hours(text) if self.date == TIMES else quick_day(text, self.date)
        return None if math.isnan(number) else number

    def _hours(self, cell: Any) -> float:
        """Those of a time; NaN of 9:30, morning or evening, where all of training had am or pm."""
        unclear = self.unit and isinstance(cell, str) and re.fullmatch(r"(?:[1-9]|1[0-2]):[0-5]\d", cell.strip())
        return math.nan if unclear else hours(cell)

    @property
    def quick(self) -> bool:
        """Whether Python's way to write numbers is that of the column."""
        return self.decimal == "." and not self.unit

    def _from_text(self, texts: list[str | None]) -> np.ndarray:
        """The numbers of texts, NaN where there is none."""
        numbers = np.full(len(texts), np.nan)
        rest = {row: text for row, text in enumerate(texts) if text is not None}
        if self.durations and rest:
            numbers[list(rest)] = [duration(text) for text in rest.values()]
            return numbers
        if self.quick and rest:
            numbers[list(rest)] = _to_numeric(list(rest.values()))
            rest = {
                row: text for row, text in rest.items() if np.isnan(numbers[row]) or ("." in text and not self.thirds)
            }
        if rest:
            numbers[list(rest)] = _to_numeric([self._plain(text) for text in rest.values()])
        return numbers

    def _plain(self, text: str) -> str:
        """In the notation of Python, or the text itself if it is not a number of this form."""
        text = _signed(text.strip())
        text = self._without_unit(BOUND.sub("", text) if self.bounds else text)
        if not text.isascii():
            text = "".join(str(int(mark)) if mark.isdecimal() else mark for mark in text)
        if self.truth and text.lower() in ("true", "false"):  # numbers that other programs wrote as truth values
            return str(int(text.lower() == "true"))
        if re.fullmatch(rf"[+−-]?\d{{1,3}}(?:[{SPACES}'’]\d{{3}})+(?:[.,]\d+)?", text) or text.startswith("−"):
            text = re.sub(f"[{SPACES}'’]", "", text).replace("−", "-").replace("_", "x")
        decimal, thousands = (r"\.", ",") if self.decimal == "." else (",", r"\.")
        groups = rf"[1-9]\d{{0,2}}(?:{thousands}\d{{3}})+" + (r"|[1-9]\d?(?:,\d\d)+,\d{3}" if decimal == r"\." else "")
        if re.fullmatch(rf"[+-]?(?:{groups})(?:{decimal}\d*)?", text):
            if not self.grouped and re.fullmatch(rf"[+-]?\d+{thousands}\d+", text):
                return "x"
            text = text.replace(thousands[-1], "")
        elif self.decimal == "," and "." in text:
            return "x"  # a decimal point where commas are expected
        elif not self.thirds and re.fullmatch(rf"[+-]?[1-9]\d{{0,2}}{decimal}\d{{3}}", text):
            return "x"  # thousands, as others write them
        return text.replace(",", ".") if self.decimal == "," else text

    def _without_unit(self, text: str) -> str:
        if not self.unit:
            return text
        one = _singular(self.unit)
        known = next((each for each in (self.unit, f"{one}e", one) if text.endswith(each)), "")
        text = (text.removesuffix(known) if known else text.removeprefix(self.unit)).strip()
        return _signed(re.sub(rf"^([+−-]){re.escape(self.unit)}\s*", r"\1", text))


def typed_numbers(values: pd.Series) -> pd.Series:
    """Which cells are numbers and no texts, as in spreadsheets: they are read as they are."""
    return values.map(lambda value: isinstance(value, NUMERIC_TYPES)).astype(bool)


def are_codes(values: pd.Series) -> bool:
    """Whether digits are codes: by the name of their column, or by leading zeros, which numbers do not have."""
    name = r"(?:^|[\s_.-])(?:zip|zipcode|zip code|postal|postcode|plz|code)$"
    if is_named(values, name) and are_whole(values, MIN_SHARE):
        return True
    if pd.api.types.is_numeric_dtype(values):
        return False
    words = as_words(values).str.strip()
    return bool(words.str.fullmatch(r"\d+").mean() >= MIN_SHARE and words.str.match(r"0\d").any())


def are_whole(values: pd.Series, share: float = 1.0) -> bool:
    """Whether at least this share of the values are integers, and no others are numbers."""
    read = values if values.dtype.kind == "f" else pd.to_numeric(values.astype(object), errors="coerce")
    numbers = read.to_numpy(np.float64, na_value=np.nan)
    whole = np.isfinite(numbers) & (numbers == np.floor(numbers))
    return bool(whole.mean() >= share and (whole | np.isnan(numbers)).all())


def is_named(values: pd.Series, pattern: str) -> bool:
    """Whether the name of the column matches a pattern, as written or in lower case."""
    name = str(values.name)
    return bool(re.search(pattern, name) or re.search(pattern, name.lower()))


def uses_decimal_commas(frame: pd.DataFrame) -> bool:
    """Whether a column of texts has decimal commas beyond doubt."""
    certain = r"\D?\d+,(?:\d{1,2}|\d{4,})\D?|\D?0,\d+\D?|\D?\d{1,3}(?:\.\d{3})+,\d*\D?"
    for _, column in frame.items():
        if not (_numeric(column) or column.dtype.kind in "mM"):
            texts = [cell.strip() for cell in column.head(MAX_LOOKED_AT).tolist() if isinstance(cell, str)]
            numbers = sum(text[:1].isdigit() or text[1:2].isdigit() for text in texts)
            if numbers >= MIN_SHARE * len(texts) and any(re.fullmatch(certain, text) for text in texts):
                return True
    return False


def unread_numbers(texts: Iterable[str]) -> str:
    """Why texts most of which are numbers, several numbers or numbers with units are not read as numbers; empty if they are
    none of these.

    >>> unread_numbers(f"{100 + number}/{number % 3}" for number in range(30))[:44]
    "values such as '100/0' are several numbers, "
    >>> unread_numbers(f"{number} {('kg', 'lb')[number % 2]}" for number in range(30))[:52]
    "values such as '0 kg' are numbers with units 'kg', '"
    >>> unread_numbers(f"{number},5{' mg/l' * (number % 2)}" for number in range(30))[:85]
    "values such as '1,5 mg/l' are numbers with units 'mg/l', or without a unit, such as '"
    >>> unread_numbers("negative" if number % 8 == 0 else f"{number},5" for number in range(40))[:55]
    "most values are numbers, but 5 of 40 are not, such as '"
    """
    texts = [text.strip() for text in texts]
    some = r"\D{0,10}\d+(?:[.,]\d+)?(?:(?![.,]\d)\D{1,5}\d+(?:[.,]\d+)?){1,3}\D{0,10}"  # 120/80, 48.1, 11.6
    several = [text for text in texts if re.fullmatch(some, text)]
    if len(set(several)) > 20 and len(several) >= MIN_SHARE * len(texts):
        return (
            f"values such as {several[0]!r:.60} are several numbers, of which none is read as a number; if they mean "
            "something, give each a column of its own"
        )
    measured = [(text, match[1]) for text in texts if (match := re.match(MEASURE, re.sub(BOUND, "", text)))]
    bare = [text for text in texts if re.fullmatch(r"[+−-]?\d(?:[\d.,'’\s]*\d)?", re.sub(BOUND, "", text))]
    numbers, units = [*bare, *(text for text, _ in measured)], sorted({unit for _, unit in measured})
    if len(set(numbers)) <= 20 or len(numbers) < 0.8 * len(texts) or len(units) > 5:
        return ""
    if len(numbers) < MIN_SHARE * len(texts):
        other = next(text for text in texts if text not in set(numbers))
        return (
            f"most values are numbers, but {len(texts) - len(numbers)} of {len(texts)} are not, such as {other!r:.60}, so "
            "none is read as a number; leave these cells empty, or give them a column of their own"
        )
    if units:
        without = f", or without a unit, such as {bare[0]!r:.60}," if bare else ","
        return (
            f"values such as {measured[0][0]!r:.60} are numbers with units {', '.join(map(repr, units))}{without} and not "
            "read as numbers; write all of them as plain numbers, in one unit"
        )
    return ""


def quantities(labels: pd.Series, writing: Writing | None) -> np.ndarray:
    """Labels as numbers, NaN where they are none."""
    return np.full(len(labels), np.nan) if writing is None or writing.date else writing.read(labels)


def are_quantities(labels: pd.Series) -> bool:
    """Whether they are numbers, or texts that are numbers with decimals or units."""
    if pd.api.types.is_numeric_dtype(labels):
        return True
    writing = Writing.from_values(labels.drop_duplicates())
    return writing is not None and not writing.date and not are_whole(labels)


def bin_labels(labels: pd.Series, classes: int, *, commas: bool = False) -> pd.Series:
    """A quantity in `classes` ranges of about equally many rows, in words whose numbers are written like it."""
    writing = Writing.from_values(labels.dropna(), commas=commas)
    numbers = quantities(labels, writing)
    wrong = labels[np.isnan(numbers) & labels.notna()]
    if len(wrong):
        raise ValueError(f"--classes divides numbers, but the label of row {wrong.index[0]} is {wrong.iloc[0]!r}")
    quantiles = np.nanquantile(numbers, np.linspace(0, 1, classes + 1)[1:-1])
    edges = np.unique([float(f"{edge:g}") for edge in quantiles])  # as the names of the classes say them
    names = _range_names(edges, writing.decimal if writing else ".")
    codes: np.ndarray = np.where(labels.notna(), np.searchsorted(edges, numbers), -1).astype(np.intp)
    return pd.Series(pd.Categorical.from_codes(codes, pd.Index(names), ordered=True), labels.index, name=labels.name)


def range_positions(names: pd.Index, labels: pd.Series) -> np.ndarray:
    """The position of the range of each number, if all names are such of `bin_labels`; -1 where there is none."""
    ranges = [match for name in names if (match := re.fullmatch(r"(?:up to|above) (-?\d\S*)", name))]
    if not len(labels) or len(ranges) < len(names):
        return np.full(len(labels), -1)
    decimal = "," if any("," in match[1] for match in ranges) else "."
    edges = np.unique([float(match[1].replace(",", ".")) for match in ranges])
    writing = Writing.from_values(labels.dropna(), commas=decimal == ",")
    numbers = quantities(labels, replace(writing, decimal=decimal) if writing and decimal == "," else writing)
    own = names.get_indexer(pd.Index(_range_names(edges, decimal)))[np.searchsorted(edges, numbers)]
    return np.where(np.isnan(numbers), -1, own)


def _range_names(edges: np.ndarray, decimal: str) -> list[str]:
    written = [f"{edge:g}".replace(".", decimal) for edge in edges]
    return [*(f"up to {edge}" for edge in written), f"above {written[-1]}"]


def _number_writing(words: pd.Series, commas: bool) -> Writing | None:
    bounds = words.str.match(BOUND)
    if 0 < bounds.mean() <= 0.5 and words[~bounds].nunique() >= 10:  # not groups: <18, 18, >18
        writing = _number_writing(words.str.replace(BOUND, "", regex=True), commas)
        return writing and replace(writing, bounds=True)
    if words.str.startswith("(").all():
        return None
    words = words.map(_signed)
    currencies = "USD|EUR|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|AUD|CAD"
    known = re.compile(rf"[A-Z]{{1,2}}\$|[$€£¥₹₩₽₺₦₱₫₴₪฿%]|\b(?:{currencies})\b|\bRs\.?|\bkr\.?|zł|Kč")
    units = {unit for text in words for unit in known.findall(text)}
    if len(units) > 1:  # different currencies are not one number
        return None
    if writing := _written(words, next(iter(units), ""), commas):
        return writing
    return None if units else _with_measure(words, commas)


def _signed(text: str) -> str:
    """(12.50), as accountants write it, as -12.50."""
    return f"-{text[1:-1].strip()}" if text.startswith("(") and text.endswith(")") and text[1:2] not in "+-−" else text


def _singular(unit: str) -> str:
    """What a day and days have in common, a Tag and Tage, a Stunde and Stunden; ms, bps and fps are one of their kind."""
    return re.sub(r"^(.{3,}?)en?$", r"\1", re.sub(r"^(?!\w?[bfqr]ps$)(.{2,})s$", r"\1", unit))


def _with_measure(words: pd.Series, commas: bool) -> Writing | None:
    """Numbers that most values write with one and the same unit; those with another one cannot be read."""
    # of a time, a factor (5 beside 1.2 lakh are no 5 lakh), a quarter, and inches after feet
    no_unit = r"(?i)[ap]\.?m\.?|lakhs?|crores?|q[1-4]|(?:ft|feet|foot)\b.*\d.*"
    measures = words.str.extract(MEASURE, expand=False)
    one = measures.map(_singular, na_action="ignore")
    alike = measures[one == one.mode().get(0)]
    unit = max(alike, key=len, default="")
    if len(alike) < MIN_SHARE * len(words) or re.fullmatch(no_unit, unit):
        return None
    return _written(words, unit, commas)


def _readable(words: pd.Series, read: Callable[[str], float], share: float = MIN_SHARE) -> bool:
    return bool(np.mean([not math.isnan(read(word)) for word in words]) >= share)


def _written(words: pd.Series, unit: str, commas: bool) -> Writing | None:
    """The writing of numbers with this unit, None if less than most values can be read."""
    one = re.escape(unit) if unit == _singular(unit) else rf"{re.escape(_singular(unit))}(?:e?s|en?)?"
    bare = words.str.replace(one, "", regex=True).str.strip().map(_signed) if unit else words
    comma, point = (
        bare.str.contains(
            rf"\d{mark}(?:\d{{1,2}}|\d{{4,}})$|^\D?0{mark}\d|\{other}\d{{3}}(?:{mark}|\{other}\d{{3}})", regex=True
        ).sum()
        for mark, other in ((",", "."), (r"\.", ","))
    )
    thirds = r"|\.\d{3}$" if comma == point == 0 else ""  # 1.200 may be more than a thousand
    grouped = bare.str.contains(rf"\d,\d|\d[{SPACES}'’]\d{{3}}|\.\d{{3}}\.{thirds}", regex=True).any()
    same = commas and comma == point == 0 and bool(bare.str.fullmatch(r"[+−-]?[1-9]\d{0,2},\d{3}").all())
    decimal, mark = (",", r"\.") if comma > point or same else (".", ",")
    seen = bare.str.contains(rf"\d{mark}\d{{3}}(?:\D|$)", regex=True).any()
    plain = decimal == "." and not unit and not seen and bare.str.contains(r"\.\d*[1-9]").any()
    three = plain or bare.str.contains(rf"[{decimal}]\d{{3}}(?:\D|$)").any()
    writing = Writing(decimal, unit, guessed=bool(grouped), grouped=bool(seen), thirds=bool(three))
    return writing if np.mean(~np.isnan(writing.read(words))) >= MIN_SHARE else None


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
