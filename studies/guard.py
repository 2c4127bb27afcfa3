"""What the guard costs, and how often it warns of columns that did not change.

    pip install 'gauge-ml[rivals]'
    python studies/guard.py [--splits 5] [--out studies/results/guard.json]

False alarms: each table is divided at random, 4 of 5 rows to fit its columns and one to be read; a column of which the guard
then speaks did not change. A category that training never saw counts as missing and is always named:
these are counted apart. Cost: seconds of `predict_proba` with the guard and without it, the medians of calls that alternate.
"""

import argparse
import logging
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from new_tables import TABLES as NEW
from tables import TABLES, load

from gauge import GaugeClassifier
from gauge.tabular import fitted
from gauge.tabular.table.guard import Watch, watched
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Schema
from gauge_lab.recording import origin, write_record


def alarms(name: str, seed: int) -> tuple[int, list[str]]:
    """How many columns a table has, and what the guard says of rows that were left out at random."""
    frame, _ = load((TABLES | NEW)[name], 10_000)
    order = np.random.default_rng(seed).permutation(len(frame))
    train, test = frame.iloc[np.sort(order[len(order) // 5 :])], frame.iloc[np.sort(order[: len(order) // 5])]
    schema = Schema.from_frame(train)
    rates = schema.missing_rates(schema.encode(train, training=True))
    with watched(quiet=True) as watch:
        rows = Rows.from_frame(schema, test, schema.encode(test))
        watch.add_rows(rows.observed(), rates, len(train))
    return len(schema.columns), list(watch.sentences())


class Unwatched(Watch):
    """One that notes nothing."""

    def add_rows(self, observed: np.ndarray, rates: Mapping[str, float], training_rows: int) -> None:
        pass


@contextmanager
def unwatched() -> Iterator[Unwatched]:
    """In the place of `watched`: nobody asks for anything."""
    yield Unwatched()


def cost(experts: list[str], rows: int, calls: int) -> dict[str, float | int | str]:
    """Median milliseconds of a prediction, and the share of the guard in it."""
    frame, labels = load(TABLES["hdma"], 10_000)
    model = GaugeClassifier(experts=experts, trust=False, random_state=0).fit(frame.head(1500), labels[:1500])
    new = frame.iloc[np.arange(rows) % len(frame)].reset_index(drop=True)
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for call in range(2 * calls):
        setattr(fitted, "watched", watched if call % 2 else unwatched)  # noqa: B010 - it is none of its names
        started = time.perf_counter()
        model.predict_proba(new)
        seconds[bool(call % 2)].append(time.perf_counter() - started)
    with_it, without = (1000 * float(np.median(seconds[each])) for each in (True, False))
    columns = len(model.fitted_.columns)
    share = round(100 * (with_it / without - 1), 1)
    return {"experts": " ".join(experts), "rows": rows, "columns": columns, "ms": round(with_it, 2), "percent": share}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "guard.json")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    tables: Counter[str] = Counter()
    said: list[str] = []
    for name in TABLES | NEW:
        try:
            for seed in range(arguments.splits):
                columns, lines = alarms(name, seed)
                tables[name] += columns
                said += [f"{name} {seed}: {line}" for line in lines]
        except (OSError, KeyError, ValueError) as error:  # a table without cells, or that is not installed
            print(f"{name} is left out: {error}")
    unseen = [line for line in said if "counted as missing" in line]
    others = [line for line in said if line not in unseen]
    print(*others, sep="\n")
    print(
        f"{len(others)} alarms, {len(unseen)} lines on unseen categories in {tables.total()} columns of {len(tables)} tables"
    )
    costs = [
        cost(*each)
        for each in ((["trees", "linear"], 1, 200), (["trees", "linear"], 100, 60), (["trees", "linear"], 10_000, 8))
    ]
    print(*costs, sep="\n")
    names = [re.sub(r"'[^']*' ", "", line) for line in others]
    write_record(
        arguments.out,
        {"tables": len(tables), "splits": arguments.splits, "columns": tables.total(), "alarms": len(others)}
        | {"unseen": len(unseen), "said": names, "cost": costs, "origin": origin()},
    )


if __name__ == "__main__":
    main()
