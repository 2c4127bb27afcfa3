"""GaugeClassifier beside other classifiers on real tables with missing cells: scores, and rows per second.

    python perf/tables.py [--data DIR] [--only leaf wine] [--seeds 3] [--out results/tables] [--device cuda]

`wine`, `breast_cancer` and `digits` come with scikit-learn; `leaf` and `ham10000` are read from DIR, as the benchmarks of
these names read them. Cells are blanked at random in training and test rows alike. Scores are kept in one file for each
data set; what is there is not computed again.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import GroupShuffleSplit, train_test_split

from gauge import GaugeClassifier
from gauge.training.checkpoint import write_text
from gauge.training.device import pick_device
from gauge.training.provenance import commit, hardware

RATES = (0.0, 0.3, 0.6, 0.9)
IMAGE_RATE = 0.5
MODELS: dict[str, dict[str, Any]] = {
    "gauge": {},
    "no gates": {"gates": False},
    "mean filling": {"gates": False, "strategy": "impute", "imputer": "mean"},
}


class Data(NamedTuple):
    """A table, its labels, which columns are images and where they lie; rows of a group stay together."""

    frame: pd.DataFrame
    labels: np.ndarray
    images: tuple[str, ...] = ()
    folder: Path | None = None
    groups: np.ndarray | None = None


def bundled(load: Callable[..., Any]) -> Callable[[Path | None], Data]:
    def read(folder: Path | None) -> Data:
        frame, labels = load(return_X_y=True, as_frame=True)
        return Data(frame, labels.to_numpy())

    return read


def leaf(folder: Path | None) -> Data:
    table = pd.read_csv(_under(folder, "leaf") / "train.csv")
    images = table["id"].map("images/{}.jpg".format).rename("image")
    frame = pd.concat([table.drop(columns=["id", "species"]), images], axis=1)
    return Data(frame, table["species"].to_numpy(), ("image",), _under(folder, "leaf"))


def ham10000(folder: Path | None) -> Data:
    root = _under(folder, "HAM10000")
    table = pd.read_csv(root / "HAM10000_metadata.csv", na_values=["unknown"])
    paths = {path.stem: str(path.relative_to(root)) for path in sorted(root.rglob("*.jpg"))}
    frame = table[["age", "sex", "localization"]].assign(image=table["image_id"].map(paths))
    labels = np.where(table["dx"] == "mel", "melanoma", "other")
    return Data(frame, labels, ("image",), root, table["lesion_id"].to_numpy())


def _under(folder: Path | None, name: str) -> Path:
    if folder is None or not (folder / name).is_dir():
        raise SystemExit(f"{name} is read from --data DIR, which holds the folder {name}")
    return folder / name


DATA = {
    "wine": bundled(datasets.load_wine),
    "breast_cancer": bundled(datasets.load_breast_cancer),
    "digits": bundled(datasets.load_digits),
    "leaf": leaf,
    "ham10000": ham10000,
}


def blanked(data: Data, rate: float, image_rate: float, seed: int) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    rates = np.where(data.frame.columns.isin(data.images), image_rate, rate)
    missing = draw.random(data.frame.shape) < rates
    # a row keeps one value
    last = draw.integers(0, data.frame.shape[1], len(data.frame))
    missing[np.arange(len(missing)), last] &= ~missing.all(1)
    return data.frame.mask(pd.DataFrame(missing, data.frame.index, data.frame.columns))


def divided(data: Data, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rows = np.arange(len(data.labels))
    if data.groups is not None:
        return next(GroupShuffleSplit(1, test_size=0.3, random_state=seed).split(rows, groups=data.groups))
    return tuple(train_test_split(rows, test_size=0.3, stratify=data.labels, random_state=seed))


def scored(name: str, data: Data, frame: pd.DataFrame, seed: int, device: str | None) -> dict[str, Any]:
    """Fit on the training rows, answer the test rows."""
    train, test = divided(data, seed)
    if name == "boosted trees":
        table = frame.drop(columns=list(data.images))
        words = table.columns[[not pd.api.types.is_numeric_dtype(table[column]) for column in table]]
        frame = table.astype(dict.fromkeys(words, "category"))
        model: Any = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=seed)
    else:
        model = GaugeClassifier(
            **MODELS[name], image_folder=data.folder, random_state=seed, device=device, verbose=False
        )
    started = time.perf_counter()
    model.fit(frame.iloc[train], data.labels[train])
    fitted = time.perf_counter()
    chances = model.predict_proba(frame.iloc[test])
    done = time.perf_counter()
    result: dict[str, Any] = {
        "accuracy": accuracy_score(data.labels[test], model.classes_[chances.argmax(1)]),
        "seconds": round(fitted - started, 2),
        "rows_per_second": round(len(test) / (done - fitted), 1),
        "rows": [len(train), len(test)],
    }
    if len(model.classes_) == 2:
        result["auc"] = roc_auc_score(data.labels[test] == model.classes_[1], chances[:, 1])
    if isinstance(model, GaugeClassifier):
        result |= {"strategy": model.strategy_, "validation": model.validation_scores_}
    return result


def conditions(data: Data) -> dict[str, tuple[float, float]]:
    """What is blanked: the share of cells, and of images."""
    shares = {f"{100 * rate:.0f} % of cells": (rate, 0.0) for rate in RATES}
    if data.images:
        shares["half of the pictures"] = (0.0, IMAGE_RATE)
    return shares


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, help="folder with leaf and HAM10000")
    parser.add_argument("--only", nargs="*", choices=list(DATA), default=list(DATA)[:3])
    parser.add_argument("--models", nargs="*", choices=["boosted trees", *MODELS], default=["boosted trees", *MODELS])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("results/tables"))
    parser.add_argument("--device")
    options = parser.parse_args()
    for name in options.only:
        data = DATA[name](options.data)
        path = options.out / f"{name}.json"
        records = json.loads(path.read_text()) if path.exists() else []
        origin = {"commit": commit(), "hardware": hardware(pick_device(options.device))}
        for seed in range(options.seeds):
            for condition, (rate, image_rate) in conditions(data).items():
                frame = blanked(data, rate, image_rate, seed)
                for model in options.models:
                    about = {"data": name, "model": model, "condition": condition, "seed": seed}
                    if any(about.items() <= each.items() for each in records):
                        continue
                    record = about | scored(model, data, frame, seed, options.device)
                    records.append(record | origin)
                    lines = ",\n".join(json.dumps(each) for each in records)
                    write_text(path, f"[\n{lines}\n]\n")
                    print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
