"""Logistic regression for all classes of a task, also those that no row has."""

import warnings
from typing import Any

import numpy as np

UNSEEN = 5.0  # how far a class without training rows lies below the others
MAX_ITERATIONS = 100


def fit_logistic(
    features: Any, labels: np.ndarray, weights: np.ndarray, *, classes: int, penalty: float, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """The coefficients, [classes, features], and offsets, [classes]; `penalty` is C of scikit-learn: larger is weaker."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression  # scikit-learn takes longer to import than to predict

    seen = np.unique(labels)
    coefficients, offsets = np.zeros((classes, features.shape[1])), np.full(classes, -UNSEEN)
    offsets[seen] = 0.0
    if len(seen) > 1:
        model = LogisticRegression(C=penalty, tol=tolerance, max_iter=MAX_ITERATIONS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the loss hardly changes by then
            warnings.filterwarnings("ignore", "The number of unique classes")  # `fit` has reported it, with a cure
            model.fit(features, labels, weights)
        two = len(seen) == 2
        coefficients[seen] = np.concatenate([-model.coef_, model.coef_]) / 2 if two else model.coef_
        offsets[seen] = np.concatenate([-model.intercept_, model.intercept_]) / 2 if two else model.intercept_
        offsets[np.setdiff1d(np.arange(classes), seen)] += offsets[seen].min()
    return coefficients, offsets
