"""Watch: what a call reads that is unlike training, reported in one line, once for all of its parts. No torch here.

unlike          a number beyond all of training by more than half of their range, where tails are long by more, if that is
                no chance; by more than twice the range, or ten times nearer to 0, in any case, unless it is 0; a category
                that training never saw; a text most of whose words it never saw
from 20 rows    more numbers in the highest or lowest twentieth of training, or another missing rate, than chance allows

Limits are those of training, and part of each column as it is saved and exported.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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
    most the share `ends` of new numbers is below or above 19 of 20 by chance, and the share `once` beyond all others. Where
    training has numbers of both signs (`crosses`), one that is near to 0 may be so by chance."""

    lowest: float
    highest: float
    nearest: float
    ends: float
    once: float
    crosses: bool

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
        ends, once = (upper_share(count, len(numbers)) for count in (len(numbers) // 20, 0))
        below, above = max(margin, 2 * (inner_low - low)), max(margin, 2 * (high - inner_high))
        return cls(low - below, high + above, nearest, ends, once, crosses=low < 0 < high)

    def beyond(self, numbers: np.ndarray) -> np.ndarray:
        """Which numbers are unlike those of training; NaN is not."""
        return beyond(numbers, self.lowest, self.highest, self.nearest)

    def holds(self, number: float) -> bool:
        """Whether a number is like those of training."""
        return self.lowest <= number <= self.highest and (abs(number) >= self.nearest or number == 0)

    def certain(self, numbers: np.ndarray) -> bool:
        """Whether any of the numbers that are unlike training is so by no chance: by twice the range, or near to 0. As 0 is
        what rare rows have where others have a number, it may be so by chance."""
        numbers = numbers[numbers != 0] if self.nearest else numbers
        more = 0.75 * (self.highest - self.lowest)  # at least, as that is twice the range or more
        nearest = 0.0 if self.crosses else self.nearest
        return bool(beyond(numbers, self.lowest - more, self.highest + more, nearest).any())


def beyond(numbers: np.ndarray, lowest: Any, highest: Any, nearest: Any) -> np.ndarray:
    """Which numbers are below, above, or nearer to 0 than those of training."""
    return np.asarray((numbers < lowest) | (numbers > highest) | ((np.abs(numbers) < nearest) & (numbers != 0)))


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


class Numbers(NamedTuple):
    """The numbers of a column: beside the limits of training, the ends of its twentieths, and all of it in words."""

    name: str
    column: pd.Series
    numbers: np.ndarray
    limits: Limits
    bounds: np.ndarray  # lowest, highest, nearest, and the lowest and highest twentieth
    shown: Callable[[], str]


class Watch:
    """What is read within one call. `lines` are sentences on it, each once. Numbers of many columns are seen together."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, str], Seen] = {}
        self.lines: dict[str, None] = {}
        self.numbers: list[Numbers] = []
        self.ends: dict[tuple[str, ...], tuple[np.ndarray, np.ndarray]] = {}  # of columns read at once
        self.missing: np.ndarray | int = 0
        self.rates: Mapping[str, float] = {}
        self.count = self.empty = self.training_rows = 0

    def add_rows(self, observed: np.ndarray, rates: Mapping[str, float], training_rows: int) -> None:
        """Rows that are read: which columns they have, beside the missing rates in so many rows of training."""
        missing = len(observed) - observed.sum(0)
        self.count, self.missing = self.count + len(observed), self.missing + missing
        self.empty += int((~observed.any(1)).sum()) if missing.all() else 0
        self.rates, self.training_rows = rates, training_rows
        self.look()

    def look(self) -> None:
        """Note which numbers are unlike training, and how many are in the lowest and in the highest twentieth of it."""
        columns, self.numbers = self.numbers, []
        if not columns:
            return
        numbers = np.array([each.numbers for each in columns])
        *limits, low, high = np.array([each.bounds for each in columns]).T[..., None]
        names = tuple([each.name for each in columns])
        before, shares = self.ends.get(names) or (0, np.array([each.limits.ends for each in columns]))
        ends = np.array([numbers < low, numbers > high, numbers == numbers]).sum(2)
        self.ends[names] = before + ends, shares
        far = beyond(numbers, *limits)
        for index in np.flatnonzero(far.any(1)).tolist() if far.any() else ():
            _, column, own, known, _, shown = columns[index]
            share = 0.0 if known.certain(own[far[index]]) else known.once
            note(column, np.flatnonzero(far[index]), f"is far from all of training ({shown()})", share=share)

    def sentences(self) -> Iterator[str]:
        yield from self.lines
        if self.empty:
            yield f"{self.empty} rows have no values and get the class prior"
        for seen in self.seen.values():
            if not seen.share or bdtrc(seen.count - 1, max(self.count, seen.count), seen.share) < CHANCE:
                yield str(seen)
        for names, (ends, shares) in self.ends.items():
            many = (ends[:2] > shares * ends[2]) & (ends[2] >= MIN_ROWS)
            for end, index in np.argwhere(many).tolist() if many.any() else ():
                count, known = int(ends[end, index]), int(ends[2, index])
                if bdtrc(count - 1, known, shares[index]) < CHANCE / 100:
                    twentieth = f"{('lowest', 'highest')[end]} twentieth of training"
                    yield f"column {names[index]!r}: {count} of {known} values are in the {twentieth}"
        if self.count >= MIN_ROWS:
            yield from self._moved_rates()

    def _moved_rates(self) -> Iterator[str]:
        """Which columns are missing in other shares of the rows. What cannot be read is named in any case."""
        rates, missing = np.array(list(self.rates.values())), self.missing
        if self.seen:
            unread = Counter[str]()
            for (name, _), seen in self.seen.items():
                unread[name] += seen.count * bool(seen.end)
            missing = missing - np.array([unread[name] for name in self.rates])
        now = np.asarray(missing / self.count)
        moved = share_moved(now, rates, (self.count, self.training_rows), len(rates))
        for index in np.flatnonzero(moved).tolist() if moved.any() else ():
            change = f"{100 * now[index]:.0f} % of the rows instead of {100 * rates[index]:.0f} %"
            yield f"column {list(self.rates)[index]!r}: missing in {change}"


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
        watch.look()
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


def note_numbers(numbers: Numbers) -> None:
    """Note the numbers of a column, which are looked at with those of others."""
    if (watch := WATCH.get()) is not None:
        if watch.numbers and len(watch.numbers[0].numbers) != len(numbers.numbers):
            watch.look()
        watch.numbers.append(numbers)


def share_moved(now: Any, before: Any, rows: tuple[int, int], columns: int) -> Any:
    """Whether shares of new rows differ from those of training, by much and beyond chance; `rows` are those of both."""
    moved = np.abs(now - before) >= 0.05
    if moved.any():
        pooled = (now * rows[0] + before * rows[1]) / sum(rows)
        deviation = (pooled * (1 - pooled) * (1 / rows[0] + 1 / max(rows[1], 1))) ** 0.5
        moved = moved & (chdtrc(1, ((now - before) / np.maximum(deviation, 1e-12)) ** 2) < CHANCE / columns)
    return moved
