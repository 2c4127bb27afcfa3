"""GaugeClassifier on tables with texts, images and categories of many levels, beside what people would use instead.

    python studies/texts.py [--seeds 3] [--minutes 15] [--only docstrings wine_notes] [--models gauge stack]

The rivals are a stack (the out-of-fold score of TF-IDF and logistic regression for every text, of pixels for every image, as
columns of a small LightGBM), TF-IDF with logistic regression on all columns, and LightGBM on the components of texts and
pixels. `quick` has trees and the linear model alone; `quick without scores` is the same with trees that read no texts and no
scores of images and categories of many levels. Cells are blanked at random in training and test rows alike. What is in
build/texts is not computed again, and with --minutes the run ends early and the same command continues.
studies/results/texts.json has one record for each fit.
"""

import argparse
import importlib
import inspect
import io
import itertools
import json
import logging
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import torch
from PIL import Image
from rivals import components, lightgbm, with_categories
from scipy import sparse
from sklearn import datasets
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict, train_test_split
from tables import TEST, blanked, png

from gauge import GaugeClassifier
from gauge.tabular.experts import linear, trees
from gauge.tabular.table.columns import infer_kind
from gauge.training.metrics import scores
from gauge_lab.recording import origin, write_lines

RESULTS = Path(__file__).parent / "results" / "texts.json"
CASES = Path(__file__).parents[1] / "build" / "texts"
RATES = (0.0, 0.3)
ROWS = 1000  # of generated tables
OURS: dict[str, dict[str, Any]] = {
    "gauge": {},
    "quick": {"experts": ["trees", "linear"], "trust": False},
    "quick without scores": {"experts": ["trees", "linear"], "trust": False},
}
RIVALS = ("stack", "TF-IDF + linear", "LightGBM")


def docstrings() -> tuple[pd.DataFrame, np.ndarray]:
    """What functions and classes say of themselves, with facts about their signatures; of which package are they?"""
    modules = {
        "numpy": ("numpy", "numpy.linalg", "numpy.random", "numpy.ma", "numpy.polynomial"),
        "scipy": ("scipy.stats", "scipy.signal", "scipy.special", "scipy.linalg", "scipy.sparse", "scipy.optimize"),
        "pandas": ("pandas", "pandas.api.types", "pandas.tseries.offsets", "pandas.errors"),
        "sklearn": ("sklearn.linear_model", "sklearn.ensemble", "sklearn.metrics", "sklearn.preprocessing"),
    }
    lines: dict[str, dict[str, Any]] = {}
    for package, names in modules.items():
        for module in map(importlib.import_module, names):
            for name in dir(module):
                thing = getattr(module, name)
                text = " ".join((getattr(thing, "__doc__", None) or "").split("Parameters")[0].split()[:12])
                if not name.startswith("_") and callable(thing) and len(text.split()) > 4:
                    lines[text] = {"doc": text, "package": package} | _signature(name, thing)
    frame = pd.DataFrame(list(lines.values()))
    return frame.drop(columns="package"), frame["package"].to_numpy(str)


def _signature(name: str, thing: Any) -> dict[str, Any]:
    try:
        parameters = list(inspect.signature(thing).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    return {
        "letters": len(name),
        "underscores": name.count("_"),
        "kind": type(thing).__name__,
        "parameters": len(parameters) or np.nan,
        "defaults": sum(each.default is not each.empty for each in parameters) if parameters else np.nan,
        "first": parameters[0].name if parameters else None,
    }


def notes_of(data: Any, described: int, wrong: float) -> tuple[pd.DataFrame, np.ndarray]:
    """A table of scikit-learn whose first columns are told in words, some of them wrong, among words that mean nothing."""
    draw = np.random.default_rng(0)
    frame, names = data.data, list(data.data)
    ranks = frame.rank(pct=True).to_numpy()[:, :described]
    ranks = np.where(draw.random(ranks.shape) < wrong, draw.random(ranks.shape), ranks)
    words = np.array(["low", "normal", "raised", "high"])[(ranks * 3.999).astype(int)]
    filler = np.array([f"seen{number}" for number in range(60)])
    lines = []
    for row in words:
        told = [f"{word} {name.split()[-1].split('/')[0]}" for word, name in zip(row, names[:described], strict=True)]
        lines.append(". ".join(draw.permutation([*told, *draw.choice(filler, 6)])))
    return frame.iloc[:, described:].assign(note=lines), data.target.to_numpy().astype(str)


def interaction() -> tuple[pd.DataFrame, np.ndarray]:
    """What a number means depends on what the text is about, which takes many words to know."""
    draw = np.random.default_rng(0)
    words = np.array([f"word{number}" for number in range(300)])
    topic = draw.integers(0, 2, ROWS)
    odds = np.exp(0.8 * draw.normal(size=300))
    shares = [odds / odds.sum(), (1 / odds) / (1 / odds).sum()]
    texts = [" ".join(draw.choice(words, 15, p=shares[each])) for each in topic]
    numbers = draw.normal(size=(ROWS, 4))
    logit = 1.6 * np.where(topic, 1, -1) * numbers[:, 0] + 0.6 * numbers[:, 1]
    labels = draw.random(ROWS) < 1 / (1 + np.exp(-logit))
    frame = pd.DataFrame(numbers, columns=["dose", "age", "noise", "more noise"]).assign(note=texts)
    return frame, labels.astype(str)


def levels() -> tuple[pd.DataFrame, np.ndarray]:
    """A place among 1,400, most of them rare, and a short remark."""
    draw = np.random.default_rng(0)
    effect = draw.normal(size=1400)
    popular = 1 / np.arange(1, 1401) ** 0.7
    places = draw.choice(1400, 2 * ROWS, p=popular / popular.sum())
    age = draw.normal(size=2 * ROWS)
    labels = draw.random(2 * ROWS) < 1 / (1 + np.exp(-1.5 * effect[places] - 0.7 * age))
    said = np.where(draw.random(2 * ROWS) < 0.65, labels, ~labels)
    filler = np.array([f"remark{number}" for number in range(80)])
    remarks = [" ".join([("calm", "upset")[int(each)], *draw.choice(filler, 5)]) for each in said]
    frame = pd.DataFrame({"place": [f"place {each}" for each in places], "age": age, "remark": remarks})
    return frame, labels.astype(str)


def digits() -> tuple[pd.DataFrame, np.ndarray]:
    """A written digit under noise and a number: is the digit larger?"""
    draw, pictures = np.random.default_rng(0), datasets.load_digits()
    chosen = draw.permutation(len(pictures.target))[:ROWS]
    pixels = 255 / 16 * pictures.images[chosen] + draw.normal(0, 60, (ROWS, 8, 8))
    limit = draw.integers(1, 9, ROWS)
    frame = pd.DataFrame({"image": [png(each) for each in pixels], "limit": limit, "noise": draw.normal(size=ROWS)})
    return frame, (pictures.target[chosen] > limit).astype(str)


TABLES = {
    "docstrings": docstrings,
    "cancer_notes": lambda: notes_of(datasets.load_breast_cancer(as_frame=True), 20, 0.5),
    "wine_notes": lambda: notes_of(datasets.load_wine(as_frame=True), 9, 0.5),
    "interaction": interaction,
    "levels": levels,
    "digits": digits,
}


def contents(frame: pd.DataFrame) -> dict[str, str]:
    """The columns of texts and images."""
    kinds = {name: "image" if isinstance(frame[name].dropna().iloc[0], bytes) else "" for name in frame}
    kinds = {name: kind or infer_kind(frame[name])[0] for name, kind in kinds.items()}
    return {str(name): kind for name, kind in kinds.items() if kind in ("text", "image")}


def vectors(column: pd.Series, kind: str, train: np.ndarray) -> Any:
    """TF-IDF of texts, or pixels, of zero where they are missing."""
    if kind == "text":
        texts = column.fillna("")
        return TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2)).fit(texts.iloc[train]).transform(texts)
    pixels = np.zeros((len(column), 256))
    for row in np.flatnonzero(column.notna()):
        pixels[row] = np.asarray(Image.open(io.BytesIO(column.iloc[row])).convert("L").resize((16, 16)), float).ravel()
    return sparse.csr_matrix(pixels / 255)


def stack(frame: pd.DataFrame, labels: np.ndarray, train: np.ndarray, test: np.ndarray, seed: int) -> np.ndarray:
    table = frame.drop(columns=list(contents(frame)))
    for name, kind in contents(frame).items():
        features = vectors(frame[name], kind, train)
        plain = LogisticRegression(C=10, max_iter=200)
        score = np.zeros((len(frame), len(np.unique(labels))))
        score[train] = cross_val_predict(plain, features[train], labels[train], cv=5, method="predict_proba")
        score[test] = plain.fit(features[train], labels[train]).predict_proba(features[test])
        score[frame[name].isna()] = np.nan
        table = table.assign(**{f"{name} {number}": column for number, column in enumerate(score.T[1:])})
    from lightgbm import LGBMClassifier

    small = LGBMClassifier(
        n_estimators=100, learning_rate=0.05, num_leaves=15, random_state=seed, verbosity=-1, n_jobs=1
    )
    table = with_categories(table)
    return np.asarray(small.fit(table.iloc[train], labels[train]).predict_proba(table.iloc[test]))


def tfidf_linear(frame: pd.DataFrame, labels: np.ndarray, train: np.ndarray, test: np.ndarray) -> np.ndarray:
    kinds = contents(frame)
    table = pd.get_dummies(frame.drop(columns=list(kinds)), dummy_na=True, dtype=float)
    table = table.fillna(table.iloc[train].mean()).fillna(0.0)
    table = (table - table.iloc[train].mean()) / table.iloc[train].std().replace(0, 1).fillna(1)
    parts = [sparse.csr_matrix(table.to_numpy())]
    features = sparse.hstack(
        [*parts, *(vectors(frame[name], kind, train) for name, kind in kinds.items())], format="csr"
    )
    return np.asarray(
        LogisticRegression(max_iter=500).fit(features[train], labels[train]).predict_proba(features[test])
    )


def components_lightgbm(
    frame: pd.DataFrame, labels: np.ndarray, train: np.ndarray, test: np.ndarray, seed: int
) -> np.ndarray:
    blank = {name: "" for name, kind in contents(frame).items() if kind == "text"}
    grey = {name: png(np.full((8, 8), 128.0)) for name, kind in contents(frame).items() if kind == "image"}
    table = with_categories(components(frame.fillna(blank | grey), train, texts=blank))
    return np.asarray(lightgbm(table, seed).fit(table.iloc[train], labels[train]).predict_proba(table.iloc[test]))


def answers(name: str, frame: pd.DataFrame, labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The probabilities of the test rows, and these rows."""
    train, test = train_test_split(np.arange(len(labels)), test_size=TEST, stratify=labels, random_state=seed)
    if name == "stack":
        return stack(frame, labels, train, test, seed), test
    if name == "TF-IDF + linear":
        return tfidf_linear(frame, labels, train, test), test
    if name == "LightGBM":
        return components_lightgbm(frame, labels, train, test, seed), test
    images = {column: kind for column, kind in contents(frame).items() if kind == "image"}
    model = GaugeClassifier(**OURS[name], columns=images, random_state=seed, verbose=False)
    if name == "quick without scores":
        with (
            patch.object(trees, "every_source", lambda *given: {}),
            patch.object(linear, "rare_sources", lambda schema: {}),
        ):
            model.fit(frame.iloc[train], labels[train])
    else:
        model.fit(frame.iloc[train], labels[train])
    return model.predict_proba(frame.iloc[test]), test


def measure(case: dict[str, Any]) -> dict[str, Any]:
    frame, labels = TABLES[case["table"]]()
    started = time.process_time()
    probabilities, test = answers(case["model"], blanked(frame, case["missing"], case["seed"]), labels, case["seed"])
    seconds = time.process_time() - started
    truth = np.unique(labels, return_inverse=True)[1][test]
    measured = {metric: round(float(value), 5) for metric, value in scores(probabilities, truth).items()}
    return case | {"rows": len(labels), "cpu_seconds": round(seconds, 2)} | measured


def main() -> None:
    names = [*OURS, *RIVALS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", nargs="*", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--models", nargs="*", choices=names, default=names)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    options = parser.parse_args()
    logging.getLogger("gauge").setLevel("ERROR")
    torch.set_num_threads(1)
    CASES.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    for seed, table, rate, model in itertools.product(range(options.seeds), options.only, RATES, options.models):
        path = CASES / f"{table}-{rate}-{seed}-{model.replace(' ', '_')}.json"
        if path.exists() or time.monotonic() - started > 60 * options.minutes:
            continue
        line = measure({"table": table, "missing": rate, "seed": seed, "model": model})
        path.write_text(json.dumps(line | origin(options)))
        print(
            path.stem,
            *(f"{line[name]:.3f}" for name in ("auc", "log_loss", "accuracy")),
            line["cpu_seconds"],
            flush=True,
        )
    lines = [json.loads(path.read_text()) for path in sorted(CASES.glob("*.json"))]
    write_lines(RESULTS, lines)
    frame = pd.DataFrame(lines)
    print(frame.pivot_table(["auc", "log_loss", "cpu_seconds"], ["table", "missing"], "model").round(3).to_string())


if __name__ == "__main__":
    main()
