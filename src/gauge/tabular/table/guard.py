"""Watch: what a call reads that is unlike training, reported in one line, once for all of its parts. No torch here.

unlike          a number beyond all of training by more than half of their range, where tails are long by more, if that is
                no chance; by more than twice the range, or ten times nearer to 0, in any case; a category that training
                never saw; a text most of whose words it never saw
from 20 rows    more numbers in the highest or lowest twentieth of training, or another missing rate, than chance allows

Limits are those of training, and part of each column as it is saved and exported.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy.special import bdtrc, chdtrc

logger = logging.getLogger(__name__)

CHANCE = 0.01  # of a column that did not move, over all columns together
MIN_ROWS = 20  # that say something together


class UnlikeError(ValueError):
    """Rows that are unlike training, where that is refused."""

    exit_code = 3


@dataclass(frozen=True)
class Limits:
    """Which numbers are unlike those of training: below `lowest`, above `highest`, and nearer to 0 than `nearest`, not 0. At
    most the share `ends` of new numbers is below or above 19 of 20 by chance, and the share `once` beyond all others."""

    lowest: float
    highest: float
    nearest: float
    ends: float
    once: float

    @classmethod
    def fit(cls, numbers: np.ndarray, *, ratios: bool) -> "Limits | None":
        """From the numbers of training; None if they are too few. Without `ratios`, as of dates, 0 is one of them."""
        if len(numbers) < MIN_ROWS:
            return None
        low, inner_low, inner_high, high = np.quantile(numbers, [0, 1 / 64, 63 / 64, 1]).tolist()
        margin, sizes = 0.5 * (high - low), np.abs(numbers[numbers != 0])
        nearest = 0.0
        if ratios and len(sizes):
            nearest = float(sizes.min() / 10 * sizes.min() / np.quantile(sizes, 1 / 64))
        shares = (upper_share(count, len(numbers)) for count in (len(numbers) // 20, 0))
        below, above = max(margin, 2 * (inner_low - low)), max(margin, 2 * (high - inner_high))
        return cls(low - below, high + above, nearest, *shares)

    def beyond(self, numbers: np.ndarray) -> np.ndarray:
        """Which numbers are unlike those of training; NaN is not."""
        far = (numbers < self.lowest) | (numbers > self.highest)
        if self.nearest:
            far |= (np.abs(numbers) < self.nearest) & (numbers != 0)
        return np.asarray(far)

    def holds(self, number: float) -> bool:
        """Whether a number is like those of training."""
        return self.lowest <= number <= self.highest and (abs(number) >= self.nearest or number == 0)

    def certain(self, numbers: np.ndarray) -> bool:
        """Whether any of the numbers that are unlike training is so by no chance: by twice the range, or near to 0."""
        more = 0.75 * (self.highest - self.lowest)  # at least, as that is twice the range or more
        return bool(
            ((numbers < self.lowest - more) | (numbers > self.highest + more) | (np.abs(numbers) < self.nearest)).any()
        )


def upper_share(count: int, rows: int) -> float:
    """The largest share that `count` of so many rows stands for, but for chance."""
    return float(min(1.0, (count + 0.5 + 2 * (count + 0.5) ** 0.5) / max(rows, 1)))


@dataclass
class Seen:
    """What is unlike training in a column: the first of it in words, how often, where, and up to which share by chance."""

    first: str
    reason: str
    end: str
    share: float
    count: int = 0
    rows: list[int] = field(default_factory=list)  # the first of them, as tables may be larger than memory

    def __str__(self) -> str:
        return self.first + f", and {self.count - 1} more" * (self.count > 1) + self.end


class Watch:
    """What is read within one call. `lines` are sentences on it, each once."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, str], Seen] = {}
        self.lines: dict[str, None] = {}
        self.ends: dict[str, Counter[str]] = {}
        self.shares: dict[str, float] = {}
        self.missing: np.ndarray | int = 0
        self.rates: Mapping[str, float] = {}
        self.count = self.empty = self.training_rows = 0

    def add_rows(self, observed: np.ndarray, rates: Mapping[str, float], training_rows: int) -> None:
        """Rows that are read: which columns they have, beside the missing rates in so many rows of training."""
        self.count, self.empty = self.count + len(observed), self.empty + int((~observed.any(1)).sum())
        self.missing = self.missing + (~observed).sum(0)
        self.rates, self.training_rows = rates, training_rows

    def sentences(self) -> Iterator[str]:
        yield from self.lines
        if self.empty:
            yield f"{self.empty} rows have no values and get the class prior"
        for seen in self.seen.values():
            if not seen.share or bdtrc(seen.count - 1, max(self.count, seen.count), seen.share) < CHANCE:
                yield str(seen)
        for name, counts in self.ends.items():
            for end in ("lowest", "highest"):
                known, share = counts["known"], self.shares[name]
                much = known >= MIN_ROWS and counts[end] > share * known
                if much and bdtrc(counts[end] - 1, known, share) < CHANCE / 100:
                    yield f"column {name!r}: {counts[end]} of {known} values are in the {end} twentieth of training"
        if self.count < MIN_ROWS:
            return
        for (name, rate), absent in zip(self.rates.items(), np.atleast_1d(self.missing).tolist(), strict=True):
            unread = sum(seen.count for (column, _), seen in self.seen.items() if column == name and seen.end)
            now = (absent - unread) / self.count
            if share_moved(now, rate, (self.count, self.training_rows), len(self.rates)):
                yield f"column {name!r}: missing in {100 * now:.0f} % of the rows instead of {100 * rate:.0f} %"


WATCH: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watched(*, strict: bool = False, quiet: bool = False) -> Iterator[Watch]:
    """Report what is unlike training in all that is read within, in one line at the end, unless an outer one does that.
    `strict` refuses it, `quiet` leaves it to the caller."""
    if (outer := WATCH.get()) is not None:
        yield outer
        return
    watch = Watch()
    token = WATCH.set(watch)
    try:
        yield watch
    finally:
        WATCH.reset(token)
    sentences = [] if quiet else list(watch.sentences())
    if sentences:
        more = f"; and {len(sentences) - 20} more" if len(sentences) > 20 else ""
        line = f"{'; '.join(sentences[:20])}{more}"
        if strict:
            raise UnlikeError(f"refused, as rows are unlike those of training: {line}")
        logger.warning("%s", line)


def warn(line: str) -> None:
    """Report a sentence, once for all parts of what is watched."""
    if (watch := WATCH.get()) is not None:
        watch.lines[line] = None
    else:
        logger.warning("%s", line)


def note(
    column: pd.Series,
    rows: Sequence[int] | np.ndarray,
    reason: str,
    end: str = "",
    *,
    share: float = 0.0,
    first: str = "",
) -> bool:
    """Note that cells are unlike training, of which up to this share of all rows are by chance; False if nobody watches.
    `first` says it of the first one."""
    watch = WATCH.get()
    if watch is not None and len(rows):
        name, first = str(column.name), first or f"{str(column.iloc[rows[0]])!r:.100} {reason}"
        seen = Seen(f"column {name!r}, row {column.index[rows[0]]}: {first}", reason, end, share)
        seen = watch.seen.setdefault((name, reason), seen)
        seen.share = min(seen.share, share)
        seen.count += len(rows)
        seen.rows += [int(row) for row in rows[: max(0, 10_000 - len(seen.rows))]]
    return watch is not None


def note_ends(name: str, limits: Limits, low: int, high: int, known: int) -> None:
    """Note how many of so many known numbers are in the lowest and in the highest twentieth of training."""
    if (watch := WATCH.get()) is not None:
        watch.ends.setdefault(name, Counter()).update(lowest=low, highest=high, known=known)
        watch.shares[name] = limits.ends


def share_moved(now: float, before: float, rows: tuple[int, int], columns: int) -> bool:
    """Whether a share of new rows differs from that of training, by much and beyond chance; `rows` are those of both."""
    if abs(now - before) < 0.05:
        return False
    pooled = (now * rows[0] + before * rows[1]) / sum(rows)
    deviation = (pooled * (1 - pooled) * (1 / rows[0] + 1 / max(rows[1], 1))) ** 0.5
    return bool(chdtrc(1, ((now - before) / max(deviation, 1e-12)) ** 2) < CHANCE / columns)
