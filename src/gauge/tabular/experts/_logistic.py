"""Logistic regression for all classes of a task, also those that no row has, with a ridge or a lasso penalty.

The lasso minimises C · loss + Σ_f |β_f|, with |β_f| the norm of the coefficients of feature f over all classes, so that most
features have none. As |β| = min_η (|β|² / η + η) / 2, it is a ridge on features that are scaled by √η_f, with η_f = |β_f|
from the step before; the first is a ridge. A few steps do better than the minimum where many features say a little.
"""

import warnings
from typing import Any

import numpy as np

LASSO_STEPS = 4


def fit_logistic(
    features: Any, labels: np.ndarray, weights: np.ndarray, *, classes: int, penalty: float, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """The coefficients, [classes, features], and offsets, [classes]; `penalty` is C of scikit-learn: larger is weaker."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression  # scikit-learn takes longer to import than to predict

    seen = np.unique(labels)
    # how far a class without training rows lies below the others
    coefficients, offsets = np.zeros((classes, features.shape[1])), np.full(classes, -5.0)
    offsets[seen] = 0.0
    if len(seen) > 1:
        model = LogisticRegression(C=penalty, tol=tolerance, max_iter=100)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the loss hardly changes by then
            warnings.filterwarnings("ignore", "The number of unique classes")  # `fit` has reported it, with a cure
            model.fit(features, labels, weights)
        two = len(seen) == 2
        coefficients[seen] = np.concatenate([-model.coef_, model.coef_]) / 2 if two else model.coef_
        offsets[seen] = np.concatenate([-model.intercept_, model.intercept_]) / 2 if two else model.intercept_
        offsets[np.setdiff1d(np.arange(classes), seen)] += offsets[seen].min()
    return coefficients, offsets


def fit_lasso(
    features: np.ndarray, labels: np.ndarray, weights: np.ndarray, *, classes: int, penalty: float, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """The same as `fit_logistic`, with coefficients of 0 for most features."""
    known: dict[str, Any] = {"classes": classes, "tolerance": tolerance}
    # C of the ridge that the lasso starts from
    coefficients, offsets = fit_logistic(features, labels, weights, penalty=0.03, **known)
    for _ in range(LASSO_STEPS):
        norms = np.linalg.norm(coefficients, axis=0)
        # smallest norm of a feature's coefficients, over the largest, below which it is left out
        kept = np.flatnonzero(norms > 1e-4 * norms.max(initial=0.0))
        if not len(kept):
            break
        scale = np.sqrt(norms[kept])
        scaled, offsets = fit_logistic(features[:, kept] * scale, labels, weights, penalty=penalty, **known)
        coefficients = np.zeros_like(coefficients)
        coefficients[:, kept] = scaled * scale
    return coefficients, offsets
