"""GaugeClassifier: a scikit-learn classifier for tables of numbers, categories, texts and images with missing values."""

import logging
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from gauge.choices import pick
from gauge.methods.gauge_plus import GaugePlus
from gauge.registry import IMPUTERS
from gauge.tabular import saving
from gauge.tabular.evidence.cell_trust import Trust
from gauge.tabular.experts import Task
from gauge.tabular.experts.ensemble import Network, choose_experts
from gauge.tabular.experts.learning import FittedEnsemble, fit_ensemble
from gauge.tabular.experts.network import SIZES, Recipe, Strategy
from gauge.tabular.options import check_options
from gauge.tabular.reporting import Reporting
from gauge.tabular.table import inputs
from gauge.tabular.table.columns import IMAGE_SIDE, ImageFiles
from gauge.tabular.table.rows import Rows, unread_contents
from gauge.tabular.table.schema import Schema
from gauge.tabular.table.stream import Stream
from gauge.training.device import cpu_threads, pick_device
from gauge.training.loop import Epoch
from gauge.training.metrics import ACCURACY, AUC, METRICS
from gauge.training.progress import stage_progress
from gauge.training.stages import OnEpoch
from gauge.types import SupportsComplete

logger = logging.getLogger(__name__)

LEAST_HIDDEN, MOST_HIDDEN = 0.5, 0.9  # limits of the share of values that training hides
STRATEGIES: dict[str, tuple[Strategy, ...]] = {"auto": ("mask", "impute"), "mask": ("mask",), "impute": ("impute",)}


class GaugeClassifier(Reporting, ClassifierMixin, BaseEstimator):
    """Fit on a DataFrame, predict with any values missing, and see for every row which evidence was trusted.

    `columns` overrides the inferred kind of a column: "number", "category", "text", "image" or "ignore". `encoders` are
    pretrained Hugging Face models for columns of texts and images, by name or path; their weights are not trained.
    `experts` are the models that answer together: "network", "trees" (boosted trees), "linear" (TF-IDF of texts, too), or
    "auto", all of them; `leaderboard_` says what each scores and weighs. `strategy` is how the network meets missing
    values: "mask" (they are hidden), "impute" (they are imputed, and gated) or "auto" (the better one in validation);
    `imputer` is masked_columns, nearest, mean, zero, or any object with `complete(batch)`. `gates=False` trains the same
    network without gates, `trust=False` learns no trust in cells. `missing_rate` is the largest share of values that
    training hides in addition to those missing in the data; None estimates it. `metric` is what validation compares:
    "accuracy", "auc", or "auto", the AUC for two classes and the accuracy for more; `validation` is the share of rows
    held out for it. `class_weight` tells `predict` what the classes count; `predict_proba` gives the probabilities of the
    data all the same. `size` is small,
    medium or large. `donors` is the number of training rows kept to impute images and texts from, `image_folder` the
    folder that image paths are relative to, `time_limit` is in seconds. Image paths that lead out of `image_folder` count as
    missing unless `outside_images` is True; images are resized to `image_size` x `image_size` pixels. `n_jobs` is the
    number of CPU threads, -1 for all.

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
        experts: str | Sequence[str] = "auto",
        strategy: Literal["auto", "mask", "impute"] = "mask",
        imputer: str | SupportsComplete = "masked_columns",
        gates: bool = True,
        trust: bool = True,
        size: str = "small",
        missing_rate: float | None = None,
        metric: Literal["auto", "accuracy", "auc"] = "auto",
        class_weight: str | Mapping[Any, float] | None = None,
        validation: float = 0.2,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float = 5e-3,
        donors: int = 1000,
        image_folder: str | Path | None = None,
        outside_images: bool = False,
        image_size: int = IMAGE_SIDE,
        time_limit: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str | None = None,
        verbose: bool = True,
    ) -> None:
        self.columns = columns
        self.encoders = encoders
        self.experts = experts
        self.strategy = strategy
        self.imputer = imputer
        self.gates = gates
        self.trust = trust
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
        self.n_jobs = n_jobs
        self.device = device
        self.verbose = verbose

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """The parameters that differ from their defaults and, once fitted, what was learned."""
        text = super().__repr__(N_CHAR_MAX)
        if not hasattr(self, "ensemble_"):
            return text
        counts = f"columns: {len(self.schema_.columns)}, classes: {len(self.classes_)}, rows: {self.n_rows_['train']}"
        return f"<{text} fitted; {counts}, strategy: {self.strategy_!r}>"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        folder: str | Path | None = None,
        on_epoch: OnEpoch | None = None,
    ) -> Self:
        """Train on rows and their labels, or the name of the column with the labels. X may be the path of a table in files,
        also of a folder or a pattern (parts/*.parquet), that may be larger than memory; see docs/scale.md.

        With a folder every epoch is saved, and the same call continues an interrupted training. `on_epoch` is called with
        the name of the stage after each epoch of the network; `history_` has their losses.
        """
        check_options(self)
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        stream = Stream.from_files(Path(X), y, sample_weight, seed) if isinstance(X, str | Path) else None
        frame, y = self._rows_and_labels(X if stream is None else stream.sample, y)
        frame, y, weights = inputs.drop_unlabelled(frame, y, inputs.check_weights(sample_weight, len(frame)))
        self.classes_, every = inputs.class_numbers(y) if stream is None else stream.class_numbers()
        labels = every if stream is None else every[frame.index].astype(int)
        self.class_weight_ = inputs.class_weights(self.class_weight, self.classes_, every)
        self.recipe_ = self._recipe(seed)
        self.schema_ = Schema.from_frame(frame, self.columns, self.encoders, self.image_size)
        self.experts_ = choose_experts(self.experts, self.schema_)
        self._print(*self.schema_.summary())
        cut = unread_contents(self.schema_, frame) if "network" in self.experts_ else []
        for problem in (*inputs.width_problems(len(self.schema_.table)), *cut):
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
        weights = inputs.scale_weights(weights[used])
        shares = np.bincount(every, minlength=len(self.classes_)) / len(every)
        counts = shares if stream else np.bincount(labels[used], weights, len(self.classes_))
        self.class_prior_ = counts / counts.sum()
        self.largest_class_ = (str(self.classes_[shares.argmax()]), float(shares.max()))
        rows = Rows.from_frame(self.schema_, frame, encoded).take(used)
        where: dict[str, Any] = {"folder": folder and Path(folder), "device": pick_device(self.device)}
        given = self.schema_, every, frame.index[used], self._image_files()
        streamed = None if stream is None else stream.encoded(*given, **where)
        task = Task(rows, labels[used], weights, len(self.classes_), self.recipe_.seed, streamed)
        with self._progress() as show, cpu_threads(self.n_jobs):
            fitted = fit_ensemble(
                task,
                self.experts_,
                self.recipe_,
                prior=self.class_prior_,
                validation=self.validation,
                **where,
                on_epoch=show if on_epoch is None else _both(show, on_epoch),
            )
        self._keep(fitted, int(encoded.empty.sum()))
        self.donor_rows_ = [str(name) for name in frame.index[used[fitted.donors]]]
        self.trust_ = Trust.fit(rows, self.recipe_.seed) if self.trust else None
        return self

    def _keep(self, fitted: FittedEnsemble, empty: int) -> None:
        self.ensemble_, self.leaderboard_, self.recipe_ = fitted.ensemble, fitted.leaderboard, fitted.recipe
        self.n_rows_ = fitted.rows | {"empty": empty}
        network = fitted.network
        self.strategy_: Strategy = network.strategy if network else "mask"
        self.validation_scores_ = network.scores if network else {}
        self.history_ = network.history if network else []
        self.epochs_, self.cut_short_ = (network.epochs, network.cut_short) if network else ({}, {})
        self._print(self.leaderboard_.to_string(index=False, float_format="%.3f"), self.verdict_)

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of every class, in the order of `classes_`; the class prior for a row without values."""
        _, rows = self._read(X)
        with cpu_threads(self.n_jobs):
            return self.ensemble_.predict(rows)

    def record(self) -> None:
        """On a GPU, predict with CUDA graphs from now on, which is faster for few rows; elsewhere nothing changes."""
        check_is_fitted(self, "ensemble_")
        for expert in self.ensemble_.experts.values():
            if isinstance(expert, Network):
                expert.record()

    def predict(self, X: Any) -> np.ndarray:
        """The class of every row with the largest probability times its `class_weight`: the most probable one unless weights
        are given, and then not always."""
        return self.decide(self.predict_proba(X))

    def decide(self, probabilities: np.ndarray) -> np.ndarray:
        """The classes that `predict` chooses for these probabilities."""
        return self.classes_[self._decide(probabilities)]

    def save(self, folder: str | Path) -> None:
        """Write weights, columns and a model card; loading them executes no code."""
        check_is_fitted(self, "ensemble_")
        saving.save(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None, image_folder: str | Path | None = None) -> Self:
        """The classifier that `save` wrote to a folder, ready to predict."""
        return saving.load(cls, Path(folder), device=device, image_folder=image_folder)

    @classmethod
    def from_pretrained(cls, name: str | Path, *, revision: str | None = None, **options: Any) -> Self:
        """The classifier in a folder or else in a repository of the Hugging Face Hub; `options` are those of `load`."""
        return cls.load(saving.local_folder(str(name), revision), **options)

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
        y = inputs.as_labels(y)
        if not isinstance(X, pd.DataFrame):
            return self._from_array(X, y)
        if not len(X):
            raise ValueError("the table has no rows; give some to learn from")
        validate_data(self, X, skip_check_array=True)
        inputs.check_count(y, len(X))
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

    @property
    def model_(self) -> GaugePlus:
        """The network."""
        network = self.ensemble_.experts.get("network")
        if not isinstance(network, Network):
            raise AttributeError(f"this classifier has no network (experts={self.experts!r}); fit it with 'network'")
        return network.model

    def _read(self, X: Any) -> tuple[pd.DataFrame, Rows]:
        """Rows to predict, as given and as the experts read them."""
        check_is_fitted(self, "ensemble_")
        named = hasattr(self, "feature_names_in_")
        if inputs.is_frame(X):
            frame = inputs.match_columns(X, self.schema_.names, named=named, target=self.target_)
        else:
            rows = inputs.from_array(X) if named else self._from_array(X, reset=False)[0]
            frame = inputs.by_position(rows, self.schema_.names)
        encoded = self.schema_.encode(frame, self._image_files())
        if encoded.empty.any():
            logger.warning("%d rows have no values and get the class prior", encoded.empty.sum())
        return frame, Rows.from_frame(self.schema_, frame, encoded)

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

    def _progress(self) -> AbstractContextManager[OnEpoch]:
        return stage_progress() if self.verbose else nullcontext(lambda stage, epoch: None)

    def _print(self, *lines: str) -> None:
        if self.verbose:
            print(*lines, sep="\n", file=sys.stderr)


def _both(first: OnEpoch, second: OnEpoch) -> OnEpoch:
    def on_epoch(stage: str, epoch: Epoch) -> None:
        first(stage, epoch)
        second(stage, epoch)

    return on_epoch
