"""Dates that are written as text, as days since 1970: 31.12.2020, 12/31/20 2:35 PM, 31-Dec-2020, 2020-12-31T14:35+01:00."""

import re
from collections.abc import Iterable, Sequence
from datetime import date
from decimal import Decimal
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from gauge.tabular.table.times import HOURS_PER_DAY, hours

MIN_SHARE = 0.9  # share of the values that has to agree before text is read as numbers or dates
SECONDS_PER_DAY = 86_400
NUMERIC_TYPES = (bool, int, float, Decimal, np.number, np.bool_)
ISO = r"\d{4}-\d{2}-\d{2}(?:$|[T ])"
DATES = {  # in the order in which they are tried: a day comes before its month where both are possible
    "%d.%m.%Y": r"\d{1,2}\.\d{1,2}\.\d{4}",
    "%d/%m/%Y": r"\d{1,2}/\d{1,2}/\d{4}",
    "%m/%d/%Y": r"\d{1,2}/\d{1,2}/\d{4}",
    "%d-%m-%Y": r"\d{1,2}-\d{1,2}-\d{4}",
    "%m-%d-%Y": r"\d{1,2}-\d{1,2}-\d{4}",
    "%d.%m.%y": r"\d{1,2}\.\d{1,2}\.\d{2}",
    "%d/%m/%y": r"\d{1,2}/\d{1,2}/\d{2}",
    "%m/%d/%y": r"\d{1,2}/\d{1,2}/\d{2}",
    "%d-%m-%y": r"\d{1,2}-\d{1,2}-\d{2}",
    "%m-%d-%y": r"\d{1,2}-\d{1,2}-\d{2}",
    "%Y/%m/%d": r"\d{4}/\d{1,2}/\d{1,2}",
    "%Y.%m.%d": r"\d{4}\.\d{1,2}\.\d{1,2}",
    "%d %b %Y": r"\d{1,2} [A-Za-z]{3} \d{4}",
    "%d %B %Y": r"\d{1,2} [A-Za-z]{3,} \d{4}",
    "%b %d, %Y": r"[A-Za-z]{3} \d{1,2}, \d{4}",
    "%B %d, %Y": r"[A-Za-z]{3,} \d{1,2}, \d{4}",
    "%b %d %Y": r"[A-Za-z]{3} \d{1,2} \d{4}",
    "%B %d %Y": r"[A-Za-z]{3,} \d{1,2} \d{4}",
    "%d-%b-%Y": r"\d{1,2}-[A-Za-z]{3}-\d{4}",
    "%d-%b-%y": r"\d{1,2}-[A-Za-z]{3}-\d{2}",
    "%d%b%Y": r"\d{1,2}[A-Za-z]{3}\d{4}",
    "%Y-%m": r"\d{4}-\d{2}|\d{4}[ -]?Q[1-4]|Q[1-4][ -]\d{4}",  # months and quarters are their first day
    "%Y %b": r"\d{4} [A-Za-z]{3}",
    "%m/%Y": r"\d{1,2}/\d{4}",
    "%b %Y": r"[A-Za-z]{3} \d{4}",
    "%B %Y": r"[A-Za-z]{3,} \d{4}",
    "%b-%Y": r"[A-Za-z]{3}-\d{4}",
    "%b-%y": r"[A-Za-z]{3}-\d{2}",
}
SWAPPED = {"%d/%m/%Y": "%m/%d/%Y", "%d-%m-%Y": "%m-%d-%Y", "%d/%m/%y": "%m/%d/%y", "%d-%m-%y": "%m-%d-%y"}
WEEKDAY = r"^(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\.?,?\s+"
TWO_DIGITS = re.compile(r"((?:\d{1,2}[./-])?(?:\d{1,2}|[A-Za-z]{3})[./-])(\d{2})(?=$|,?\s)", re.ASCII)  # the year last
QUARTER = re.compile(r"(\d{4})[ -]?Q([1-4])|Q([1-4])[ -](\d{4})", re.ASCII)
FIRST_YEAR = 1930  # of two-digit years
MIN_YEAR_GAP = 10  # years between a date and the next
MAX_DAY_OF_MONTH = 31
MAX_GLANCED_AT = 100  # values that show which formats to try
DIGITS = {"%d": r"(?P<day>\d{1,2})", "%m": r"(?P<month>\d{1,2})", "%Y": r"(?P<year>\d{4})"}
ISO_DATE = re.compile(r"(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})", re.ASCII)
CLOCK = r",?\s+((?:[01]?\d|2[0-4]):[0-5]\d(?::[0-5]\d(?:\.\d+)?)?(?:\s*[AaPp]\.?[Mm]\.?)?)$"  # the time after a date
NOTHING = re.compile(r"(?!)")
COMMON_YEARS = range(1678, 2262)  # those that every version of pandas can represent
EPOCH = date(1970, 1, 1).toordinal()


def date_format(words: pd.Series) -> tuple[str, bool] | None:
    """The format of dates, of which most have one, with or without a time, and whether that is a guess; None if they are no
    dates."""
    if not len(words):
        return None
    if words.str.match(ISO).mean() >= MIN_SHARE:
        return "ISO8601", False
    bare = words.str.replace(CLOCK, "", regex=True).str.replace(WEEKDAY, "", regex=True, case=False)
    shares = {
        form: np.mean(read_dates(bare, form).notna())
        for form, pattern in DATES.items()
        if bare.head(MAX_GLANCED_AT).str.fullmatch(pattern).any() and bare.str.fullmatch(pattern).mean() >= MIN_SHARE
    }
    if not shares or max(shares.values()) < MIN_SHARE:
        return None
    best = max(shares, key=lambda form: shares[form])
    if best == "%b-%y":  # 12 may be a day
        return best, max(_two_digit_years(bare), default=0) <= MAX_DAY_OF_MONTH
    return best, bool(best in SWAPPED and shares.get(SWAPPED[best]) == shares[best])


def first_year(words: Iterable[str]) -> tuple[int, bool]:
    """The first of the hundred years that two digits stand for, and whether that is a guess. Spreadsheets begin with 1930;
    where dates lie close to that on both sides, the hundred years begin in the nearest gap between them.

    >>> first_year(["03.05.34", "24.12.71", "01.02.05"])
    (1930, False)
    >>> first_year(f"31.12.{year}" for year in range(20, 36))
    (1936, False)
    """
    years = sorted(set(_two_digit_years(words)))
    usual, starts = FIRST_YEAR % 100, []
    for year, later in pairwise([*years, *(each + 100 for each in years[:1])]):
        if later - year > MIN_YEAR_GAP:
            starts += [min(max(each, year + 1), later) - each for each in (usual, usual + 100)]
    return FIRST_YEAR + min(starts, key=abs, default=0), not starts


def with_century(text: str, first: int) -> str:
    """A date whose year has two digits with four, in the hundred years from `first` on; other texts as they are.

    >>> with_century("24.12.71 14:35", 1969), with_century("1-Feb-05", 1934)
    ('24.12.1971 14:35', '1-Feb-2005')
    """
    match = TWO_DIGITS.match(text)
    if match is None:
        return text
    return f"{match[1]}{first + (int(match[2]) - first) % 100}{text[match.end() :]}"


def _two_digit_years(words: Iterable[str]) -> list[int]:
    return [int(match[2]) for match in map(TWO_DIGITS.match, words) if match]


def read_days(values: pd.Series, form: str) -> np.ndarray:
    """Dates in this format as days since 1970, with their times; NaN where there is none. Those of digits alone are read
    here, all others by pandas, which takes far longer."""
    if values.dtype.kind == "M":
        return _from_pandas(values, form)
    days = np.array(plain_days(values.tolist(), form), np.float64)
    rest = np.flatnonzero(np.isnan(days))
    if not len(rest):
        return days
    others, clock = values.iloc[rest], np.zeros(len(rest))
    if form != "ISO8601":
        others, clock = _without_clock(others)
    days[rest] = _from_pandas(others, form) + clock / HOURS_PER_DAY
    return days


def _without_clock(values: pd.Series) -> tuple[pd.Series, np.ndarray]:
    """Dates without the weekday before them and the times after them, and these in hours."""
    cells, clock = values.tolist(), np.zeros(len(values))
    for row, cell in enumerate(cells):
        if isinstance(cell, str):
            cells[row] = re.sub(WEEKDAY, "", cell.strip(), flags=re.IGNORECASE)
            if match := re.search(CLOCK, cells[row]):
                cells[row], clock[row] = cells[row][: match.start()], hours(match[1])
    return pd.Series(cells, values.index, object), clock


def _from_pandas(values: pd.Series, form: str) -> np.ndarray:
    seconds = read_dates(values, form).dt.tz_localize(None).to_numpy("datetime64[s]")
    return np.where(np.isnat(seconds), np.nan, seconds.astype(np.int64) / SECONDS_PER_DAY)


def read_dates(values: pd.Series, form: str) -> pd.Series:
    if form != "ISO8601" and not pd.api.types.is_datetime64_any_dtype(values):
        values = values.map(lambda value: value.strftime(form) if isinstance(value, date) else _dated(value))
    elif not pd.api.types.is_datetime64_any_dtype(values):
        values = values.map(lambda value: None if isinstance(value, NUMERIC_TYPES) else _dated(value))
    dates = pd.to_datetime(values, errors="coerce", utc=True, format=form)
    if form == "ISO8601" or pd.api.types.is_datetime64_any_dtype(values):
        return dates
    return dates.fillna(read_dates(values.where(values.str.match(ISO)), "ISO8601"))  # these mean the same everywhere


def _dated(value: Any) -> str:
    """The text, a quarter as its first month, if it has a digit: pandas would read "now" and "today" as the moment of
    reading."""
    text = str(value).strip()
    if match := QUARTER.fullmatch(text):
        return f"{match[1] or match[4]}-{3 * int(match[2] or match[3]) - 2:02d}"
    return text if re.search(r"\d", text) else ""


def plain_days(cells: Sequence[Any], form: str) -> list[float | None]:
    """The days since 1970 of texts that are ISO dates, or dates of digits in this form; None for all others."""
    patterns = [ISO_DATE, _digit_pattern(form)]
    known = {cell: _plain_day(cell.strip(), patterns) for cell in {cell for cell in cells if isinstance(cell, str)}}
    return [known[cell] if isinstance(cell, str) else None for cell in cells]


@cache
def _digit_pattern(form: str) -> re.Pattern[str]:
    """Matches dates in this form if they are of digits alone, and otherwise nothing."""
    if not {"%m", "%Y"} <= set(re.findall("%.", form)) <= set(DIGITS):
        return NOTHING
    return re.compile(re.sub("%[dmY]", lambda part: DIGITS[part[0]], re.escape(form)), re.ASCII)


def _plain_day(text: str, patterns: list[re.Pattern[str]]) -> float | None:
    for pattern in patterns:
        if (match := pattern.fullmatch(text)) and int(match["year"]) in COMMON_YEARS:
            try:
                day = date(int(match["year"]), int(match["month"]), int(match.groupdict().get("day", 1)))
            except ValueError:
                return None
            return float(day.toordinal() - EPOCH)
    return None
