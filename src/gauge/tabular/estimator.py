"""GaugeClassifier: a scikit-learn estimator for tables with numbers, categories, texts and images, any of them missing."""

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
import torch
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state, compute_sample_weight
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from gauge import __version__
from gauge.data import Dataset
from gauge.registry import IMPUTERS, pick
from gauge.tabular.columns import missing
from gauge.tabular.explanation import Explanation, Reader
from gauge.tabular.fitting import SIZES, Recipe, Strategy, train_model
from gauge.tabular.schema import Encoded, Schema
from gauge.training.device import pick_device
from gauge.training.metrics import ACCURACY, AUC, METRICS
from gauge.training.progress import stage_progress
from gauge.training.stages import OnEpoch
from gauge.types import SupportsComplete

__all__ = ["GaugeClassifier"]

logger = logging.getLogger(__name__)

LISTED = 20  # columns of a kind that are named
TOO_FEW = 50  # rows: all of them are trained on
LEAST_HIDDEN, MOST_HIDDEN = 0.5, 0.9  # limits of the share of values that training hides


class GaugeClassifier(ClassifierMixin, BaseEstimator):
    """Fit on a DataFrame, predict under any missingness, and see for every row which evidence was trusted.

    `columns` says what a column holds ("number", "category", "text", "image", "ignore") where guessing would be wrong.
    `encoders` names pretrained Hugging Face models, by name or path, for columns of texts and images; they stay as they are.
    `strategy` "auto" lets validation decide between "mask" (what is missing is hidden) and "impute" (it is filled in, and
    gated); `imputer` is one of masked_columns, nearest, mean, zero, or any object with `complete(batch)`. `gates=False` is
    the same network without gates. `missing_rate` is the largest share of values that training hides on top of the gaps
    of the data; it is estimated when None. `metric` that validation looks at: "accuracy", "auc", or "auto", the AUC with two
    classes and the accuracy with more. `validation` is its share of the rows. `size`: small, medium or large networks.
    `donors` is how many training rows are kept to take pictures and texts from, `image_folder` where paths of pictures
    begin, `time_limit` in seconds.

    >>> table = pd.DataFrame({"age": [20.0, 70, None, 65] * 10, "sex": ["f", None, "m", "m"] * 10})
    >>> model = GaugeClassifier(epochs=2, random_state=0, verbose=False).fit(table, ["well", "ill", "well", "ill"] * 10)
    >>> model.predict_proba(table[:2]).shape
    (2, 2)
    """

    def __init__(
        self,
        *,
        columns: Mapping[str, str] | None = None,
        encoders: Mapping[str, str | Path] | None = None,
        strategy: Literal["auto", "mask", "impute"] = "auto",
        imputer: str | SupportsComplete = "masked_columns",
        gates: bool = True,
        size: str = "small",
        missing_rate: float | None = None,
        metric: Literal["auto", "accuracy", "auc"] = "auto",
        class_weight: str | Mapping[Any, float] | None = None,
        validation: float = 0.15,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float = 2e-3,
        donors: int = 1000,
        image_folder: str | Path | None = None,
        time_limit: float | None = None,
        random_state: Any = None,
        device: str | None = None,
        verbose: bool = True,
    ) -> None:
        self.columns = columns
        self.encoders = encoders
        self.strategy = strategy
        self.imputer = imputer
        self.gates = gates
        self.size = size
        self.missing_rate = missing_rate
        self.metric = metric
        self.class_weight = class_weight
        self.validation = validation
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.donors = donors
        self.image_folder = image_folder
        self.time_limit = time_limit
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "columns": [Mapping, None],
        "encoders": [Mapping, None],
        "gates": ["boolean"],
        "missing_rate": [Interval(Real, 0, 1, closed="both"), None],
        "class_weight": [StrOptions({"balanced"}), Mapping, None],
        "validation": [Interval(Real, 0, 1, closed="neither")],
        "epochs": [Interval(Integral, 1, None, closed="left"), None],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "donors": [Interval(Integral, 1, None, closed="left")],
        "time_limit": [Interval(Real, 0, None, closed="neither"), None],
        "verbose": ["boolean"],
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None, folder: str | Path | None = None) -> Self:
        """Train on rows with their labels, or with the name of the column that holds them.

        With a folder every epoch is saved there; the same call continues where an earlier one was stopped.
        """
        self._validate_params()
        frame, y = self._rows_and_labels(X, y)
        labels = self._encode_labels(y)
        weights = _check_sample_weight(sample_weight, frame, dtype=np.float64, ensure_non_negative=True)
        weights = weights * compute_sample_weight(self.class_weight, y)
        self.recipe_ = self._recipe(check_random_state(self.random_state).randint(2**31 - 1))
        self.schema_ = Schema.of(frame, self.columns, self.encoders)
        self._say(describe(self.schema_))
        encoded = self.schema_.encode(frame, self._image_folder)
        self.missing_rates_ = self.schema_.missing_rates(encoded)
        if self.missing_rate is None:
            rate = min(MOST_HIDDEN, max(LEAST_HIDDEN, 2 * max(self.missing_rates_.values())))
            self.recipe_ = replace(self.recipe_, rate=round(rate, 2))
        if encoded.empty.any():
            logger.warning("%d rows have no value at all and are left out of training", int(encoded.empty.sum()))
        used = np.flatnonzero(~encoded.empty & (weights > 0))
        if not len(used):
            raise ValueError("no row has a value and a weight above zero; give rows with at least one value")
        counts = np.bincount(labels[used], weights[used], len(self.classes_))
        self.class_prior_ = counts / counts.sum()
        train, val = self._divide(used, labels)
        if len(val) and len(np.unique(labels[val])) < len(self.classes_):  # an AUC would miss a class
            self.recipe_ = replace(self.recipe_, metric=ACCURACY)
        device = pick_device(self.device)
        splits = {
            name: _dataset(name, encoded, rows, labels).to(device)
            for name, rows in (("train", train), ("val", val))
            if len(rows)
        }
        with self._progress() as on_epoch:
            fitted = train_model(
                self.schema_,
                len(self.classes_),
                self.recipe_,
                train=splits["train"],
                val=splits.get("val"),
                weights=torch.from_numpy(weights[train]).float().to(device),
                folder=None if folder is None else Path(folder),
                on_epoch=on_epoch,
            )
        self.model_, self.strategy_ = fitted.model, fitted.strategy
        self.validation_scores_, self.epochs_ = dict(fitted.scores), dict(fitted.epochs)
        self.cut_short_ = dict(fitted.cut_short)
        shares = np.bincount(labels, minlength=len(self.classes_)) / len(labels)
        self.largest_class_ = (str(self.classes_[shares.argmax()]), float(shares.max()))
        self.n_rows_ = {"train": len(train), "val": len(val), "empty": int(encoded.empty.sum())}
        self._say([self.verdict_])
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of every class, in the order of `classes_`; the class prior for a row with nothing in it."""
        _, encoded = self._read(X)
        found = np.tile(self.class_prior_, (len(encoded.empty), 1))
        for batch in encoded.batches(self._device):
            logits = self.model_.predict(batch).logits
            found[batch.index.cpu().numpy()] = logits.double().softmax(1).cpu().numpy()
        return found

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest class of every row."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(1)]

    def explain(self, X: Any, y: Any = None, *, exact: bool = False) -> Explanation:
        """Every unit of every row with its value, score, gate and attention; `exact` adds the effect of leaving it out.

        `y`, where it is known, is shown beside the prediction.
        """
        if not self.gates:
            raise ValueError(
                "this classifier was fitted with gates=False and has no gates to explain; fit it with gates"
            )
        frame, encoded = self._read(X)
        if isinstance(y, str):
            y = X[pick({name: name for name in X.columns}, y, "column with the labels")]
        labels = None if y is None else [str(label) for label in y]
        reader = Reader(self.schema_, self.model_, self.classes_.tolist(), self.class_prior_)
        return Explanation(reader.rows(frame, encoded, labels=labels, exact=exact), self._facts())

    @property
    def verdict_(self) -> str:
        """Which strategy was taken, and what validation said of each."""
        scores = {name: score for name, score in self.validation_scores_.items() if score is not None}
        if not scores:
            return f"strategy {self.strategy_!r}; too few rows to validate"
        told = " and ".join(f"{100 * score:.1f} % with {name!r}" for name, score in scores.items())
        if len(scores) > 1:
            better = scores["impute"] - scores["mask"]
            told += f" ({100 * better:+.1f} points for imputing"
            told += ", within chance)" if self.strategy_ == "mask" and better > 0 else ")"
        if self.recipe_.metric is ACCURACY:
            label, share = self.largest_class_
            told += f"; always saying {label!r} would give {100 * share:.1f} %"
        for stage, (done, planned) in self.cut_short_.items():
            told += f"; the time limit ended {stage!r} after {done} of {planned} epochs"
        return f"strategy {self.strategy_!r}: validation {self.recipe_.metric} {told}"

    def save(self, folder: str | Path) -> None:
        """Write weights, columns and a model card; nothing in the folder can run code when it is loaded."""
        from gauge.tabular.saving import save

        check_is_fitted(self, "model_")
        save(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None, image_folder: str | Path | None = None) -> Self:
        """The classifier that `save` left in a folder, ready to predict."""
        from gauge.tabular.saving import load

        return load(cls, Path(folder), device=device, image_folder=image_folder)

    @property
    def _device(self) -> torch.device:
        return next(self.model_.parameters()).device

    @property
    def _image_folder(self) -> Path:
        return Path(self.image_folder or "")

    def _rows_and_labels(self, X: Any, y: Any) -> tuple[pd.DataFrame, Any]:
        """The table without the column of labels, and the labels."""
        self.target_: str | None = None
        if isinstance(y, str):
            if not isinstance(X, pd.DataFrame) or y not in X:
                columns = list(X.columns) if isinstance(X, pd.DataFrame) else "no names"
                raise ValueError(f"there is no column {y!r} with the labels; the table has {columns}")
            self.target_, X, y = y, X.drop(columns=y), X[y]
        if y is None:
            raise ValueError(
                "GaugeClassifier requires y to be passed, but the target y is None; give labels or the name of their column"
            )
        if not isinstance(X, pd.DataFrame):
            with _numbers_only(X):
                X, y = validate_data(self, X, y, dtype="numeric", ensure_all_finite="allow-nan")
            return _as_frame(X), y
        _check_names(X)
        if not len(X):
            raise ValueError("the table has no rows; give some to learn from")
        validate_data(self, X, skip_check_array=True)
        if len(y) != len(X):
            raise ValueError(f"the table has {len(X)} rows but there are {len(y)} labels; give one for each row")
        if isinstance(y, pd.Series) and not y.index.equals(X.index) and set(y.index) == set(X.index):
            logger.warning(
                "the index of y has another order than the table's; labels are taken row by row, as they stand"
            )
        return X.rename(columns=str), y

    def _encode_labels(self, y: Any) -> np.ndarray:
        """Class numbers, and `classes_`."""
        labels = pd.Series(column_or_1d(y, warn=True))
        empty = np.flatnonzero(missing(labels))
        if len(empty):
            raise ValueError(f"the label of row {empty[0]} is missing ({len(empty)} such); leave these rows out")
        values = labels.to_numpy()
        check_classification_targets(values)
        self.classes_, numbers = np.unique(values, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"all labels are {self.classes_[0]!r}: one class is nothing to tell apart; give rows of two or more"
            )
        return numbers

    def _recipe(self, seed: int) -> Recipe:
        strategies: dict[str, tuple[Strategy, ...]] = {
            "auto": ("mask", "impute"),
            "mask": ("mask",),
            "impute": ("impute",),
        }
        pick(SIZES, self.size, "size")
        if isinstance(self.imputer, str):
            _check_imputer(self.imputer)
        metric = (AUC if len(self.classes_) == 2 else ACCURACY) if self.metric == "auto" else None
        return Recipe(
            size=self.size,
            strategies=pick(strategies, self.strategy, "strategy"),
            imputer=self.imputer,
            gates=self.gates,
            rate=LEAST_HIDDEN if self.missing_rate is None else self.missing_rate,
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            metric=metric or pick(METRICS, self.metric, "metric"),
            donors=self.donors,
            seed=seed,
            seconds=self.time_limit,
        )

    def _divide(self, used: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows to train on and rows to validate with, every class in both; none of the latter where there are too few."""
        counts = np.bincount(labels[used], minlength=len(self.classes_))
        frequent = used[counts[labels[used]] > 1]  # a class with a single row is trained on
        held_out, classes = round(self.validation * len(frequent)), len(np.unique(labels[frequent]))
        if len(used) < TOO_FEW or classes < 2 or held_out < classes:
            return used, used[:0]
        _, val = train_test_split(
            frequent, test_size=held_out, stratify=labels[frequent], random_state=self.recipe_.seed
        )
        return np.setdiff1d(used, val), np.sort(val)

    def _read(self, X: Any) -> tuple[pd.DataFrame, Encoded]:
        """Rows to answer, as they came and as tensors."""
        check_is_fitted(self, "model_")
        if isinstance(X, pd.DataFrame):
            _check_names(X)
            known = {*map(str, getattr(self, "feature_names_in_", ())), self.target_}
            strange = [name for name in X.columns if str(name) not in known]
            if strange and hasattr(self, "feature_names_in_"):
                logger.warning("column %r was not there in training (%d such) and is ignored", strange[0], len(strange))
            frame = X.rename(columns=str)
        else:
            with _numbers_only(X):
                X = validate_data(self, X, reset=False, dtype="numeric", ensure_all_finite="allow-nan")
            frame = _as_frame(X)
        encoded = self.schema_.encode(frame, self._image_folder)
        if encoded.empty.any():
            logger.warning("%d rows have no value at all and get the class prior", int(encoded.empty.sum()))
        return frame, encoded

    def _facts(self) -> dict[str, str]:
        """How the model came about, for reports and the card."""
        encoders = ", ".join(f"{column}: {source}" for column, source in self.schema_.encoders.items())
        return {
            "Predicts": self.target_ or "the label",
            "Model": f"gauge-ml {__version__}, size {self.size!r}, random_state {self.random_state}",
            "Strategy": self.verdict_,
            "Trained on": f"{self.n_rows_['train']} rows, {self.n_rows_['val']} more to validate",
            "Missing there": f"{100 * np.mean(list(self.missing_rates_.values())):.0f} % of all cells",
        } | ({"Pretrained encoders": encoders} if encoders else {})

    @contextmanager
    def _progress(self) -> Iterator[OnEpoch]:
        if not self.verbose:
            yield lambda stage, epoch: None
            return
        with stage_progress() as on_epoch:
            yield on_epoch

    def _say(self, lines: list[str]) -> None:
        if self.verbose:
            print("\n".join(lines), file=sys.stderr)


def describe(schema: Schema) -> list[str]:
    """What every column was taken for."""
    kinds: dict[str, list[str]] = {}
    for column in schema.columns:
        kinds.setdefault(column.kind, []).append(column.name)
    more = {kind: f" ... ({len(names)} in all)" if len(names) > LISTED else "" for kind, names in kinds.items()}
    lines = [f"{kind}: {', '.join(names[:LISTED])}{more[kind]}" for kind, names in kinds.items()]
    return lines + [f"ignored: {name} ({reason})" for name, reason in schema.ignored.items()]


def _check_imputer(name: str) -> None:
    """Any registered imputer that fills tables of anybody's: none that needs an image, or reads what is hidden."""
    kinds = {each: IMPUTERS.get(each) for each in IMPUTERS.names()}
    serving = {each: kind for each, kind in kinds.items() if not (kind.needs_image or kind.reads_hidden_values)}
    pick(serving, name, "imputer")


def _dataset(name: str, encoded: Encoded, rows: np.ndarray, labels: np.ndarray) -> Dataset:
    part = encoded.rows(rows)
    return Dataset(name, part.inputs, torch.from_numpy(labels[rows]).long(), part.observed)


@contextmanager
def _numbers_only(rows: Any) -> Iterator[None]:
    """Arrays hold numbers; what else people hand over is told in a line."""
    first = rows[0] if isinstance(rows, list) and rows else None
    told = rows is None or isinstance(rows, pd.Series | Mapping | str) or isinstance(first, Mapping)
    if told and not issparse(rows):
        what = "a list of mappings" if first is not None else f"a {type(rows).__name__}"
        raise ValueError(f"the rows came as {what}; give a DataFrame, for example pd.DataFrame(rows)")
    try:
        yield
    except ValueError as error:
        if "could not convert string" in str(error):
            raise ValueError(
                f"{error}; an array holds numbers only: give a DataFrame for words and pictures"
            ) from error
        raise


def _as_frame(values: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(values, columns=[f"x{place}" for place in range(values.shape[1])])


def _check_names(frame: pd.DataFrame) -> None:
    names = pd.Index(map(str, frame.columns))
    if names.has_duplicates:
        raise ValueError(f"the table has column {names[names.duplicated()][0]!r} twice; rename or drop one of them")
