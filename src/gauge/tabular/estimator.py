"""GaugeClassifier: a scikit-learn classifier for tables of numbers, categories, texts and images with missing values."""

import logging
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import train_test_split
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from gauge import __version__
from gauge.registry import IMPUTERS, pick
from gauge.tabular import inputs, saving
from gauge.tabular.columns import IMAGE_SIDE, ImageFiles
from gauge.tabular.explanation import Explanation, Reader
from gauge.tabular.fitting import SIZES, Recipe, Strategy, train_model
from gauge.tabular.schema import Encoded, Schema
from gauge.training.device import pick_device
from gauge.training.metrics import ACCURACY, AUC, METRICS
from gauge.training.progress import stage_progress
from gauge.training.stages import OnEpoch
from gauge.types import SupportsComplete

logger = logging.getLogger(__name__)

TOO_FEW = 50  # rows: none are held out for validation
LEAST_HIDDEN, MOST_HIDDEN = 0.5, 0.9  # limits of the share of values that training hides
STRATEGIES: dict[str, tuple[Strategy, ...]] = {"auto": ("mask", "impute"), "mask": ("mask",), "impute": ("impute",)}
OPTIONS: dict[str, tuple[Any, ...]] = {  # what the value must be, its type, and a further condition unless it is None
    "columns": ("a mapping or None", Mapping | None),
    "encoders": ("a mapping or None", Mapping | None),
    "gates": ("True or False", bool | np.bool_),
    "missing_rate": ("a number from 0 to 1 or None", Real | None, lambda rate: 0 <= rate <= 1),
    "class_weight": ("'balanced', a mapping or None", object, lambda w: w == "balanced" or isinstance(w, Mapping)),
    "validation": ("a number between 0 and 1", Real, lambda share: 0 < share < 1),
    "epochs": ("a positive integer or None", Integral | None, lambda count: count >= 1),
    "batch_size": ("a positive integer or None", Integral | None, lambda count: count >= 1),
    "learning_rate": ("a positive number", Real, lambda rate: rate > 0),
    "donors": ("a positive integer", Integral, lambda count: count >= 1),
    "image_size": ("an integer of at least 16", Integral, lambda side: side >= 16),
    "outside_images": ("True or False", bool | np.bool_),
    "time_limit": ("a positive number or None", Real | None, lambda seconds: seconds > 0),
    "verbose": ("True or False", bool | np.bool_),
}


class GaugeClassifier(ClassifierMixin, BaseEstimator):
    """Fit on a DataFrame, predict with any values missing, and see for every row which evidence was trusted.

    `columns` overrides the inferred kind of a column: "number", "category", "text", "image" or "ignore". `encoders` are
    pretrained Hugging Face models for columns of texts and images, by name or path; their weights are not trained.
    `strategy` is "mask" (missing values are hidden), "impute" (they are imputed, and gated) or "auto" (the better one in
    validation); `imputer` is masked_columns, nearest, mean, zero, or any object with `complete(batch)`. `gates=False`
    trains the same network without gates. `missing_rate` is the largest share of values that training hides in addition to
    those missing in the data; None estimates it. `metric` is what validation compares: "accuracy", "auc", or "auto", the
    AUC for two classes and the accuracy for more; `validation` is the share of rows held out for it. `size` is small,
    medium or large. `donors` is the number of training rows kept to impute images and texts from, `image_folder` the
    folder that image paths are relative to, `time_limit` is in seconds. Image paths that lead out of `image_folder` count as
    missing unless `outside_images` is True; images are resized to `image_size` x `image_size` pixels.

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
        outside_images: bool = False,
        image_size: int = IMAGE_SIDE,
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
        self.outside_images = outside_images
        self.image_size = image_size
        self.time_limit = time_limit
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """The parameters that differ from their defaults and, once fitted, what was learned."""
        text = super().__repr__(N_CHAR_MAX)
        if not hasattr(self, "model_"):
            return text
        counts = f"columns: {len(self.schema_.columns)}, classes: {len(self.classes_)}, rows: {self.n_rows_['train']}"
        return f"<{text} fitted; {counts}, strategy: {self.strategy_!r}>"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None, folder: str | Path | None = None) -> Self:
        """Train on rows and their labels, or the name of the column with the labels.

        With a folder every epoch is saved, and the same call continues an interrupted training.
        """
        self._check_options()
        frame, y = self._rows_and_labels(X, y)
        self.classes_, labels = inputs.class_numbers(y)
        self.class_weights_ = inputs.class_weights(self.class_weight, labels, self.classes_)
        unweighted = _check_weights(sample_weight, len(frame))
        weights = unweighted * self.class_weights_[labels]
        self.recipe_ = self._recipe(check_random_state(self.random_state).randint(2**31 - 1))
        self.schema_ = Schema.of(frame, self.columns, self.encoders, self.image_size)
        self._print(*self.schema_.summary())
        for problem in inputs.cost_problems(len(self.schema_.columns)):
            logger.warning(problem)
        encoded = self.schema_.encode(frame, self._image_files(), training=True)
        self.missing_rates_ = self.schema_.missing_rates(encoded)
        if self.missing_rate is None:
            rate = min(MOST_HIDDEN, max(LEAST_HIDDEN, 2 * max(self.missing_rates_.values())))
            self.recipe_ = replace(self.recipe_, rate=round(rate, 2))
        if encoded.empty.any():
            logger.warning("%d rows have no values and are left out of training", encoded.empty.sum())
        used = np.flatnonzero(~encoded.empty & (weights > 0))
        if not len(used):
            raise ValueError("no row has a value and a weight above zero; give rows with at least one value")
        counts = np.bincount(labels[used], unweighted[used], len(self.classes_))
        self.class_prior_ = counts / counts.sum()
        train, val = self._split(used, labels)
        if len(val) and len(np.unique(labels[val])) < len(self.classes_):  # an AUC needs every class
            self.recipe_ = replace(self.recipe_, metric=ACCURACY)
        device = pick_device(self.device)
        with self._progress() as on_epoch:
            fitted = train_model(
                self.schema_,
                len(self.classes_),
                self.recipe_,
                train=encoded.dataset("train", train, labels).to(device),
                val=encoded.dataset("val", val, labels).to(device) if len(val) else None,
                weights=torch.from_numpy(weights[train]).float().to(device),
                folder=None if folder is None else Path(folder),
                on_epoch=on_epoch,
            )
        self.model_, self.strategy_ = fitted.model, fitted.strategy
        self.validation_scores_, self.epochs_, self.cut_short_ = fitted.scores, fitted.epochs, fitted.cut_short
        shares = np.bincount(labels, minlength=len(self.classes_)) / len(labels)
        self.largest_class_ = (str(self.classes_[shares.argmax()]), float(shares.max()))
        self.n_rows_ = {"train": len(train), "val": len(val), "empty": int(encoded.empty.sum())}
        self._print(self.verdict_)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of every class in the data, whatever `class_weight` is, in the order of `classes_`; the class
        prior for a row without values."""
        _, encoded = self._read(X)
        probabilities = np.tile(self.class_prior_, (len(encoded.empty), 1))
        for batch in encoded.batches(next(self.model_.parameters()).device):
            logits = self.model_.predict(batch).logits
            answers = logits.double().softmax(1).cpu().numpy()
            probabilities[batch.index.cpu().numpy()] = inputs.probabilities_of(answers, self.class_weights_)
        return probabilities

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of every row; with `class_weight` the one of the largest weighted probability."""
        probabilities = self.predict_proba(X)
        return self.classes_[(probabilities * self.class_weights_).argmax(1)]

    def explain(self, X: Any, y: Any = None, *, exact: bool = False) -> Explanation:
        """Every unit of every row with its value, score, gate and attention; `exact` adds the effect of leaving it out.

        `y`, labels or the name of their column, is shown beside the predictions.
        """
        if not self.gates:
            raise ValueError("this classifier has no gates to explain (gates=False); fit it with gates")
        frame, encoded = self._read(X)
        if isinstance(y, str):
            y = X[pick({name: name for name in X.columns}, y, "column with the labels")]
        labels = None if y is None else [str(label) for label in y]
        reader = Reader(self.schema_, self.model_, self.classes_.tolist(), self.class_prior_, self.class_weights_)
        return Explanation(reader.rows(frame, encoded, labels=labels, exact=exact), self._facts())

    @property
    def verdict_(self) -> str:
        """The strategy that was chosen, and the validation score of each."""
        scores = {name: score for name, score in self.validation_scores_.items() if score is not None}
        if not scores:
            return f"strategy {self.strategy_!r}; too few rows to validate"
        text = " and ".join(f"{100 * score:.1f} % with {name!r}" for name, score in scores.items())
        if len(scores) > 1:
            better = scores["impute"] - scores["mask"]
            text += f" ({100 * better:+.1f} points for imputing"
            text += ", within chance)" if self.strategy_ == "mask" and better > 0 else ")"
        if self.recipe_.metric is ACCURACY:
            label, share = self.largest_class_
            text += f"; always predicting {label!r} would give {100 * share:.1f} %"
        for stage, (done, planned) in self.cut_short_.items():
            text += f"; the time limit ended {stage!r} after {done} of {planned} epochs"
        return f"strategy {self.strategy_!r}: validation {self.recipe_.metric} {text}"

    def save(self, folder: str | Path) -> None:
        """Write weights, columns and a model card; loading them executes no code."""
        check_is_fitted(self, "model_")
        saving.save(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None, image_folder: str | Path | None = None) -> Self:
        """The classifier that `save` wrote to a folder, ready to predict."""
        return saving.load(cls, Path(folder), device=device, image_folder=image_folder)

    def _check_options(self) -> None:
        for name, (rule, kind, *conditions) in OPTIONS.items():
            value = getattr(self, name)
            if not isinstance(value, kind) or (value is not None and not all(fits(value) for fits in conditions)):
                raise ValueError(f"The {name!r} parameter of {type(self).__name__} must be {rule}, got {value!r}")

    def _rows_and_labels(self, X: Any, y: Any) -> tuple[pd.DataFrame, Any]:
        """The table without the column of labels, and the labels."""
        self.target_: str | None = None
        if inputs.is_frame(X):
            X = inputs.as_pandas(X)
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
            return self._from_array(X, y)
        if not len(X):
            raise ValueError("the table has no rows; give some to learn from")
        validate_data(self, X, skip_check_array=True)
        if len(y) != len(X):
            raise ValueError(f"the table has {len(X)} rows but there are {len(y)} labels; give one for each row")
        if isinstance(y, pd.Series) and not y.index.equals(X.index) and set(y.index) == set(X.index):
            logger.warning("y and the table have the same index in different orders; labels are matched by position")
        return X, y

    def _recipe(self, seed: int) -> Recipe:
        pick(SIZES, self.size, "size")
        if isinstance(self.imputer, str):
            kinds = {name: IMPUTERS.get(name) for name in IMPUTERS.names()}
            general = {name: kind for name, kind in kinds.items() if not (kind.needs_image or kind.reads_hidden_values)}
            pick(general, self.imputer, "imputer")
        automatic = {"auto": AUC if len(self.classes_) == 2 else ACCURACY}
        return Recipe(
            size=self.size,
            strategies=pick(STRATEGIES, self.strategy, "strategy"),
            imputer=self.imputer,
            gates=self.gates,
            rate=LEAST_HIDDEN if self.missing_rate is None else self.missing_rate,
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            metric=pick(METRICS | automatic, self.metric, "metric"),
            donors=self.donors,
            seed=seed,
            seconds=self.time_limit,
        )

    def _split(self, used: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows to train on and rows to validate with, every class in both; none of the latter if there are too few."""
        counts = np.bincount(labels[used], minlength=len(self.classes_))
        frequent = used[counts[labels[used]] > 1]  # a class with a single row is trained on
        held_out, classes = round(self.validation * len(frequent)), len(np.unique(labels[frequent]))
        if len(used) < TOO_FEW or classes < 2 or held_out < classes:
            return used, used[:0]
        seed = self.recipe_.seed
        _, val = train_test_split(frequent, test_size=held_out, stratify=labels[frequent], random_state=seed)
        return np.setdiff1d(used, val), np.sort(val)

    def _read(self, X: Any) -> tuple[pd.DataFrame, Encoded]:
        """Rows to predict, as given and as tensors."""
        check_is_fitted(self, "model_")
        named = hasattr(self, "feature_names_in_")
        if inputs.is_frame(X):
            frame = inputs.match_columns(X, self.schema_.names, named=named, target=self.target_)
        else:
            rows = inputs.from_array(X) if named else self._from_array(X, reset=False)[0]
            frame = inputs.by_position(rows, self.schema_.names)
        encoded = self.schema_.encode(frame, self._image_files())
        if encoded.empty.any():
            logger.warning("%d rows have no values and get the class prior", encoded.empty.sum())
        return frame, encoded

    def _from_array(self, X: Any, y: Any = "no_validation", **options: Any) -> tuple[pd.DataFrame, Any]:
        """Rows and labels as scikit-learn validates them: only arrays of numbers pass."""
        inputs.check_array_like(X)
        try:
            valid = validate_data(self, X, y, dtype="numeric", ensure_all_finite="allow-nan", **options)
        except ValueError as error:
            if "could not convert string" not in str(error):
                raise
            raise ValueError(f"{error}; arrays hold numbers only: give a DataFrame for texts and images") from error
        values, labels = valid if isinstance(valid, tuple) else (valid, None)
        return pd.DataFrame(values, columns=[f"x{index}" for index in range(values.shape[1])]), labels

    def _image_files(self) -> ImageFiles:
        return ImageFiles(Path(self.image_folder or ""), self.outside_images or self.image_folder is None)

    def _facts(self) -> dict[str, str]:
        """How the model was trained, for reports and the card."""
        encoders = ", ".join(f"{column}: {source}" for column, source in self.schema_.encoders.items())
        return {
            "Predicts": self.target_ or "the label",
            "Model": f"gauge-ml {__version__}, size {self.size!r}, random_state {self.random_state}",
            "Strategy": self.verdict_,
            "Trained on": f"{self.n_rows_['train']} rows, {self.n_rows_['val']} more to validate",
            "Missing in training": f"{100 * np.mean(list(self.missing_rates_.values())):.0f} % of all cells",
        } | ({"Pretrained encoders": encoders} if encoders else {})

    def _progress(self) -> AbstractContextManager[OnEpoch]:
        return stage_progress() if self.verbose else nullcontext(lambda stage, epoch: None)

    def _print(self, *lines: str) -> None:
        if self.verbose:
            print(*lines, sep="\n", file=sys.stderr)


def _check_weights(weights: Any, rows: int) -> np.ndarray:
    """A weight for each row, 1 unless given."""
    if weights is None or isinstance(weights, Real):
        weights = np.full(rows, 1.0 if weights is None else weights)
    weights = check_array(weights, dtype=float, ensure_2d=False, ensure_non_negative=True, input_name="sample_weight")
    if weights.shape != (rows,):
        raise ValueError(f"sample_weight has shape {list(weights.shape)}; give one weight for each row, [{rows}]")
    return weights
