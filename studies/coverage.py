"""How often prediction sets hold the right class, on public tables with and without missing values.

    pip install 'gauge-ml[rivals]'
    python studies/coverage.py [--seeds 2] [--only pima wine] [--test 0.5] [--experts trees linear]

For each table and seed, classifiers learn from half of the rows, with 0, 30 and 70 % of the cells blank, and answer the
other half with as many blank (`alike`). The one that has learned from complete rows also answers rows with 30 and 70 % of
the cells blank (`more`), and rows in all of which the same half of the columns is missing (`fixed`): a pattern for which
nothing is promised. Records go to studies/results/coverage.json after every fit, and what is there is not computed again;
`docs/generate.py` makes the tables of docs/results-tables.md from them.
"""

import argparse
import json
import logging
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import train_test_split
from tables import RATES, TABLES, blanked, read

from gauge import GaugeClassifier
from gauge_lab.recording import origin, write_lines

RESULTS = Path(__file__).parent / "results" / "coverage.json"
COVERAGES = (0.8, 0.9, 0.95)


def fixed(frame: pd.DataFrame, seed: int) -> pd.DataFrame:
    """The same half of the columns is missing in every row."""
    hidden = np.random.default_rng(seed).permutation(frame.columns)[: frame.shape[1] // 2]
    return frame.mask(frame.columns.isin(hidden) & np.ones(frame.shape, bool))


def measure(model: GaugeClassifier, rows: pd.DataFrame, labels: np.ndarray) -> dict[str, Any]:
    """Counts of rows, of rows whose set has the right class, and of such by number of missing values."""
    probabilities, observed = model.fitted_.predict_with_observed(rows)
    truth, missing = np.searchsorted(model.classes_, labels), (~observed).sum(1)
    record: dict[str, Any] = {
        "test": len(rows),
        "missing_values": {str(count): int((missing == count).sum()) for count in np.unique(missing)},
    }
    for coverage in COVERAGES:
        sets = model.fitted_.sets(probabilities, observed, coverage)
        covered, size = sets[np.arange(len(rows)), truth], sets.sum(1)
        record[str(coverage)] = {
            "covered": int(covered.sum()),
            "by_missing_values": {str(count): int(covered[missing == count].sum()) for count in np.unique(missing)},
            "size": round(float(size.mean()), 4),
            "one_class": int((size == 1).sum()),
            "one_class_right": int(covered[size == 1].sum()),
            "no_class": int((size == 0).sum()),
        }
    return record


def fits(name: str, seed: int, rate: float, experts: list[str], test_share: float) -> list[dict[str, Any]]:
    """The records of one fit."""
    frame, labels = read(name)
    train, test = train_test_split(np.arange(len(labels)), test_size=test_share, stratify=labels, random_state=seed)
    blank = blanked(frame, rate, seed)
    started = time.process_time()
    chosen = "auto" if experts == ["auto"] else experts
    model = GaugeClassifier(experts=chosen, trust=False, random_state=seed, verbose=False)
    model.fit(blank.iloc[train], labels[train])
    common: dict[str, Any] = {"table": name, "seed": seed, "experts": model.experts_}
    common |= {"train": len(train), "held_out": model.n_rows_["val"], "blank_train": rate}
    common |= {"columns": len(model.schema_.columns), "classes": len(model.classes_)}
    common["cpu_seconds"] = round(time.process_time() - started, 2)
    tested = {("alike", rate): blank}
    if not rate:
        tested |= {("more", other): blanked(frame, other, seed) for other in RATES if other}
        tested["fixed", 0.5] = fixed(frame, seed)
    return [
        common | {"kind": kind, "blank": other} | measure(model, rows.iloc[test], labels[test])
        for (kind, other), rows in tested.items()
    ]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", type=int, default=2)
    options.add_argument("--only", nargs="*", default=list(TABLES))
    options.add_argument("--test", type=float, default=0.5)
    options.add_argument("--experts", nargs="*", default=["auto"])
    given = options.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("gauge").setLevel(logging.ERROR)
    records = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    known = {(each["table"], each["seed"], each["blank_train"], *each["arguments"]["experts"]) for each in records}
    source = origin(given)
    for seed in range(given.seeds):
        for rate in (RATES[-1], *RATES[:-1]):
            for name in given.only:
                if (name, seed, rate, *given.experts) not in known:
                    records += [each | source for each in fits(name, seed, rate, given.experts, given.test)]
                    print(
                        name, seed, rate, [each["0.9"]["covered"] / each["test"] for each in records[-4:]], flush=True
                    )
                    write_lines(RESULTS, records)


if __name__ == "__main__":
    main()
