"""Decisions that are good at a score of scikit-learn: what the classes have to count for it, by rows held out."""

import warnings
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import get_scorer

from gauge.tabular.evidence.thresholds import HeldOut


class _Decided(ClassifierMixin, BaseEstimator):
    """A classifier of rows whose probabilities are known, as scorers of scikit-learn want one."""

    def __init__(self, probabilities: np.ndarray, weights: np.ndarray) -> None:
        self.probabilities, self.weights = probabilities, weights
        self.classes_ = np.arange(len(weights))

    def predict_proba(self, rows: Any) -> np.ndarray:
        return self.probabilities

    def predict(self, rows: Any) -> np.ndarray:
        return (self.probabilities * self.weights).argmax(1)


def check_metric(metric: str, classes: int) -> None:
    """Raise an error, before anything is learned, if a score of scikit-learn cannot be computed for so many classes."""
    try:
        _score(metric, HeldOut(np.full((classes, classes), 1 / classes), np.arange(classes)), np.ones(classes))
    except ValueError as error:
        raise ValueError(
            f"metric {metric!r} cannot be computed for {classes} classes ({error}); choose another one, or 'auto'"
        ) from error


def _score(metric: str, held_out: HeldOut, weights: np.ndarray) -> float:
    probabilities, labels = held_out.probabilities, held_out.labels
    ending = {"f1": "macro", "precision": "macro", "recall": "macro", "jaccard": "macro", "roc_auc": "ovr"}.get(metric)
    scorer = get_scorer(f"{metric}_{ending}" if ending and len(weights) > 2 else metric)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)  # of weights under which no row has some class
        return float(scorer(_Decided(probabilities, weights), np.zeros((len(labels), 1)), labels))


def score_weights(metric: str, held_out: HeldOut) -> np.ndarray:
    """Return what the classes have to count so that a score of scikit-learn is largest on rows held out: equal weights for a
    score of probabilities."""
    labels, count = held_out.labels, held_out.probabilities.shape[1]
    score = partial(_score, metric, held_out)
    inverse = 1 / np.maximum(np.bincount(labels, minlength=count) / len(labels), 1e-3)
    best, highest = np.ones(count), score(np.ones(count))
    for start in (np.ones(count), inverse):
        weights = start
        for number in [*range(count)] * 2:
            tried = [
                np.where(np.arange(count) == number, factor * weights, weights) for factor in np.geomspace(0.3, 3, 21)
            ]
            weights = max(tried, key=score)  # the first of equal ones
        if score(weights) > highest + 1e-12:
            best, highest = weights, score(weights)
    return best / best.max()
