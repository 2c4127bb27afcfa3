"""GaugeClassifier: a scikit-learn classifier for tables of cells, texts, images and signals with missing values."""

import logging
import sys
import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, Unpack, overload

import numpy as np
import pandas as pd
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from gauge.tabular.evidence.cell_trust import CellTrust
from gauge.tabular.evidence.decisions import check_metric, score_weights
from gauge.tabular.evidence.drift import Drift
from gauge.tabular.evidence.evaluation import Choices, Evaluation
from gauge.tabular.evidence.explanation import Explanation
from gauge.tabular.evidence.held_out import learn_from_held_out
from gauge.tabular.experts._ensemble import choose_experts
from gauge.tabular.experts._fitting import fit_ensemble
from gauge.tabular.experts._recipe import Recipe
from gauge.tabular.fitted import Fitted
from gauge.tabular.preparation import PROBABLE, Prepared, check_options, choose_preset, make_recipe
from gauge.tabular.saved.classifier import image_files
from gauge.tabular.saved.files import usable
from gauge.tabular.saved.prediction_sets import COVERAGE
from gauge.tabular.table import inputs
from gauge.tabular.table.labelled import Labelled
from gauge.tabular.table.rows import unread_contents
from gauge.tabular.table.schema import Schema, width_problems
from gauge.tabular.table.stream import Stream
from gauge.training.device import cpu_threads, num_threads, pick_device

if TYPE_CHECKING:  # scikit-learn has no types: as bases its classes would let every misspelt name pass
    from gauge.plus.gauge_plus import GaugePlus
    from gauge.training.stages import OnEpoch

    class BaseEstimator:
        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: Any) -> Self: ...
        def set_fit_request(self, **requests: bool | str | None) -> Self: ...
        def __repr__(self, N_CHAR_MAX: int = 700) -> str: ...
        def __sklearn_tags__(self) -> Any: ...

    class ClassifierMixin:
        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float: ...

else:
    from sklearn.base import BaseEstimator, ClassifierMixin

T = TypeVar("T")
File = str | Path | None
logger = logging.getLogger(__name__)


class Forwarded(Generic[T]):
    """An attribute of the estimator that is one of the fitted value."""

    def __init__(self, read: Callable[[Fitted], T]) -> None:
        self.read = read

    @overload
    def __get__(self, estimator: None, owner: type) -> Self: ...

    @overload
    def __get__(self, estimator: "GaugeClassifier", owner: type) -> T: ...

    def __get__(self, estimator: "GaugeClassifier | None", owner: type) -> Self | T:
        if estimator is None:
            return self
        check_is_fitted(estimator, "fitted_")
        return self.read(estimator.fitted_)

    def __set__(self, estimator: "GaugeClassifier", value: T) -> None:
        raise AttributeError("a fitted attribute cannot be set; replace `fitted_`")


class GaugeClassifier(ClassifierMixin, BaseEstimator):
    """Fit on a DataFrame, predict with any values missing, and see for every row which evidence was trusted.

    Parameters
    ----------
    columns : mapping, optional
        Overrides the inferred kind of a column: "number", "category", "text", "image", "signal", "vector" or
        "ignore".
    encoders : mapping, optional
        Pretrained Hugging Face models for columns of texts and images, by name or path.
    preset : {"default", "fast"}, default="default"
        How much time is spent. "fast": trees and a linear model. "default": the network, too. Other parameters go before
        what a preset stands for.
    experts : str or list of str, default="auto"
        The models that predict together: "network", "trees" (boosted trees), "linear" (TF-IDF of texts, too), those of
        plugins, or "auto", those of the preset; `leaderboard_` says what each scores and weighs.
    trust : bool, default=True
        Whether trust in cells is learned.
    size : {"small", "medium", "large"}, default="small"
        The size of the network.
    missing_rate : float, optional
        The largest share of values that training hides in addition to those missing in the data; None estimates it.
    metric : str, default="auto"
        What `predict` is to be good at: a score of scikit-learn such as "balanced_accuracy" or "f1" (of the second of two
        classes, the mean over more). Rows held out then choose what the classes count, unless `class_weight` does. With
        "auto", "accuracy" and scores of probabilities ("log_loss", "auc") it is the most probable class.
    class_weight : mapping or "balanced", optional
        What the classes count for `predict`; `predict_proba` gives the probabilities of the data all the same.
    validation : float, default=0.2
        The share of rows held out to compare and weigh the experts.
    epochs : int, optional
        Epochs of the network's backbone; None chooses them by the number of rows.
    batch_size : int, optional
        Rows in a step of the network's training; None chooses it by the number of rows.
    learning_rate : float, default=0.005
        The largest learning rate of the network.
    image_folder : path, optional
        The folder that image paths are relative to.
    outside_images : bool, default=False
        Whether image paths may lead out of `image_folder`; otherwise such images count as missing.
    image_size : int, default=64
        The height and width in pixels that images are resized to.
    max_categories : int, default=255
        How many categories a column keeps, the most frequent ones. The others are rare: one category for the network, and
        told apart by trees and the linear expert where they have several rows. A rare value is not a missing one.
    time_limit : float, optional
        Stop after about this many seconds; `left_out_` says what there was no time for.
    random_state : int or RandomState, optional
        The seed of all random numbers.
    n_jobs : int, optional
        The number of CPU threads, -1 for all. By default one, which is safe beside other processes and hardly slower; for
        images, pretrained encoders and size "large" as many as torch has. OMP_NUM_THREADS and `torch.set_num_threads` are
        respected.
    device : str, optional
        auto, cpu, cuda, cuda:NUMBER or mps; None is auto, a GPU if there is one.
    verbose : bool, default=True
        Whether columns, progress and scores are printed to stderr.

    Attributes
    ----------
    fitted_ : Fitted
        All that training has left, as one immutable value; the attributes below are parts of it.
    classes_ : ndarray
        The classes, in the order of `predict_proba`: sorted, unless the labels are an ordered Categorical of pandas.
    class_prior_ : ndarray
        Their shares in training: the prediction for a row without values.
    class_weight_ : list of float
        What each class counts for `predict`.
    schema_ : Schema
        The columns, how each is read, and why others are ignored.
    target_ : str or None
        The name of the column with the labels, if they were a column.
    ensemble_ : Ensemble
        The experts and how their votes are combined.
    experts_ : list of str
        The names of the experts.
    model_ : GaugePlus
        The network.
    trust_ : CellTrust or None
        The trust in cells, if it was learned.
    leaderboard_ : DataFrame
        What each expert scores on rows held out and what it weighs in the prediction.
    feature_importances_ : ndarray
        What each column is worth: how far the log loss of rows held out fell when a hidden value of it became known. About
        zero for noise, which may be negative, zero for ignored columns; `importance` measures it on rows of yours.
    epochs_ : dict
        The epochs of every stage of the network's training.
    cut_short_ : dict
        The stages that the time limit ended, with the epochs done and planned.
    left_out_ : list of str
        What the time limit was too short for.
    history_ : list of dict
        The losses of every epoch.
    n_rows_ : dict
        The number of rows in training ("train"), of those among them that some experts had not seen when they were
        validated ("val"), and of those without values ("empty").
    missing_rates_ : dict
        The share of missing values of every column; rare categories are not among them.
    largest_class_ : tuple
        The most frequent class and its share.
    n_features_in_ : int
        The number of columns in training.
    feature_names_in_ : ndarray
        Their names, if they had names.

    Examples
    --------
    >>> table = pd.DataFrame({"age": [20.0, 70, None, 65] * 20, "sex": ["f", None, "m", "m"] * 20})
    >>> labels = ["well", "ill", "well", "ill"] * 20
    >>> model = GaugeClassifier(preset="fast", random_state=0, verbose=False).fit(table, labels)
    >>> model.predict(table[:2]).tolist()
    ['well', 'ill']
    >>> model.predict_proba(table[:2]).shape
    (2, 2)
    >>> model.predict_set(table[:1], coverage=0.9).tolist()
    [[False, True]]
    >>> model.explain(table[:1]).to_frame()["column"].tolist()
    ['age', 'sex']
    >>> model.advise(table[1:2])["column"].tolist()
    ['sex']
    >>> model.evaluate(table, labels)["accuracy"]
    1.0
    """

    fitted_: Fitted
    n_features_in_: int
    feature_names_in_: np.ndarray
    classes_ = Forwarded(lambda fitted: fitted.classes)
    class_prior_ = Forwarded(lambda fitted: fitted.ensemble.prior)
    class_weight_ = Forwarded[list[float]](lambda fitted: fitted.class_weight.tolist())
    schema_ = Forwarded(lambda fitted: fitted.schema)
    target_ = Forwarded(lambda fitted: fitted.target)
    ensemble_ = Forwarded(lambda fitted: fitted.ensemble)
    experts_ = Forwarded(lambda fitted: list(fitted.experts))
    trust_ = Forwarded(lambda fitted: fitted.trust)
    leaderboard_ = Forwarded(lambda fitted: fitted.leaderboard)
    feature_importances_ = Forwarded(lambda fitted: fitted.feature_importances())
    epochs_ = Forwarded(lambda fitted: fitted.training.epochs)
    cut_short_ = Forwarded(lambda fitted: fitted.training.cut_short)
    left_out_ = Forwarded(lambda fitted: list(fitted.left_out))
    history_ = Forwarded(lambda fitted: fitted.training.history)
    n_rows_ = Forwarded(lambda fitted: fitted.n_rows)
    missing_rates_ = Forwarded(lambda fitted: fitted.missing_rates)
    largest_class_ = Forwarded(lambda fitted: fitted.largest_class)

    def __init__(
        self,
        *,
        columns: Mapping[str, str] | None = None,
        encoders: Mapping[str, str | Path] | None = None,
        preset: Literal["fast", "default"] = "default",
        experts: str | Sequence[str] = "auto",
        trust: bool = True,
        size: str = "small",
        missing_rate: float | None = None,
        metric: str = "auto",
        class_weight: str | Mapping[Any, float] | None = None,
        validation: float = 0.2,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float = 0.005,
        image_folder: str | Path | None = None,
        outside_images: bool = False,
        image_size: int = 64,
        max_categories: int = 255,
        time_limit: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str | None = None,
        verbose: bool = True,
    ) -> None:
        self.columns = columns
        self.encoders = encoders
        self.preset = preset
        self.experts = experts
        self.trust = trust
        self.size = size
        self.missing_rate = missing_rate
        self.metric = metric
        self.class_weight = class_weight
        self.validation = validation
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.image_folder = image_folder
        self.outside_images = outside_images
        self.image_size = image_size
        self.max_categories = max_categories
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.device = device
        self.verbose = verbose

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """The parameters that differ from their defaults and, once fitted, what was learned."""
        text = super().__repr__(N_CHAR_MAX)
        if not hasattr(self, "fitted_"):
            return text
        counts = f"columns: {len(self.schema_.columns)}, classes: {len(self.classes_)}, rows: {self.n_rows_['train']}"
        return f"<{text} fitted; {counts}>"

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
        groups: Any = None,
        time: Any = None,
        folder: File = None,
        on_epoch: "OnEpoch | None" = None,
    ) -> Self:
        """Train on rows and their labels.

        From rows whose label is missing (NaN, None, a blank text; -1 is a class like any other) columns and trust are
        learned, and no more.

        Parameters
        ----------
        X
            Rows, or the path of a table in files, also of a folder or a pattern (parts/*.parquet), that may be larger than
            memory.
        y
            Labels, or the name of the column that has them.
        sample_weight
            What each row counts; only ratios matter.
        groups
            A column, or a value for each row: rows of one group, such as a patient, stay together wherever some are held
            out. A column of groups is not learned from.
        time
            A column, or a value for each row: the latest rows are held out.
        folder
            Every epoch is saved here, and the same call continues an interrupted training.
        on_epoch
            Called with the name of the stage after each epoch of the network; `history_` has their losses.

        Returns
        -------
        GaugeClassifier
            The classifier itself.

        Examples
        --------
        >>> visits = table.assign(patient=range(80), label=labels)
        >>> grouped = GaugeClassifier(preset="fast", verbose=False).fit(visits, "label", groups="patient")
        >>> grouped.feature_names_in_.tolist(), grouped.experts_
        (['age', 'sex', 'patient'], ['trees', 'linear'])
        """
        started = clock.monotonic()
        options = self.get_params(deep=False)
        check_options(type(self).__name__, options)
        preset = choose_preset(options, type(self)().get_params(deep=False))
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        data = self._labelled(X, y, sample_weight, seed).with_splits(X, y, groups, time, sample_weight)
        class_weight = inputs.class_weights(self.class_weight, data.classes, data.every_label)
        recipe = make_recipe(options, seed, len(data.classes))
        prepared, names = self._prepared(data, recipe, preset, groups, folder)
        self.fitted_ = Fitted(
            **prepared.described(),
            **self._learn(prepared, names, class_weight, started, on_epoch),
            named=hasattr(self, "feature_names_in_"),
            groups=groups if isinstance(groups, str) else None,
            options=options,
            files=image_files(self.image_folder, outside=self.outside_images),
        )
        self._print(self.leaderboard_.to_string(index=False, float_format="%.3f", na_rep="–"), *self.fitted_.notes())
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of every class.

        Parameters
        ----------
        X
            Rows: a DataFrame, or what `fit` takes. Columns may be missing.

        Returns
        -------
        ndarray of shape [rows, classes]
            In the order of `classes_`; the class prior for a row without values.

        Examples
        --------
        >>> model.predict_proba(pd.DataFrame({"age": [None], "sex": [None]})).tolist()
        [[0.5, 0.5]]
        """
        with self._ready(X) as (fitted, X):
            return fitted.predict_proba(X)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The logarithm of `predict_proba`; finite also for a class whose probability is zero."""
        probabilities = self.predict_proba(X)
        return np.log(probabilities.clip(np.finfo(probabilities.dtype).tiny))

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of every row with the largest probability times its `class_weight`: the most probable one unless
        weights, a metric or a threshold are given, and then not always.

        Parameters
        ----------
        X
            Rows: a DataFrame, or what `fit` takes. Columns may be missing.

        Returns
        -------
        ndarray of shape [rows]
            Classes, as in the training labels.

        Examples
        --------
        >>> model.predict(pd.DataFrame({"age": [70.0], "sex": ["m"]})).tolist()
        ['ill']
        """
        return self.decide(self.predict_proba(X))

    def predict_set(self, X: Any, coverage: float = COVERAGE, *, by_class: bool = False) -> np.ndarray:
        """Return the classes that each row may have, so that the right one is among them with probability `coverage`.

        The promise holds whatever share of the values is missing. A row with one class has a prediction; several or none
        mean that the model should abstain. See docs/prediction-sets.md for what it rests on.

        Parameters
        ----------
        X
            Rows: a DataFrame, or what `fit` takes. Columns may be missing.
        coverage
            How often the right class is in the set.
        by_class
            Whether the promise holds for the rows of every class, also of a rare one; sets are larger.

        Returns
        -------
        ndarray of bool and shape [rows, classes]
            In the order of `classes_`.

        Examples
        --------
        >>> model.predict_set(table[:2], coverage=0.95).tolist()
        [[False, True], [True, False]]
        """
        with self._ready(X) as (fitted, X):
            return fitted.predict_set(X, coverage, by_class=by_class)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of `predict` on labelled rows; `y` may be the name of their column. Labels may be of another
        type than in training: 1 is also "1" and 1.0, True is also "True". Those that training never saw count as wrong, and
        rows without a label are left out."""
        probabilities = self.predict_proba(X)
        numbers = self.fitted_.class_numbers(probabilities)
        weights = inputs.check_weights(sample_weight, len(numbers))
        return inputs.accuracy(self.classes_, numbers, inputs.labels_of(X, y, len(numbers)), weights)

    def decide(self, probabilities: np.ndarray) -> np.ndarray:
        """The classes that `predict` chooses for these probabilities."""
        check_is_fitted(self, "fitted_")
        return self.fitted_.decide(probabilities)

    def record(self) -> None:
        """Predict few rows at once faster from now on, on a GPU with CUDA graphs: the same predictions up to rounding."""
        check_is_fitted(self, "fitted_")
        self.fitted_.record()

    def explain(self, X: Any, y: Any = None, *, exact: bool = False, keep: Sequence[str] = ()) -> Explanation:
        """Return what each value of every row contributed to its prediction.

        Parameters
        ----------
        X
            Rows: a DataFrame, or what `fit` takes. Columns may be missing.
        y
            Labels or the name of their column, shown beside the predictions.
        exact
            Whether to measure the effects of words and of parts of images, too.
        keep
            Columns of X to recognise rows by.

        Returns
        -------
        Explanation
            How much each cell is used (how far the probability of the predicted class, by all experts, falls when the cell
            is missing) and trusted (the probability that it is right, from how well it fits the others); where there is a
            network also its scores of values, words and parts. `to_html` writes a page.

        Examples
        --------
        >>> model.explain(table[1:2]).to_frame()[["column", "state"]].values.tolist()
        [['age', 'observed'], ['sex', 'missing']]
        """
        with self._ready(X) as (fitted, X):
            return fitted.explain(X, y, exact=exact, keep=keep)

    def with_threshold(self, threshold: str | float, *, positive: Any) -> Self:
        """Return the same model with other decisions: `predict` says `positive` from a probability on. It is kept by `save`,
        in exported models, on pages and by the server, and takes the place of `class_weight`. Probabilities and prediction
        sets stay as they are.

        Parameters
        ----------
        threshold
            A number, or "sensitivity=0.95", "specificity=0.9" or "cost=5" (a missed case costs five false alarms), which
            rows held out from training choose. Of more than two classes it is compared with the share of `positive` beside
            the most probable other class.
        positive
            The class that is looked for.

        Returns
        -------
        GaugeClassifier
            A copy; this model stays as it is.

        Examples
        --------
        >>> careful, unknown = model.with_threshold(0.3, positive="well"), pd.DataFrame({"age": [None], "sex": [None]})
        >>> careful.predict(unknown).tolist(), model.predict(unknown).tolist()
        (['well'], ['ill'])
        """
        check_is_fitted(self, "fitted_")
        model = copy(self)
        model.fitted_ = self.fitted_.with_threshold(threshold, positive)
        return model

    def importance(self, X: Any, y: Any = None) -> pd.DataFrame:
        """Return what each column does for the predictions, the most important first, with a 95 % interval.

        Parameters
        ----------
        X
            Rows: a DataFrame, or what `fit` takes. Columns may be missing.
        y
            Labels or the name of their column.

        Returns
        -------
        DataFrame
            With labels the increase of the log loss when the values of the column are shuffled, about zero for noise;
            without them the mean absolute effect on the probability of the predicted class.

        Examples
        --------
        >>> model.importance(table, labels).columns.tolist()
        ['column', 'importance', 'low', 'high']
        """
        with self._ready(X) as (fitted, X):
            return fitted.importance(X, y)

    def advise(self, X: Any, *, costs: Mapping[str, Any] | None = None, worth: Any = None) -> pd.DataFrame:
        """Return which missing values to get for each row: how far the log loss is expected to fall once each is known.

        Values that are there but rare or unreadable are left out. After each new value, ask again.

        Parameters
        ----------
        X
            Rows: a DataFrame, or what `fit` takes. Columns may be missing.
        costs
            Of columns, in any unit: 1 by default, None for a value that cannot be had.
        worth
            The price of a fall of the log loss by 1, in the same unit.

        Returns
        -------
        DataFrame
            A line for each missing value with its gain, a 95 % interval and the gain per cost, by which the lines of a row
            are ordered; `right_now` and `right_then` are how probable it is that the most probable class is right. A value
            is `advised` if its gain is beyond chance and, with `worth`, larger than its cost; if none is, stop.

        Examples
        --------
        >>> model.advise(table[1:3], costs={"sex": 2})[["row", "column", "cost"]].values.tolist()
        [[1, 'sex', 2.0], [2, 'age', 1.0]]
        """
        with self._ready(X) as (fitted, X):
            return fitted.advise(X, costs=costs, worth=worth)

    def evaluate(self, X: Any, y: Any = None, **choices: Unpack[Choices]) -> Evaluation:
        """Return accuracy, log loss, AUC and calibration error on labelled rows, with 95 % intervals, and the confusion
        matrix.

        Beside them stand the class shares of the training rows, the best expert on rows held out and the boosted trees
        alone. Rows without a label are left out.

        Parameters
        ----------
        X
            Rows: a DataFrame, or what `fit` takes. Columns may be missing.
        y
            Labels or the name of the column that has them, by default that of training.
        threshold
            From which probability on a row counts as positive: a number, or "sensitivity=0.95", "specificity=0.9" or
            "cost=5" (a missed case costs five false alarms), which rows held out from training choose.
        positive
            The class that is looked for: by default the second of two, none of more.
        by
            Columns of X whose values divide the rows into subgroups.
        groups
            A column of X, or a value for each row: intervals are made of whole groups, such as all rows of a patient.
        against
            Another classifier of the same classes, to compare with by paired tests.
        protocol
            Further values to hide: "gamma=0.3", "gamma-per-sample=0.3" or "up-to=0.5".

        Returns
        -------
        Evaluation
            A mapping from metrics to values, with tables as attributes; `to_html` writes a page with curves.

        Examples
        --------
        >>> list(model.evaluate(table, labels, protocol="gamma=0.3"))
        ['accuracy', 'log_loss', 'auc', 'calibration_error', 'average_precision']
        """
        with self._ready(X) as (fitted, X):
            if isinstance(other := choices.get("against"), GaugeClassifier):
                choices["against"] = other.fitted_
            return fitted.evaluate(X, y, **choices)

    def drift(self, X: Any) -> Drift:
        """Return which columns of new rows moved since training, and which rows are unlike anything that it saw.

        Parameters
        ----------
        X
            Rows: a DataFrame, or what `fit` takes. Columns may be missing.

        Returns
        -------
        Drift
            `print` it for a report in words. No labels are needed.

        Examples
        --------
        >>> model.drift(table.assign(age=table["age"] + 100)).moved
        ['age']
        """
        with self._ready(X) as (fitted, X):
            return fitted.drift(X)

    def audit(self, X: Any, *, seed: int = 0) -> pd.DataFrame:
        """Return how far the trust in cells can be believed.

        Some known values are hidden and imputed, others swapped with another row's, and the trust is compared with the
        truth. No labels are needed.

        Parameters
        ----------
        X
            Rows: a DataFrame, or what `fit` takes. Columns may be missing.
        seed
            Decides which values are hidden and swapped.

        Returns
        -------
        DataFrame
            A line for all columns together and one for each: `imputed_right`, the share of hidden values whose imputed value
            is right (the same category, or a number within half a standard deviation); `auc_imputed` and `auc_swapped`, how
            well the trust tells right from wrong imputed values (in a single column, those with an error below its median
            from the others), and sound values from swapped ones, 0.5 being chance; and the calibration errors of the trust.

        Examples
        --------
        >>> model.audit(table)["column"].tolist()
        ['all columns', 'age', 'sex']
        """
        with self._ready(X) as (fitted, X):
            return fitted.audit(X, seed=seed)

    @property
    def model_(self) -> "GaugePlus":
        network = self.ensemble_.network
        if network is None:
            raise AttributeError(f"this classifier has no network (experts={self.experts!r}); fit it with 'network'")
        return network

    def save(self, folder: str | Path) -> None:
        """Write weights, columns and a model card; loading them executes no code.

        Parameters
        ----------
        folder
            Where the files go.

        Examples
        --------
        >>> model.save("model")
        >>> sorted(file.name for file in Path("model").iterdir())
        ['README.md', 'metrics.jsonl', 'model.json', 'model.safetensors']
        """
        check_is_fitted(self, "fitted_")
        self.fitted_.save(Path(folder))

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None, image_folder: File = None) -> Self:
        """Return the classifier that `save` wrote to a folder, ready to predict.

        Parameters
        ----------
        folder
            The folder of a saved model.
        device
            As in the constructor.
        image_folder
            The folder that image paths are relative to.

        Returns
        -------
        GaugeClassifier
            With the predictions of the saved one.

        Examples
        --------
        >>> model.save("model")
        >>> bool((GaugeClassifier.load("model").predict(table) == model.predict(table)).all())
        True
        """
        fitted = Fitted.load(Path(folder), device=device)
        with usable(Path(folder)):
            model = cls(**fitted.options).set_params(device=device, image_folder=image_folder, verbose=False)
        model.fitted_, model.n_features_in_ = fitted, len(fitted.names)
        if fitted.named:
            model.feature_names_in_ = np.array(fitted.names, dtype=object)
        return model

    def _labelled(self, X: Any, y: Any, sample_weight: Any, seed: int) -> Labelled:
        """The rows to learn from, in memory or as a sample of a table in files."""
        inputs.check_one_target(y)
        stream = Stream.from_files(Path(X), y, sample_weight, seed) if isinstance(X, str | Path) else None
        target, order = y if isinstance(y, str) else None, inputs.class_order(X, y)
        frame, y = self._rows_and_labels(X if stream is None else stream.sample, y)
        weights = inputs.check_weights(sample_weight, len(frame))
        known, y = inputs.known_labels(y, frame.index)
        unlabelled = frame[~known & (weights > 0)] if stream is None else stream.unlabelled
        frame, weights = frame[known], weights[known]
        classes, every = inputs.class_numbers(y, order=order) if stream is None else stream.class_numbers()
        labels = every if stream is None else every[frame.index].astype(int)
        return Labelled(frame, labels, weights, classes, every, target, stream, unlabelled).counted()

    def _rows_and_labels(self, X: Any, y: Any) -> tuple[pd.DataFrame, Any]:
        """The table without the column of labels, and the labels."""
        if inputs.is_frame(X):
            X = inputs.as_pandas(X)
        if isinstance(y, str):
            X, y = inputs.without_target(X, y)
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
        inputs.warn_of_order(X, y)
        return X, y

    def _prepared(
        self, data: Labelled, recipe: Recipe, experts: Sequence[str], groups: Any, folder: File
    ) -> tuple[Prepared, Sequence[str]]:
        """What the experts learn from, and their names, those of the preset unless others are chosen."""
        files = image_files(self.image_folder, outside=self.outside_images)
        kinds = {**({groups: "ignore"} if isinstance(groups, str) else {}), **(self.columns or {})}
        given = kinds, self.encoders, self.image_size, files, self.max_categories
        schema = data.usable(Schema.from_frame(data.every_row, *given))
        names = choose_experts(self.experts, schema, experts)
        self._print(*schema.summary())
        cut = unread_contents(schema, data.every_row) if "network" in names else []
        for problem in (*width_problems(len(schema.table)), *cut):
            logger.warning(problem)
        if self.device not in (None, "auto", "cpu"):
            pick_device(self.device)  # an error before anything is learned
        kept = None if folder is None else Path(folder)
        return Prepared.from_table(data, schema, recipe, files=files, device=self.device, folder=kept), names

    def _learn(
        self,
        prepared: Prepared,
        experts: Sequence[str],
        class_weight: Sequence[float],
        started: float,
        on_epoch: "OnEpoch | None",
    ) -> dict[str, Any]:
        """Train these experts, and trust; return what a fitted classifier keeps of that."""
        schema = prepared.task.rows.schema
        if chooses := self.class_weight is None and self.metric not in PROBABLE:
            check_metric(self.metric, len(class_weight))
        # BLAS has threads of its own, which wait for each other beside another busy process
        with self._progress(on_epoch) as report, self._threads(schema), threadpool_limits(num_threads() or None):
            task = replace(prepared.task, on_epoch=report, started=started)
            trust = CellTrust.fit(task.all_rows, task.recipe.seed) if self.trust else None
            prior = prepared.data.prior(prepared.every[: len(task.rows)])
            result = fit_ensemble(task, experts, prior=prior, validation=self.validation)
            learned = learn_from_held_out(*result.validated, trust, task=task)
        if chooses and learned.predictions is not None:
            class_weight = score_weights(self.metric, learned.predictions).tolist()
        return {
            "schema": schema,
            "ensemble": result.ensemble,
            "class_weight": np.array(class_weight),
            "trust": trust,
            "advice": learned.advice,
            "leaderboard": result.leaderboard,
            "training": result.training,
            "n_rows": {"train": result.labelled, "val": result.held_out, "empty": int(prepared.encoded.empty.sum())},
            "prediction_sets": learned.sets,
            "held_out": learned.predictions,
            "left_out": (*result.left_out, *learned.left_out),
        }

    @contextmanager
    def _ready(self, X: Any) -> Iterator[tuple[Fitted, Any]]:
        """The fitted value, and rows for it. An array where training had one is validated as scikit-learn does."""
        check_is_fitted(self, "fitted_")
        if not self.fitted_.named and not inputs.is_frame(X):
            X = inputs.by_position(self._from_array(X, reset=False)[0], self.fitted_.names)
        with self._threads(self.fitted_.schema):
            files = image_files(self.image_folder, outside=self.outside_images)
            yield self.fitted_ if files == self.fitted_.files else replace(self.fitted_, files=files), X

    def _from_array(self, X: Any, y: Any = "no_validation", **options: Any) -> tuple[pd.DataFrame, Any]:
        """Rows and labels as scikit-learn validates them: only arrays of numbers pass."""
        inputs.check_array_like(X)
        X = pd.DataFrame(X).to_numpy() if isinstance(X, np.ma.MaskedArray) else X  # NaN where it is masked
        try:
            valid = validate_data(self, X, y, dtype="numeric", ensure_all_finite="allow-nan", **options)
        except ValueError as error:
            if "could not convert string" not in str(error):
                raise
            raise ValueError(
                f"{error}; arrays hold numbers only: give a DataFrame for texts and images, in a pipeline by "
                "set_output(transform='pandas') of the step before"
            ) from error
        values, labels = valid if isinstance(valid, tuple) else (valid, None)
        return pd.DataFrame(values, columns=[f"x{index}" for index in range(values.shape[1])]), labels

    def _threads(self, schema: Schema) -> AbstractContextManager[None]:
        """The number of CPU threads: by default one, but for large networks, images and pretrained encoders."""
        heavy = schema.encoders or any(column.values_per_row for column in schema.contents.values())
        return cpu_threads(self.n_jobs, small=self.size != "large" and not heavy)

    @contextmanager
    def _progress(self, on_epoch: "OnEpoch | None") -> "Iterator[OnEpoch]":
        """What is called after each epoch: the bar of progress, and `on_epoch`."""
        from gauge.training.progress import stage_progress

        with stage_progress() if self.verbose else nullcontext() as show:
            yield lambda stage, epoch: [each(stage, epoch) for each in (show, on_epoch) if each is not None]

    def _print(self, *lines: str) -> None:
        if self.verbose:
            print(*lines, sep="\n", file=sys.stderr)
