"""What rows without a label bring to GaugeClassifier: few labelled rows of public tables, all others without their label.

    pip install 'gauge-ml[rivals]'
    python studies/unlabelled.py [--seeds 3] [--minutes 15] [--only mroz hdma] [--labelled 50 100] [--settings quick default]

The same classifier is fitted with and without the rows that have no label, in two settings: `quick`, with trees and a linear
model and without trust in cells, and `default`, with the network. Beside it stand LightGBM on the labelled rows and
scikit-learn's SelfTrainingClassifier around logistic regression on all rows. Choices were made on the tables of development;
the others were looked at once, at the end. What is in build/unlabelled is not computed again, and with --minutes the run
ends early and the same command continues. `docs/generate.py` makes the tables of docs/own-data.md from
studies/results/unlabelled.json.
"""

import argparse
import itertools
import json
import logging
import time
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from rivals import components, lightgbm, logistic, text_columns, with_categories
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.semi_supervised import SelfTrainingClassifier
from tables import TEST, read

from gauge import GaugeClassifier
from gauge.experiments.recording import origin, write_lines
from gauge.training.metrics import scores

RESULTS = Path(__file__).parent / "results" / "unlabelled.json"
CASES = Path(__file__).parents[1] / "build" / "unlabelled"
LABELLED = (50, 100, 200)
SETTINGS: dict[str, dict[str, Any]] = {"quick": {"experts": ["trees", "linear"], "trust": False}, "default": {}}
DEVELOPMENT = ("breast_cancer", "mroz", "hdma", "midwest", "vote92", "pbc")
LAST = ("anes96", "fair", "participation", "medpar", "fishing", "treatment")


def split(labels: np.ndarray, labelled: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows with a label, those without, and test rows."""
    train, test = train_test_split(np.arange(len(labels)), test_size=TEST, stratify=labels, random_state=seed)
    known, unknown = train_test_split(train, train_size=labelled, stratify=labels[train], random_state=seed)
    return known, unknown, test


def measure(name: str, labelled: int, seed: int, setting: str) -> list[dict[str, Any]]:
    """A record for every model on the same rows."""
    frame, labels = read(name)
    known, unknown, test = split(labels, labelled, seed)
    train = np.concatenate([known, unknown])
    target = pd.Series(labels, frame.index, dtype=object)
    target.iloc[unknown] = None
    images = {str(column): "image" for column in frame if isinstance(frame[column].iloc[0], bytes)}
    classes = np.unique(labels)
    truth = np.searchsorted(classes, labels[test])
    records = []

    def add(model: str, fitted: Any, rows: Any, seconds: float, **more: Any) -> None:
        answers = np.zeros((len(test), len(classes)))
        answers[:, np.searchsorted(classes, fitted.classes_)] = fitted.predict_proba(rows)
        values = {metric: round(float(value), 5) for metric, value in scores(answers, truth).items()}
        records.append({"model": model, **values, "cpu_seconds": round(seconds, 2), **more})

    for what in ("ignore", "use"):
        model = GaugeClassifier(**SETTINGS[setting], columns=images, unlabelled=what, random_state=seed, verbose=False)
        started = time.process_time()
        model.fit(frame.iloc[train], target.iloc[train])
        seconds = time.process_time() - started
        brought = {} if model.unlabelled_ is None else {"unlabelled": asdict(model.unlabelled_)}
        add({"use": "with", "ignore": "without"}[what], model, frame.iloc[test], seconds, **brought)
    if setting == "quick":  # rivals are the same in every setting
        read_by_trees = with_categories(components(frame, known, text_columns(frame)))
        started = time.process_time()
        trees = lightgbm(read_by_trees, seed).fit(read_by_trees.iloc[known], labels[known])
        add("LightGBM", trees, read_by_trees.iloc[test], time.process_time() - started)
        started = time.process_time()
        read_by_linear = components(frame, train, ())
        features = logistic(read_by_linear.iloc[train], seed)[0].fit(read_by_linear.iloc[train])
        codes = np.where(np.isin(np.arange(len(labels)), known), np.searchsorted(classes, labels), -1)
        numbers = SelfTrainingClassifier(LogisticRegression(max_iter=1000))
        numbers.fit(features.transform(read_by_linear.iloc[train]), codes[train])
        seconds = time.process_time() - started
        numbers.classes_ = classes[numbers.classes_]
        add("SelfTrainingClassifier", numbers, features.transform(read_by_linear.iloc[test]), seconds)
    case = {"table": name, "half": "development" if name in DEVELOPMENT else "last", "setting": setting}
    return [
        case | {"labelled": labelled, "unlabelled_rows": len(unknown), "seed": seed, **record} for record in records
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", nargs="*", choices=[*DEVELOPMENT, *LAST], default=[*DEVELOPMENT, *LAST])
    parser.add_argument("--labelled", nargs="*", type=int, default=LABELLED)
    parser.add_argument("--settings", nargs="*", choices=list(SETTINGS), default=["quick"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    options = parser.parse_args()
    logging.getLogger("gauge").setLevel("ERROR")
    warnings.simplefilter("ignore", ConvergenceWarning)
    torch.set_num_threads(1)
    started = time.monotonic()
    every = itertools.product(options.settings, range(options.seeds), options.labelled, options.only)
    for setting, seed, labelled, name in every:
        if time.monotonic() - started > 60 * options.minutes:
            break
        path = CASES / f"{name}-{labelled}-{seed}-{setting}.json"
        if not path.exists():
            records = [record | origin(options) for record in measure(name, labelled, seed, setting)]
            path.parent.mkdir(parents=True, exist_ok=True)
            write_lines(path, records)
            print(
                path.stem, {record["model"]: (record["auc"], record["cpu_seconds"]) for record in records}, flush=True
            )
    write_lines(RESULTS, [line for path in sorted(CASES.glob("*.json")) for line in json.loads(path.read_text())])


if __name__ == "__main__":
    main()
