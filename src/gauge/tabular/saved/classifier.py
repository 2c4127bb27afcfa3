"""TableClassifier: what a fitted and an exported classifier have in common. Nothing here imports torch."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gauge.reports.evidence import RowEvidence
from gauge.tabular.saved.prediction_sets import COVERAGE, PredictionSets, check_coverage
from gauge.tabular.table import inputs
from gauge.tabular.table.columns import Column, ImageFiles


class TableClassifier(ABC):
    """Predictions for the rows of a table. `class_weight` is what the classes count in a decision, `named` says whether the
    columns had names in training, `target` is the name of the column with the labels, `prediction_sets` come from rows held
    out, if there were any, and `files` is where images lie.

    Examples
    --------
    >>> from gauge import GaugeClassifier
    >>> table = pd.DataFrame({"age": [20.0, 70, None, 65] * 20, "ill": [0, 1, 0, 1] * 20})
    >>> classifier = GaugeClassifier(experts="linear", random_state=0, verbose=False).fit(table, "ill").fitted_
    """

    classes: np.ndarray
    class_weight: np.ndarray
    named: bool
    target: str | None
    prediction_sets: PredictionSets | None
    files: ImageFiles

    @property
    @abstractmethod
    def columns(self) -> Sequence[Column]:
        """The columns that are read."""

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """The names of all columns in training, in order."""

    @property
    def known_names(self) -> set[str]:
        """The names of all columns of the training table, those that are not read and that of the labels included."""
        return {*self.names, *([] if self.target is None else [self.target])}

    @abstractmethod
    def predict_with_observed(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the probabilities of `predict_proba`, and which of the `columns` each row has, once it is read: [rows,
        columns]. A value that cannot be read, or was not seen in training, counts as missing."""

    def predict_row_with_observed(self, row: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        """Return what `predict_with_observed` gives for one row with a value for every one of the `columns`, by name."""
        return self.predict_with_observed(pd.DataFrame([row], dtype=object))

    @abstractmethod
    def evidence(self, X: Any) -> Sequence[RowEvidence]:
        """Return the evidence of every row."""

    def facts(self) -> dict[str, str]:
        """Return how the model was trained, as far as that is known."""
        return {}

    def record(self) -> None:  # noqa: B027 - optional
        """Predict few rows at once faster from now on, on a GPU with CUDA graphs: the same predictions up to rounding."""

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of every class. Missing values are not guessed: the other columns decide, and a row without
        any value gets the class prior.

        Parameters
        ----------
        X
            Rows: a DataFrame, or an array where training had one. Columns may be missing.

        Returns
        -------
        ndarray of shape [rows, classes]
            In the order of `classes`.

        Examples
        --------
        >>> classifier.predict_proba(table[:5]).shape
        (5, 2)
        """
        return self.predict_with_observed(X)[0]

    def predict(self, X: Any) -> np.ndarray:
        """Return the class that `decide` chooses for every row: the most probable one, unless classes have weights.

        Parameters
        ----------
        X
            As for `predict_proba`.

        Returns
        -------
        ndarray
            The class of each row, as the training labels named it.

        Examples
        --------
        >>> classifier.predict(table[:2]).tolist()
        [0, 1]
        """
        return self.decide(self.predict_proba(X))

    def predict_set(self, X: Any, coverage: float = COVERAGE, *, by_class: bool = False) -> np.ndarray:
        """Return the classes that each row may have, so that the right one is among them with probability `coverage`.

        Parameters
        ----------
        X
            As for `predict_proba`.
        coverage, by_class
            As for `GaugeClassifier.predict_set`.

        Returns
        -------
        ndarray of shape [rows, classes]
            Whether each of the `classes` is in the set.

        Examples
        --------
        >>> classifier.predict_set(table[:2], coverage=0.95).tolist()
        [[True, False], [False, True]]
        """
        check_coverage(coverage)
        return self.sets(*self.predict_with_observed(X), coverage, by_class=by_class)

    def sets(
        self, probabilities: np.ndarray, observed: np.ndarray, coverage: float, *, by_class: bool = False
    ) -> np.ndarray:
        """Return the prediction sets of rows with these probabilities and these columns."""
        if self.prediction_sets is None:
            raise ValueError(
                "this classifier has no prediction sets: fewer than 50 rows were given to hold some out; fit on more rows"
            )
        return self.prediction_sets.contains(probabilities, observed, coverage, by_class=by_class)

    def decide(self, probabilities: np.ndarray) -> np.ndarray:
        """Return the classes that `predict` chooses for these probabilities."""
        return self.classes[self.class_numbers(probabilities)]

    def class_numbers(self, probabilities: np.ndarray) -> np.ndarray:
        """Return the positions of these classes in `classes`."""
        return (probabilities * self.class_weight).argmax(1)

    def frame(self, X: Any) -> pd.DataFrame:
        """Return the rows with the names of the columns in training."""
        if inputs.is_frame(X):
            return inputs.match_columns(X, self.names, named=self.named, target=self.target)
        return inputs.by_position(inputs.from_array(X), self.names)


def image_files(folder: str | Path | None, *, outside: bool) -> ImageFiles:
    """Images in a folder, and outside of it if they may be; without a folder they may lie anywhere."""
    return ImageFiles(Path(folder or ""), outside or folder is None)
