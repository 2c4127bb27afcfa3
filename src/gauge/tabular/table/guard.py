"""Watch: what a call reads that is unlike training, reported in one line, once for all of its parts. No torch here.

unlike          a number beyond all of training by more than half of their range, where tails are long by more, of the other
                sign, with a fraction where all were whole, or a date without a time where all had one, if that is no
                chance; by more than twice the range, or ten times nearer to 0, in any case, unless it is 0; a category that
                training never saw; a text most of whose words, or whose form, it never saw
from 20 rows    more numbers in the highest or lowest twentieth of training, or another missing rate, than chance allows;
                where some categories of training had fewer than 5 rows, more new ones than there were categories of one row
                (Good and Turing), but for chance: up to there, new categories count as missing with a note of their row

Limits are those of training, and part of each column as it is saved and exported.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import bdtrc, chdtri

logger = logging.getLogger(__name__)

CHANCE = 0.01  # of a column that did not move, over all columns together
MIN_ROWS = 20  # that say something together
MOVED = 0.05  # from which on a difference of two shares is one


class UnlikeError(ValueError):
    """Rows that are unlike training, where that is refused."""

    exit_code = 3


@dataclass(frozen=True)
class Limits:
    """Which numbers are unlike those of training: below `lowest`, above `highest`, nearer to 0 than `nearest`, not 0, and
    with a fraction where all were `whole`, or without one where almost all had a time of day (`clock`). At most the share
    `ends` of new numbers is below or above 19 of 20 by chance, and the share `once` beyond all others. Where training has
    numbers of both signs (`crosses`), one that is near to 0 may be so by chance."""

    lowest: float
    highest: float
    nearest: float
    ends: float
    once: float
    crosses: bool
    whole: bool = False
    clock: bool = False

    @classmethod
    def fit(cls, numbers: np.ndarray, *, ratios: bool, clock: bool = False) -> "Limits | None":
        """From the numbers of training; None if they are too few. Without `ratios`, as of dates, 0 is one of them; with a
        `clock` some have a time of day."""
        if len(numbers) < MIN_ROWS:
            return None
        low, inner_low, inner_high, high = np.quantile(numbers, [0, 1 / 64, 63 / 64, 1]).tolist()
        margin, sizes = 0.5 * (high - low), np.abs(numbers[numbers != 0])
        nearest = 0.0
        if ratios and len(sizes):
            nearest = float(sizes.min() / 10 * (sizes.min() / np.quantile(sizes, 1 / 64)))
        parts = has_fraction(numbers)
        clock = clock and parts.mean() >= 1 - MOVED
        ends = upper_share(len(numbers) // 20, len(numbers))
        once = upper_share(int((~parts).sum()) if clock else 0, len(numbers))
        lowest, highest = low - max(margin, 2 * (inner_low - low)), high + max(margin, 2 * (high - inner_high))
        if ratios:  # these have a sign
            lowest, highest = max(lowest, 0.0) if low >= 0 else lowest, min(highest, 0.0) if high <= 0 else highest
        return cls(lowest, highest, nearest, ends, once, low < 0 < high, not parts.any(), bool(clock))

    def beyond(self, numbers: Any) -> Any:
        """Which numbers are unlike those of training, or whether one is; NaN is not."""
        far = beyond(numbers, self.lowest, self.highest, self.nearest)
        if self.clock:
            return far | (numbers == np.rint(numbers))
        return far | has_fraction(numbers) if self.whole else far

    def certain(self, numbers: np.ndarray) -> bool:
        """Whether any of the numbers that are unlike training is so by no chance: by twice the range, or near to 0. As 0 is
        what rare rows have where others have a number, it may be so by chance."""
        numbers = numbers[numbers != 0] if self.nearest else numbers
        more = 0.75 * (self.highest - self.lowest)  # at least, as that is twice the range or more
        nearest = 0.0 if self.crosses else self.nearest
        return bool(beyond(numbers, self.lowest - more, self.highest + more, nearest).any())


def beyond(numbers: Any, lowest: Any, highest: Any, nearest: Any) -> Any:
    """Which numbers are below, above, or nearer to 0 than those of training."""
    return (numbers < lowest) | (numbers > highest) | ((abs(numbers) < nearest) & (numbers != 0))


def has_fraction(numbers: Any) -> Any:
    """Which numbers are not whole, but for rounding; NaN has no fraction."""
    return abs(numbers - np.rint(numbers)) > 1e-6


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


class Training:
    """What a guard holds of training: the names of its columns, their missing rates in so many rows, the positions of those
    that are `measured`, the limit and the twentieth at either end of each (`lows` and `highs`, [2, columns, 1]), and the
    `shares` of new numbers in a twentieth at most, of which `least` is the least. At the `exact` ones of these positions,
    numbers may be unlike training within its limits: `whole` is 1 for whole numbers and 0 for dates with times, `nearest`
    that of the limits. `often` is whether a column is missing in many rows."""

    def __init__(self, columns: Sequence[Any], rates: Mapping[str, float], rows: int) -> None:
        measured = [index for index, each in enumerate(columns) if getattr(each, "limits", None) is not None]
        self.names, self.rates, self.rows = tuple(rates), np.array(list(rates.values())), rows
        self.measured = np.array(measured, int)
        bounds = np.array([columns[index].bounds for index in measured]).reshape(-1, 7, 1).swapaxes(0, 1)
        self.lows, self.highs, self.shares = bounds[:2], bounds[2:4], bounds[4, :, 0]
        self.exact = np.flatnonzero((bounds[5, :, 0] >= 0) | (bounds[6, :, 0] > 0))
        self.whole, self.nearest = bounds[5:, self.exact]
        self.least, self.often = float(self.shares.min(initial=1)), bool(self.rates.max() >= MOVED)

    def within(self, numbers: np.ndarray) -> np.ndarray:
        """Which numbers at the `exact` positions are unlike training, whatever its limits."""
        own = numbers[self.exact]
        return (has_fraction(own) == self.whole) | ((abs(own) < self.nearest) & (own != 0))


class Tally:
    """Rows of a table: how many, in how many each column is missing, and in how many a measured one is below and above 19 of
    20 numbers of training."""

    def __init__(self, training: Training) -> None:
        self.training, self.rows = training, 0
        self.missing, self.ends = np.zeros(len(training.names), int), np.zeros((2, len(training.measured)), int)

    def sentences(self, unread: Mapping[str, int]) -> Iterator[str]:
        """Which columns are at the ends of training, or missing in other shares of the rows, than chance allows. Of values
        that could not be read, so many are `unread`."""
        if self.rows < MIN_ROWS:
            return
        fewest = self.rows - int(np.maximum.reduce(self.missing))
        if self.ends.size and np.maximum.reduce(self.ends, None) > _by_chance(self.training.least, fewest):
            yield from self._ends()
        if fewest < self.rows or self.training.often:
            yield from self._rates(unread)

    def _ends(self) -> Iterator[str]:
        known, shares = (self.rows - self.missing)[self.training.measured], self.training.shares
        many = (self.ends > _by_chance(shares, known)) & (known >= MIN_ROWS)
        for end, index in np.argwhere(many).tolist():
            count, name = int(self.ends[end, index]), self.training.names[self.training.measured[index]]
            if bdtrc(count - 1, int(known[index]), shares[index]) < CHANCE / 100:
                twentieth = f"{('lowest', 'highest')[end]} twentieth of training"
                yield f"column {name!r}: {count} of {known[index]} values are in the {twentieth}"

    def _rates(self, unread: Mapping[str, int]) -> Iterator[str]:
        names, rates = self.training.names, self.training.rates
        others = np.array([unread.get(name, 0) for name in names]) if unread else 0
        # training had unread ones, too
        now = np.clip(rates, (self.missing - others) / self.rows, self.missing / self.rows)
        moved = share_moved(now, rates, (self.rows, self.training.rows), len(rates))
        for index in moved.nonzero()[0].tolist():
            change = f"{100 * now[index]:.0f} % of the rows instead of {100 * rates[index]:.0f} %"
            yield f"column {names[index]!r}: missing in {change}"


def _by_chance(share: Any, count: Any) -> Any:
    """How many of so many are often in a part with this share, fewer than by the rarest chance that counts as one."""
    return share * count + 3 * (share * (1 - share) * count) ** 0.5


class Watch:
    """What is read within one call. `lines` are sentences on it, each once. Numbers of many columns are seen together."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, str], Seen] = {}
        self.lines: dict[str, None] = {}
        self.numbers: list[tuple[Any, pd.Series, np.ndarray]] = []  # of columns with limits
        self.tallies: dict[tuple[str, ...], Tally] = {}  # by the columns of a classifier
        self.count = self.empty = 0

    def add_rows(self, observed: np.ndarray, training: Training) -> None:
        """Rows that are read: which columns they have, beside what is known of training."""
        if (tally := self.tallies.get(training.names)) is None:
            tally = self.tallies[training.names] = Tally(training)
        tally.rows, self.count = tally.rows + len(observed), self.count + len(observed)
        if np.count_nonzero(observed) < observed.size:  # which takes a fifth of the time of `all`
            tally.missing += (missing := len(observed) - np.add.reduce(observed, 0))
            self.empty += int((~observed.any(1)).sum()) if np.count_nonzero(missing) == len(missing) else 0
        if not self.numbers or len(self.numbers) != len(training.measured):
            self.look()
            return
        numbers = np.array([each for _, _, each in self.numbers])
        (far_below, below), (far_above, above) = (
            np.add.reduce(outside, 2) for outside in (numbers < training.lows, numbers > training.highs)
        )
        tally.ends += below, above
        far = np.count_nonzero(far_below) or np.count_nonzero(far_above)
        if far or (len(training.exact) and training.within(numbers).any()):
            self.look()
        self.numbers.clear()

    def look(self) -> None:
        """Note which numbers are unlike training."""
        columns, self.numbers = self.numbers, []
        for own, column, numbers in columns:
            if len(rows := np.flatnonzero(own.limits.beyond(numbers))):
                share = 0.0 if own.limits.certain(numbers[rows]) else own.limits.once
                whole = f", whole {'days' if own.writing.date else 'numbers'}" * own.limits.whole
                whole += ", with times" * own.limits.clock
                reason = f"is unlike all of training ({own.shown(own.values[0])} to {own.shown(own.values[-1])}{whole})"
                note(column, rows, reason, share=share)

    def sentences(self) -> Iterator[str]:
        """What is unlike training, by more than chance."""
        yield from self.lines
        if self.empty:
            yield f"{self.empty} rows have no values and get the class prior"
        unread: dict[str, int] = {}
        for (name, _), seen in self.seen.items():
            unread[name] = unread.get(name, 0) + seen.count * bool(seen.end)
            if not self._by_chance(seen):
                yield str(seen)
        for tally in self.tallies.values():
            yield from tally.sentences(unread)

    def expected(self) -> Iterator[str]:
        """What counts as missing, and may do so by chance: categories that are new, where many were rare in training."""
        return (f"{seen}, as is usual" for seen in self.seen.values() if seen.end and self._by_chance(seen))

    def _by_chance(self, seen: Seen) -> bool:
        rows = max(self.count, seen.count)
        if not seen.share or (seen.end and rows < MIN_ROWS):
            return False
        return bool(bdtrc(seen.count - 1, rows, seen.share) >= CHANCE)


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
    if quiet:
        return
    alarms, others = list(watch.sentences()), list(watch.expected())
    if strict and (alarms or others):
        raise UnlikeError(f"refused, as rows are unlike those of training: {_line([*alarms, *others])}")
    for level, sentences in ((logging.WARNING, alarms), (logging.INFO, others)):
        if sentences:
            logger.log(level, "%s", _line(sentences))


def _line(sentences: Sequence[str]) -> str:
    more = f"; and {len(sentences) - 20} more" if len(sentences) > 20 else ""
    return f"{'; '.join(sentences[:20])}{more}"


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


def note_numbers(own: Any, column: pd.Series, numbers: np.ndarray) -> None:
    """Note the numbers of a column, which are looked at with those of others."""
    if (watch := WATCH.get()) is not None:
        watch.numbers.append((own, column, numbers))


def share_moved(now: Any, before: Any, rows: tuple[int, int], columns: int) -> Any:
    """Whether shares of new rows differ from those of training, by much and beyond chance; `rows` are those of both."""
    pooled = (now * rows[0] + before * rows[1]) / sum(rows)
    by_chance = float(chdtri(1, CHANCE / columns)) * (1 / rows[0] + 1 / max(rows[1], 1))
    return np.square(now - before) >= np.maximum(MOVED * MOVED, by_chance * pooled * (1 - pooled))
