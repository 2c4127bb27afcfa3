"""Metrics with 95 % intervals, and the paired comparison of two methods on the same samples; thin over scikit-learn."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest, norm
from sklearn.metrics import accuracy_score, roc_auc_score

METRICS = ("accuracy", "auc")
RESAMPLES = 1000


def score(metric: str, probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Accuracy, or the area under the ROC curve (binary: of class 1; more classes: macro one-vs-rest)."""
    if metric == "accuracy":
        return float(accuracy_score(labels, probabilities.argmax(1)))
    if metric != "auc":
        raise ValueError(f"metric {metric!r} is unknown; use {' or '.join(METRICS)}")
    if len(np.unique(labels)) < 2:
        raise ValueError("the AUC needs samples of at least two classes; this split has one")
    if probabilities.shape[1] == 2:
        return float(roc_auc_score(labels, probabilities[:, 1]))
    return float(roc_auc_score(labels, probabilities, multi_class="ovr", labels=np.arange(probabilities.shape[1])))


def interval(metric: str, probabilities: np.ndarray, labels: np.ndarray, *, repeats: int = 1) -> tuple[float, float]:
    """A 95 % interval for the sampling of the test set: Wilson for accuracy, DeLong for a binary AUC, else bootstrap.

    With `repeats` the same samples follow each other so many times; they are resampled as wholes.
    """
    if repeats > 1:
        samples = len(labels) // repeats
        again = samples * np.arange(repeats)[:, None]
        rows = [(again + chosen).ravel() for chosen in _resamples(labels[:samples])]
        if metric == "accuracy":
            correct = (probabilities.argmax(1) == labels).astype(float)
            return _quantiles([correct[chosen].mean() for chosen in rows])
        return _quantiles([score(metric, probabilities[chosen], labels[chosen]) for chosen in rows])
    if metric == "accuracy":
        correct = int((probabilities.argmax(1) == labels).sum())
        found = binomtest(correct, len(labels)).proportion_ci(method="wilson")
        return float(found.low), float(found.high)
    if probabilities.shape[1] == 2:
        value, deviation = score(metric, probabilities, labels), _delong([probabilities[:, 1]], labels)[0, 0] ** 0.5
        return max(0.0, value - 1.96 * deviation), min(1.0, value + 1.96 * deviation)
    return _quantiles([score(metric, probabilities[rows], labels[rows]) for rows in _resamples(labels)])


@dataclass(frozen=True)
class Comparison:
    """Second minus first method on the same samples."""

    difference: float
    interval: tuple[float, float]
    p_value: float
    test: str


def compare(metric: str, first: np.ndarray, second: np.ndarray, labels: np.ndarray) -> Comparison:
    """The difference with a bootstrap interval, and `paired_test`."""
    difference = score(metric, second, labels) - score(metric, first, labels)
    if metric == "accuracy":
        gains = (second.argmax(1) == labels).astype(float) - (first.argmax(1) == labels)
        values = [gains[rows].mean() for rows in _resamples(labels)]
    else:
        values = [
            score(metric, second[rows], labels[rows]) - score(metric, first[rows], labels[rows])
            for rows in _resamples(labels)
        ]
    return Comparison(difference, _quantiles(values), *paired_test(metric, first, second, labels))


def paired_test(metric: str, first: np.ndarray, second: np.ndarray, labels: np.ndarray) -> tuple[float, str]:
    """A p-value and the test it comes from: exact McNemar for accuracy, DeLong for a binary AUC."""
    if metric == "accuracy":
        right, also = first.argmax(1) == labels, second.argmax(1) == labels
        better, worse = int((also & ~right).sum()), int((right & ~also).sum())
        return (float(binomtest(better, better + worse).pvalue) if better + worse else 1.0), "McNemar (exact)"
    if first.shape[1] != 2:
        return float("nan"), "none for more than two classes"
    covariance = _delong([first[:, 1], second[:, 1]], labels)
    variance = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
    difference = score(metric, second, labels) - score(metric, first, labels)
    return (float(2 * norm.sf(abs(difference) / variance**0.5)) if variance > 0 else 1.0), "DeLong"


def _quantiles(values: list[float]) -> tuple[float, float]:
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)


def _resamples(labels: np.ndarray) -> list[np.ndarray]:
    """Bootstrap rows, drawn within each class so that every resample holds them all; always the same ones."""
    draw = np.random.default_rng(0)
    classes = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    return [np.concatenate([draw.choice(rows, len(rows)) for rows in classes]) for _ in range(RESAMPLES)]


def _delong(scores: list[np.ndarray], labels: np.ndarray) -> np.ndarray:
    """The covariance of the AUCs of several scores on the same samples (DeLong et al. 1988); one sample of a class tells
    nothing of it."""
    positive, negative = labels == 1, labels != 1
    if min(positive.sum(), negative.sum()) < 2:
        return np.diag(np.full(len(scores), np.inf))
    # how each positive ranks among the negatives, and each negative among the positives; ties count half
    wins = [(s[positive][:, None] > s[negative]) + 0.5 * (s[positive][:, None] == s[negative]) for s in scores]
    over_positive, over_negative = [w.mean(1) for w in wins], [w.mean(0) for w in wins]
    return np.atleast_2d(np.cov(over_positive)) / positive.sum() + np.atleast_2d(np.cov(over_negative)) / negative.sum()
