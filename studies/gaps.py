"""GaugeClassifier and single rivals that learn from complete rows and predict rows in which cells are blank.

    pip install 'gauge-ml[rivals]'
    python studies/gaps.py [--seeds 2] [--models default fast LightGBM] [--name after] [--minutes 20]

The tables are those of `LAST` in new_tables.py; models learn from their rows as they are, most of them complete, and predict
test rows with 0, 30 and 70 % of the cells blank at random. What is in studies/results/gaps.json is not computed again.
"""

import argparse
import itertools
import json
import logging
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from new_tables import LAST, OURS, read
from rivals import RIVALS
from tables import RATES, blanked, divided

from gauge import GaugeClassifier
from gauge.training.metrics import scores
from gauge_lab.recording import origin, write_lines

RESULTS = Path(__file__).parent / "results" / "gaps.json"


def measure(table: str, seed: int, model: str) -> list[dict[str, Any]]:
    """A record for each share of blank cells."""
    frame, labels = read(table)
    train, test = divided(labels, seed)
    shown = {rate: frame.copy() for rate in RATES}
    for rate in RATES:
        shown[rate].iloc[test] = blanked(frame.iloc[test], rate, seed)
    if model in OURS:
        fitted: Any = GaugeClassifier(**OURS[model], random_state=seed, n_jobs=1, verbose=False)
    else:
        shown = {rate: RIVALS[model].prepared(each, train, ()) for rate, each in shown.items()}
        fitted = RIVALS[model].built(shown[0.0], seed, ())
    started = time.process_time()
    fitted.fit(shown[0.0].iloc[train], labels[train])
    cost = round(time.process_time() - started, 2)
    truth = np.searchsorted(fitted.classes_, labels[test])
    lines = []
    for rate, each in shown.items():
        scored = scores(np.asarray(fitted.predict_proba(each.iloc[test]), np.float64), truth)
        case = {"table": table, "seed": seed, "model": model, "missing": rate, "cpu_seconds": cost}
        lines.append(case | {metric: round(float(value), 5) for metric, value in scored.items()})
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--tables", nargs="*", choices=LAST, default=[*LAST])
    parser.add_argument("--models", nargs="*", choices=[*OURS, *RIVALS], default=[*OURS, *RIVALS])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--name", default="after")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("gauge").setLevel("ERROR")
    started = time.monotonic()
    lines = json.loads(options.out.read_text(encoding="utf-8")) if options.out.is_file() else []
    done = {(line["table"], line["seed"], line["model"], line["name"]) for line in lines}
    for seed, table, model in itertools.product(range(options.seeds), options.tables, options.models):
        if (table, seed, model, options.name) in done:
            continue
        if time.monotonic() - started > 60 * options.minutes:
            break
        measured = measure(table, seed, model)
        print(*measured, sep="\n", flush=True)
        lines += [line | {"name": options.name} | origin(options) for line in measured]
        write_lines(options.out, lines)


if __name__ == "__main__":
    main()
