"""Quantities whose unit is not the same in every cell, in one unit: 3 h 20 min, 180 cm beside 1.8 m, 5'11", 1.5k."""

import math
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

DAY, YEAR = 86_400, 365.25
TIME = "days"  # in which columns of durations are, too
COUNT = "ones"  # where a number without a unit means itself


def _scale(**units: float) -> dict[str, float]:
    """The size of every unit, whose names are separated by underscores."""
    return {name: size for names, size in units.items() for name in names.split("_")}


SCALES: Mapping[str, Mapping[str, float]] = {  # by the unit that numbers get
    TIME: _scale(
        ms=1e-3 / DAY,
        s_sec_secs_second_seconds=1 / DAY,
        m_min_mins_minute_minutes=60 / DAY,
        h_hr_hrs_hour_hours=3600 / DAY,
        d_day_days=1.0,
        w_wk_wks_week_weeks=7.0,
        mo_mos_mth_mths_month_months=YEAR / 12,
        y_yr_yrs_year_years=YEAR,
    ),
    "m": _scale(
        mm=1e-3,
        cm=1e-2,
        m_meter_meters_metre_metres=1.0,
        km=1e3,
        in_inch_inches=0.0254,
        ft_foot_feet=0.3048,
        yd_yards=0.9144,
        mi_mile_miles=1609.344,
    ),
    "kg": _scale(
        mcg_μg_ug=1e-9, mg=1e-6, g=1e-3, kg_kgs=1.0, lb_lbs_pound_pounds=0.45359237, oz=0.028349523, st_stone=6.35029318
    ),
    "l": _scale(μl_ul=1e-6, ml=1e-3, cl=1e-2, dl=0.1, l_liter_liters_litre_litres=1.0),
    "MB": _scale(b_bytes=1e-6, kb=1e-3, mb=1.0, gb=1e3, tb=1e6),
    COUNT: _scale(k_thousand=1e3, lakh=1e5, m_mn_mio_million=1e6, crore=1e7, b_bn_billion=1e9),
}
PART = re.compile(r"(\d+(?:[.,]\d+)?)\s*([^\W\d_]+)\.?(?:,?\s*(?:and\s+)?|$)")
FEET = re.compile(r"(\d+)\s*['’′](?:\s*(\d+(?:\.\d+)?)\s*(?:\"|”|″|''|’’|in)?)?")
TIMEDELTA = re.compile(
    r"([+-]?\d+) days?,? \+?(\d{1,2}):(\d{2}):(\d{2}(?:\.\d+)?)", re.ASCII
)  # as pandas and Python write it
ISO_DURATION = re.compile(
    r"P(?=.)(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?",
    re.ASCII,
)
ISO_UNITS = (YEAR, YEAR / 12, 7, 1, 3600 / DAY, 60 / DAY, 1 / DAY)
MAX_CHARACTERS = 50
SEVERAL = re.compile(r"\D{0,10}\d+(?:\.\d+)?(?:(?!\.)\D{1,5}\d+(?:\.\d+)?){1,3}\D{0,10}")  # 120/80, 48.1, 11.6
MIN_DIFFERENT, MOST = 20, 0.9


@lru_cache(maxsize=10_000)
def quantity(text: str, scale: str) -> float:
    """The sum of the parts of a text, in the unit of a scale; NaN if it has other units, or none. After years m is months;
    alone it may mean minutes or months, and is neither.

    >>> [round(quantity(text, "days"), 4) for text in ("3 h 30 min", "1 day", "PT45M", "2 days 06:00:00", "2y 6m", "5m")]
    [0.1458, 1.0, 0.0312, 2.25, 913.125, nan]
    >>> quantity("180 cm", "m"), round(quantity('5\\'11"', "m"), 4), quantity("1,5k", "ones"), quantity("1,500k", "ones")
    (1.8, 1.8034, 1500.0, nan)
    """
    text = text.strip()
    if len(text) > MAX_CHARACTERS:
        return math.nan
    if text[:1] in "-−" and text[1:2].isdigit() and not TIMEDELTA.fullmatch(text):
        return -quantity(text[1:], scale)
    if text == "0":
        return 0.0
    if scale == TIME and not math.isnan(days := duration(text)):
        return days
    if scale == "m" and (match := FEET.fullmatch(text)):
        return 0.3048 * int(match[1]) + 0.0254 * float(match[2] or 0)
    if scale == COUNT and re.fullmatch(r"\d+(?:\.\d+)?", text):
        return float(text)
    parts, end = list[tuple[float, str]](), 0
    while end < len(text):
        match = PART.match(text, end)
        if match is None or re.search(r",\d{3}$", match[1]):  # 1,200 is two things
            return math.nan
        parts.append(
            (float(match[1].replace(",", ".")), match[2].lower().replace("\N{MICRO SIGN}", "\N{GREEK SMALL LETTER MU}"))
        )
        end = match.end()
    return _total(parts, scale)


def _total(parts: list[tuple[float, str]], scale: str) -> float:
    sizes, names = SCALES[scale], [name for _, name in parts]
    if scale == TIME and "m" in names:
        if names == ["m"]:
            return math.nan
        if SCALES[TIME].get(names[0]) == YEAR:
            sizes = {**sizes, "m": YEAR / 12}
    if not parts or not all(name in sizes for name in names) or len(set(names)) < len(names):
        return math.nan
    return sum(number * sizes[name] for number, name in parts)


def duration(text: str) -> float:
    """The days of a duration as pandas, Python (2 days, 6:00:00) or ISO 8601 (PT45M) write it, NaN for other texts."""
    if match := TIMEDELTA.fullmatch(text):
        days, hours, minutes, seconds = (float(part) for part in match.groups())
        return days + (3600 * hours + 60 * minutes + seconds) / DAY
    if match := ISO_DURATION.fullmatch(text):
        return sum(float(part or 0) * size for part, size in zip(match.groups(), ISO_UNITS, strict=True))
    return math.nan


def find_scale(texts: Iterable[str], min_share: float) -> str:
    """The scale that reads at least this share of the texts; empty if none does."""
    texts = list(texts)
    for scale in SCALES:
        if sum(not math.isnan(quantity(text, scale)) for text in texts) >= min_share * len(texts):
            return scale
    return ""


def several_numbers(texts: Iterable[str]) -> str:
    """That most texts consist of several numbers, which are not read as such; empty if they do not.

    >>> several_numbers(f"{100 + number}/{number % 3}" for number in range(30))[:44]
    "values such as '100/0' are several numbers, "
    """
    texts = list(texts)
    several = [text for text in texts if SEVERAL.fullmatch(text.strip())]
    if len(set(several)) <= MIN_DIFFERENT or len(several) < MOST * len(texts):
        return ""
    return (
        f"values such as {several[0]!r:.60} are several numbers, of which none is read as a number; if they mean "
        "something, give each a column of its own"
    )
