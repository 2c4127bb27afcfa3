"""Scores of class probabilities: accuracy, log loss, AUC and calibration, with bootstrap intervals."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import rankdata

LEAST = 1e-15  # probability in a logarithm
BINS = 10
RESAMPLES = 300
METRICS = ("accuracy", "log_loss", "auc", "calibration_error")


def scores(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """All scores, by name; labels are class numbers. The calibration error is the expected one of the predicted class, in
    ten bins of equal width.

    >>> scores(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 1]))["accuracy"]
    1.0
    """
    likelihood = probabilities[np.arange(len(labels)), labels].clip(LEAST)
    return {
        "accuracy": float((probabilities.argmax(1) == labels).mean()),
        "log_loss": -float(np.log(likelihood).mean()),
        "auc": area_under_curve(probabilities, labels),
        "calibration_error": calibration_error(probabilities, labels),
    }


def area_under_curve(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Of two classes the second against the first, of more each against the rest, averaged over those that occur; NaN where
    there is only one."""
    areas = []
    for label in (1,) if probabilities.shape[1] == 2 else np.unique(labels):
        positive = labels == label
        ones, zeros = int(positive.sum()), int((~positive).sum())
        if ones and zeros:
            ranks = rankdata(probabilities[:, label])[positive].sum()
            areas.append((ranks - ones * (ones + 1) / 2) / (ones * zeros))
    return float(np.mean(areas)) if areas else float("nan")


def calibration_error(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """The mean distance of the predicted probability from the share that is right, over bins of the former."""
    confidence, right = probabilities.max(1), probabilities.argmax(1) == labels
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, right - confidence, BINS)
    return float(np.abs(gaps).sum() / len(labels))


def bootstrap(score: Callable[[np.ndarray], Any], rows: int, seed: int = 0) -> np.ndarray:
    """The score of resampled rows, `RESAMPLES` times; it is given their indices."""
    draw = np.random.default_rng(seed)
    return np.array([score(draw.integers(0, rows, rows)) for _ in range(RESAMPLES)])
