"""Does advice on missing values get to a good answer sooner than a random order, or than the order of importance?

    pip install 'gauge-ml[rivals]'
    python studies/advice.py [--seeds 2] [--only pima hdma]

A column of random zip codes and one of random numbers are added to each table. Test rows start with a fifth of their values;
the others are acquired one at a time: as `GaugeClassifier.advise` says for that row, in the order of `importance` on as many
further labelled rows as validation held out, in random order. studies/results/advice.json has the log loss after every
value; `docs/generate.py` makes the table of docs/results-tables.md from it.
"""

import argparse
import itertools
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import train_test_split
from tables import read

from gauge import GaugeClassifier
from gauge.tabular.evidence.advice import expected_gains
from gauge.tabular.fitted import Fitted
from gauge.tabular.table.rows import Rows
from gauge_lab.recording import origin, write_lines

RESULTS = Path(__file__).parent / "results" / "advice.json"
NAMES = ("breast_cancer", "anes96", "fair", "pima", "mroz", "participation", "hdma", "pbc", "medpar", "treatment")
START = 0.2  # share of the values that test rows have at first
ACQUIRED = 6  # values
TEST_ROWS = 200  # at most
NOISE = ("zip code", "noise")  # columns that are added

Order = Callable[[Rows, np.ndarray], np.ndarray]
"""From rows, and the columns that each can still acquire, a number for each of them: the largest is acquired."""


def with_noise(frame: pd.DataFrame, seed: int) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    codes = draw.integers(10_000, 10_200, len(frame)).astype(str)
    return frame.assign(**dict(zip(NOISE, (codes, draw.normal(size=len(frame))), strict=True)))


def losses(fitted: Fitted, rows: Rows, labels: np.ndarray) -> np.ndarray:
    return -np.log(fitted.ensemble.predict(rows)[np.arange(len(labels)), labels].clip(1e-12))


def curve(fitted: Fitted, rows: Rows, labels: np.ndarray, start: np.ndarray, order: Order) -> np.ndarray:
    """The log loss of every row with each number of values acquired: [numbers, rows]."""
    available, known = rows.observed(), start.copy()
    lines = [losses(fitted, rows.keep(known), labels)]
    for _ in range(ACQUIRED):
        left = available & ~known
        preferred = np.where(left, order(rows.keep(known), left), -np.inf).argmax(1)
        some = np.flatnonzero(left.any(1))
        known[some, preferred[some]] = True
        lines.append(losses(fitted, rows.keep(known), labels))
    return np.stack(lines)


def measure(name: str, seed: int) -> dict[str, Any]:
    frame, labels = read(name)
    frame = with_noise(frame, seed)
    train, rest = train_test_split(np.arange(len(labels)), test_size=0.4, stratify=labels, random_state=seed)
    started = time.process_time()
    fitted = GaugeClassifier(random_state=seed, verbose=False).fit(frame.iloc[train], labels[train]).fitted_
    fit_seconds = time.process_time() - started
    advice = fitted.advice
    assert advice is not None
    ranked, test = np.split(rest, [min(fitted.n_rows["val"], len(rest) // 2)])
    test = test[:TEST_ROWS]
    importance = fitted.importance(frame.iloc[ranked], labels[ranked]).set_index("column")["importance"]
    rows = fitted.read(frame.iloc[test])[1]
    truth = np.searchsorted(fitted.classes, labels[test])
    names = [column.name for column in rows.schema.columns]
    draw = np.random.default_rng(seed)
    start = rows.observed() & (draw.random((len(rows), len(names))) < START)
    random = draw.random(start.shape)
    expected = expected_gains(advice, fitted.ensemble, fitted.trust, rows.keep(start), rows.observed() & ~start)
    advised = expected[:, :, 1] > 0
    first = np.where(advised.any(1), np.nan_to_num(expected[:, :, 0], nan=-np.inf).argmax(1), -1)
    some = np.flatnonzero(first >= 0)

    def by_advice(now: Rows, left: np.ndarray) -> np.ndarray:
        return np.nan_to_num(expected_gains(advice, fitted.ensemble, fitted.trust, now, left)[:, :, 0], nan=-np.inf)

    orders: dict[str, Order] = {
        "random": lambda now, left: random,
        "importance": lambda now, left: np.tile(importance[names].to_numpy(), (len(now), 1)),
        "advice": by_advice,
    }
    started = time.process_time()
    curves = {kind: curve(fitted, rows, truth, start, order) for kind, order in orders.items()}
    areas = {kind: lines[1:].mean(0) for kind, lines in curves.items()}
    realised = (curves["advice"][0] - curves["advice"][1])[some]
    return {
        "table": name,
        "seed": seed,
        "rows": [len(train), len(test)],
        "columns": len(names),
        "curves": {kind: lines.mean(1).round(5).tolist() for kind, lines in curves.items()},
        "minus": {
            kind: [
                round(float((areas["advice"] - areas[kind]).mean()), 5),
                round(_error(areas["advice"] - areas[kind]), 5),
            ]
            for kind in ("random", "importance")
        },
        "advised_rows": round(len(some) / len(rows), 3),
        "advised_gain": [
            round(float(each.mean()), 4) for each in (expected[some, first[some], 0], realised) if len(some)
        ],
        "noise_advised": int(advised[:, [names.index(each) for each in NOISE if each in names]].sum()),
        "fit_seconds": round(fit_seconds, 1),
        "seconds": round(time.process_time() - started, 1),
    }


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / len(values) ** 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", nargs="*", choices=NAMES, default=NAMES)
    options = parser.parse_args()
    logging.getLogger("gauge").setLevel("ERROR")
    torch.set_num_threads(1)
    lines = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    done = {(line["table"], line["seed"]) for line in lines}
    for seed, name in itertools.product(range(options.seeds), options.only):
        if (name, seed) not in done:
            lines.append(measure(name, seed) | origin(options))
            print(lines[-1]["table"], seed, lines[-1]["minus"], lines[-1]["noise_advised"], flush=True)
            write_lines(RESULTS, lines)


if __name__ == "__main__":
    main()
