"""Dates that are written as text, as days since 1970: 31.12.2020, 12/31/2020 2:35 PM, 2020-12-31T14:35+01:00."""

import re
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from functools import cache
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
    "%Y/%m/%d": r"\d{4}/\d{1,2}/\d{1,2}",
    "%Y.%m.%d": r"\d{4}\.\d{1,2}\.\d{1,2}",
    "%d %b %Y": r"\d{1,2} [A-Za-z]{3} \d{4}",
    "%d %B %Y": r"\d{1,2} [A-Za-z]{3,} \d{4}",
    "%b %d, %Y": r"[A-Za-z]{3} \d{1,2}, \d{4}",
    "%B %d, %Y": r"[A-Za-z]{3,} \d{1,2}, \d{4}",
}
DIGITS = {"%d": r"(?P<day>\d{1,2})", "%m": r"(?P<month>\d{1,2})", "%Y": r"(?P<year>\d{4})"}
ISO_DATE = re.compile(r"(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})", re.ASCII)
CLOCK = r",?\s+((?:[01]?\d|2[0-4]):[0-5]\d(?::[0-5]\d(?:\.\d+)?)?(?:\s*[AaPp]\.?[Mm]\.?)?)$"  # the time after a date
COMMON_YEARS = range(1678, 2262)  # those that every version of pandas can represent
EPOCH = date(1970, 1, 1).toordinal()


def date_format(words: pd.Series) -> tuple[str, bool] | None:
    """The format of dates, of which most have one, with or without a time, and whether that is a guess; None if they are no
    dates."""
    if not len(words):
        return None
    if words.str.match(ISO).mean() >= MIN_SHARE:
        return "ISO8601", False
    bare = words.str.replace(CLOCK, "", regex=True)
    shares = {
        form: np.mean(read_dates(bare, form).notna())
        for form, pattern in DATES.items()
        if bare.str.fullmatch(pattern).mean() >= MIN_SHARE
    }
    if not shares or max(shares.values()) < MIN_SHARE:
        return None
    best = max(shares, key=lambda form: shares[form])
    swapped = {"%d/%m/%Y": "%m/%d/%Y", "%d-%m-%Y": "%m-%d-%Y"}.get(best)
    return best, bool(swapped and shares.get(swapped) == shares[best])


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
    """Dates without the times after them, and these in hours."""
    cells, clock = values.tolist(), np.zeros(len(values))
    for row, cell in enumerate(cells):
        if isinstance(cell, str) and (match := re.search(CLOCK, cell.strip())):
            cells[row], clock[row] = cell.strip()[: match.start()], hours(match[1])
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
    """The text, if it has a digit: pandas would read "now" and "today" as the moment of reading."""
    text = str(value).strip()
    return text if re.search(r"\d", text) else ""


def plain_days(cells: Sequence[Any], form: str) -> list[float | None]:
    """The days since 1970 of texts that are ISO dates, or dates of digits in this form; None for all others."""
    patterns = [ISO_DATE, _digit_pattern(form)]
    known = {cell: _plain_day(cell.strip(), patterns) for cell in {cell for cell in cells if isinstance(cell, str)}}
    return [known[cell] if isinstance(cell, str) else None for cell in cells]


@cache
def _digit_pattern(form: str) -> re.Pattern[str]:
    """Matches dates in this form if they are of digits alone, and otherwise nothing that has day, month and year."""
    return re.compile(re.sub("%[dmY]", lambda part: DIGITS[part[0]], re.escape(form)), re.ASCII)


def _plain_day(text: str, patterns: list[re.Pattern[str]]) -> float | None:
    for pattern in patterns:
        if (match := pattern.fullmatch(text)) and int(match["year"]) in COMMON_YEARS:
            try:
                day = date(int(match["year"]), int(match["month"]), int(match["day"]))
            except ValueError:
                return None
            return float(day.toordinal() - EPOCH)
    return None
