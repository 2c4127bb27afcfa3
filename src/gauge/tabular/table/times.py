"""Times of day and durations that are written as text, as hours: 14:35, 9:05 pm, 07:30:15."""

import re
from typing import Any

TIMES = "%H:%M"  # in the place of the format of dates
CLOCK = re.compile(
    r"(?P<hours>\d{1,3})(?::(?P<minutes>[0-5]\d)(?::(?P<seconds>[0-5]\d(?:\.\d+)?))?)?(?:\s*(?P<half>[ap])\.?m\.?)?",
    re.ASCII | re.IGNORECASE,
)
HALF_DAY, HOURS_PER_DAY = 12, 24


def hours(cell: Any) -> float:
    """The hours of a text with minutes, with am or pm, or both; NaN for anything else, such as a plain number. What counts
    minutes and seconds (4:35) has other units but the same order, on which alone its use rests.

    >>> [hours(text) for text in ("14:30", "9:15 pm", "12 AM", "14", "16:9")]
    [14.5, 21.25, 0.0, nan, nan]
    """
    match = CLOCK.fullmatch(cell.strip()) if isinstance(cell, str) else None
    if match is None or not (match["minutes"] or match["half"]):
        return float("nan")
    whole = int(match["hours"])
    if match["half"]:
        if not 1 <= whole <= HALF_DAY:
            return float("nan")
        whole = whole % HALF_DAY + (HALF_DAY if match["half"] in "pP" else 0)
    return whole + int(match["minutes"] or 0) / 60 + float(match["seconds"] or 0) / 3600


def as_clock(number: float) -> str:
    """Hours as people write them.

    >>> as_clock(9.999), as_clock(14.5)
    ('10:00', '14:30')
    """
    whole, minutes = divmod(round(60 * number), 60)
    return f"{whole}:{minutes:02d}"
