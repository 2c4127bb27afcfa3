"""Dates, times of day and durations that are written as text: 31.12.2020, 12/31/20 2:35 PM, 9:05 pm, 3 h 20 min, PT45M.

Dates are days since 1970, times are hours, durations are days. Years of two digits are those of POSIX, 1969 to 2068.
"""

import math
import re
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

MIN_SHARE = 0.9  # share of the values that has to agree before text is read as numbers or dates
SECONDS_PER_DAY = 86_400
NUMERIC_TYPES = (bool, int, float, Decimal, np.number, np.bool_)
TIMES = "%H:%M"  # in the place of the format of dates
ZONED = "ISO8601%z"  # of dates with the zones of their times
ISO = r"\d{4}-\d{2}-\d{2}(?:$|[T ])"
ZONE = re.compile(r"[T ]\d.*?\s?(?:Z|UTC|GMT|([+-])(\d\d):?(\d\d)?)$")
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
    "%Y-%m": r"\d{4}-\d{2}",  # months are their first day
    "%Y %b": r"\d{4} [A-Za-z]{3}",
    "%m/%Y": r"\d{1,2}/\d{4}",
    "%b %Y": r"[A-Za-z]{3} \d{4}",
    "%B %Y": r"[A-Za-z]{3,} \d{4}",
    "%b-%Y": r"[A-Za-z]{3}-\d{4}",
    "%b-%y": r"[A-Za-z]{3}-\d{2}",
}
TWO_DIGITS = re.compile(r"((?:\d{1,2}[./-])?(?:\d{1,2}|[A-Za-z]{3})[./-])(\d{2})(?=$|,?\s)", re.ASCII)  # the year last
TIME_OF_DAY = r",?\s+((?:[01]?\d|2[0-4]):[0-5]\d(?::[0-5]\d(?:\.\d+)?)?(?:\s*[AaPp]\.?[Mm]\.?)?)$"  # after a date


def date_format(words: pd.Series) -> tuple[str, bool] | None:
    """The format of dates, of which most have one, with or without a time, and whether that is a guess; None if they are no
    dates."""
    if not len(words):
        return None
    if words.str.match(ISO).mean() >= MIN_SHARE:
        return iso_form(words), False
    bare = words.str.replace(TIME_OF_DAY, "", regex=True)
    shares = {
        form: np.mean(_read_dates(bare, form).notna())
        for form, pattern in DATES.items()
        if bare.head(100).str.fullmatch(pattern).any() and bare.str.fullmatch(pattern).mean() >= MIN_SHARE
    }
    if not shares or max(shares.values()) < MIN_SHARE:
        return None
    best = max(shares, key=lambda form: shares[form])
    if best == "%b-%y":  # 12 may be a day
        return best, max((int(match[2]) for match in map(TWO_DIGITS.match, bare) if match), default=0) <= 31
    swapped = re.sub("^%d([/-])%m", r"%m\1%d", best)
    return best, bool(swapped != best and shares.get(swapped) == shares[best])


def zone(value: Any) -> float:
    """By how many hours the time of a date is ahead of UTC; NaN where nothing tells.

    >>> [zone(text) for text in ("2021-01-31T08:00:00-03:30", "2021-01-31 08:00Z", "2021-01-31 08:00", "2021-01-31")]
    [-3.5, 0.0, nan, nan]
    """
    if isinstance(value, datetime):
        offset = value.utcoffset()
        return math.nan if offset is None else offset.total_seconds() / 3600
    match = ZONE.search(value.strip()) if isinstance(value, str) else None
    return float(f"{match[1] or ''}{int(match[2] or 0) + int(match[3] or 0) / 60}") if match else math.nan


def zones(values: pd.Series) -> np.ndarray:
    """The `zone` of each value."""
    if values.dtype.kind == "M" and values.dt.tz is None:
        return np.full(len(values), np.nan)
    return np.array([zone(value) for value in values], np.float64)


def iso_form(values: pd.Series) -> str:
    """The format of dates of pandas and Python, and of ISO dates."""
    return "ISO8601" if np.isnan(zones(values)).all() else ZONED


def read_days(values: pd.Series, form: str) -> np.ndarray:
    """Dates in this format as days since 1970, with their times; NaN where there is none. Those without a time are read
    here, all others by pandas, which takes far longer."""
    if values.dtype.kind == "M":
        return _fitting(_from_pandas(values, form), values, form)
    cells = values.tolist()
    known = {cell: quick_day(cell, form) for cell in {cell for cell in cells if isinstance(cell, str)}}
    days = np.array([known[cell] if isinstance(cell, str) else math.nan for cell in cells], np.float64)
    rest = np.flatnonzero(np.isnan(days))
    if not len(rest):
        return days
    given = pd.Series([cells[row] for row in rest], dtype=object)
    cells, clock = [_with_century(cell) if "%y" in form else cell for cell in given], np.zeros(len(rest))
    for row, cell in enumerate(cells):
        if isinstance(cell, str) and form in DATES and (match := re.search(TIME_OF_DAY, cell.strip())):
            cells[row], clock[row] = cell.strip()[: match.start()], hours(match[1])
    read = _from_pandas(pd.Series(cells, dtype=object), form.replace("%y", "%Y")) + clock / 24
    days[rest] = _fitting(read, given, form)
    return days


def _fitting(days: np.ndarray, values: pd.Series, form: str) -> np.ndarray:
    """Days that texts in this format may be: those of months are their first ones, years of two digits are of a hundred, and
    times have a zone where those of training had one, and none where they had none; whole days need none, or UTC."""
    ahead = zones(values)
    known = (np.isnan(ahead) != (form == ZONED)) | ((days % 1 == 0) & ~(np.abs(ahead) > 0))
    known &= ~np.isnan(days)  # NaN as a month is the earliest of all
    if "%y" in form:
        known &= (days >= -365) & (days < 36_160)  # 1969 to 2068
    if form in DATES and "%d" not in form:
        days = days.astype("datetime64[D]").astype("datetime64[M]").astype("datetime64[D]").astype(np.float64)
    return np.where(known, days, np.nan)


def _with_century(cell: Any) -> Any:
    """A date whose year has two digits with four, as POSIX reads them; anything else as it is.

    >>> _with_century("24.12.71 14:35"), _with_century("1-Feb-05")
    ('24.12.1971 14:35', '1-Feb-2005')
    """
    text = cell.strip() if isinstance(cell, str) else ""
    match = TWO_DIGITS.match(text)
    return f"{match[1]}{1969 + (int(match[2]) - 69) % 100}{text[match.end() :]}" if match else cell


def _from_pandas(values: pd.Series, form: str) -> np.ndarray:
    seconds = _read_dates(values, form.removesuffix("%z")).dt.tz_localize(None).to_numpy("datetime64[s]")
    return np.where(np.isnat(seconds), np.nan, seconds.astype(np.int64) / SECONDS_PER_DAY)


def _read_dates(values: pd.Series, form: str) -> pd.Series:
    def text(value: Any) -> str:
        if isinstance(value, date):
            return str(value)
        written = str(value).strip()
        known = re.search(r"\d", written) and not isinstance(value, NUMERIC_TYPES)
        if form == "ISO8601":  # pandas would read 2021 and 2021-05 as the first day
            known = known and bool(re.match(r"\d{4}-?\d\d-?\d\d", written))
        return written if known else ""  # pandas would read "now" and "today" as the moment of reading

    if pd.api.types.is_datetime64_any_dtype(values):
        return pd.to_datetime(values, errors="coerce", utc=True, format=form)
    values = values.map(text)
    dates = pd.to_datetime(values, errors="coerce", utc=True, format=form)
    if form == "ISO8601":
        return dates
    return dates.fillna(_read_dates(values.where(values.str.match(ISO)), "ISO8601"))  # these mean the same everywhere


def quick_day(cell: str, form: str) -> float:
    """The days since 1970 of a text that is an ISO date or a date in this form; NaN for what pandas has to read."""
    text = (_with_century(cell) if "%y" in form else cell).strip()
    pattern = "%Y-%m-%d" if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII) else form.replace("%y", "%Y")
    with suppress(ValueError):
        day = datetime.strptime(text, pattern)
        # years that every version of pandas can represent
        years = range(1969, 2069) if "%y" in form else range(1678, 2262)
        first = date(day.year, day.month, 1) if form in DATES and "%d" not in form else day
        return float(first.toordinal() - date(1970, 1, 1).toordinal()) if day.year in years else math.nan
    return math.nan


def hours(cell: Any) -> float:
    """The hours of a text with minutes, with am or pm, or both; NaN for anything else, such as a plain number, and for what
    no day has: 45:12 are minutes and seconds, or hours of something else.

    >>> [hours(text) for text in ("14:30", "9:15 pm", "12 AM", "14", "16:9", "45:12")]
    [14.5, 21.25, 0.0, nan, nan, nan]
    """
    pattern = r"(\d{1,3})(?::([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?)?(?:\s*([ap])\.?m\.?)?"
    cell = " ".join(cell.split()) if isinstance(cell, str) else ""
    match = re.fullmatch(pattern, cell, re.ASCII | re.IGNORECASE)
    if match is None or not (match[2] or match[4]):
        return math.nan
    whole = int(match[1])
    if match[4]:
        if not 1 <= whole <= 12:
            return math.nan
        whole = whole % 12 + (12 if match[4] in "pP" else 0)
    number = whole + int(match[2] or 0) / 60 + float(match[3] or 0) / 3600
    return number if number <= 24 else math.nan


def as_clock(number: float) -> str:
    """Hours as people write them.

    >>> as_clock(9.999), as_clock(14.5)
    ('10:00', '14:30')
    """
    whole, minutes = divmod(round(60 * number), 60)
    return f"{whole}:{minutes:02d}"


@lru_cache(maxsize=10_000)
def duration(text: str) -> float:
    """The days of a duration with its units, in ISO 8601 or as h:mm:ss, read by `pd.Timedelta`; NaN for other texts but 0.
    What pandas would read otherwise than people mean it is NaN, too: 65 as nanoseconds, 1,5 h as 15 hours, P2M as minutes;
    so is 5m, minutes or months.

    >>> [round(duration(text), 4) for text in ("3 h 30 min", "2 Days 06:00:00", "PT450M", "65", "1,5 h", "P2M", "5m")]
    [0.1458, 2.25, 0.3125, nan, nan, nan, nan]
    """
    text = text.strip().replace("−", "-")
    if text == "0":
        return 0.0
    if len(text) > 50 or re.search(r"\d,\d|^[-+.\d]+\s*[mM]$", text) or not re.search(r"[A-Za-z]|\d:\d\d:\d\d", text):
        return math.nan
    if iso := re.fullmatch(r"P(\d+W)?(\d+D)?(?:T(\d+H)?(\d+M)?(\d+(?:\.\d+)?S)?)?", text, re.ASCII):
        text = " ".join(filter(None, iso.groups()))  # pandas takes two digits only
    # pandas knows hr, not hrs, and D and W, not week
    text = re.sub(r"(?<=[a-z]{2})s(?![a-z])", "", text.lower())
    text = re.sub(r"(?<![a-z])(?:(d)|w|wk|week)(?![a-z])", lambda unit: "D" if unit[1] else "W", text)
    if re.search(r"\d\s*[tlun](?![a-z])", text):  # 5 l are milliseconds to old versions
        return math.nan
    try:
        return pd.Timedelta(text).total_seconds() / SECONDS_PER_DAY  # NaN of what pandas takes for missing
    except ValueError:  # those of too large numbers, too
        return math.nan
