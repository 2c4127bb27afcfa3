"""Metrics with 95 % intervals, and the paired comparison of two methods on the same samples."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest, norm
from sklearn.metrics import roc_auc_score

RESAMPLES = 1000

Interval = tuple[float, float]


@dataclass(frozen=True)
class Metric:
    """A number from 0 to 1 for class probabilities and labels. `sampling` is an interval in closed form, or None;
    `paired` gives the p-value and the name of the test for two methods on the same samples."""

    name: str
    score: Callable[[np.ndarray, np.ndarray], float]
    sampling: Callable[[np.ndarray, np.ndarray], Interval | None]
    paired: Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[float, str]]

    def __str__(self) -> str:
        return self.name

    def chance(self, labels: np.ndarray) -> float:
        """The score of the class frequencies as the prediction for every sample."""
        shares = np.bincount(labels) / len(labels)
        return self.score(np.tile(shares, (len(labels), 1)), labels)

    def interval(self, probabilities: np.ndarray, labels: np.ndarray, *, repeats: int = 1) -> Interval:
        """A 95 % interval for the sampling of the test set. Samples whose rows repeat are resampled with all of them."""
        closed = self.sampling(probabilities, labels) if repeats == 1 else None
        if closed is not None:
            return closed
        samples = len(labels) // repeats
        offsets = samples * np.arange(repeats)[:, None]
        rows = [(offsets + chosen).ravel() for chosen in _resamples(labels[:samples])]
        return _quantiles([self.score(probabilities[chosen], labels[chosen]) for chosen in rows])

    def compare(self, first: np.ndarray, second: np.ndarray, labels: np.ndarray) -> "Comparison":
        """Second minus first method, with a bootstrap interval and the paired test."""

        def difference(rows: np.ndarray | slice) -> float:
            return self.score(second[rows], labels[rows]) - self.score(first[rows], labels[rows])

        values = [difference(rows) for rows in _resamples(labels)]
        return Comparison(difference(slice(None)), _quantiles(values), *self.paired(first, second, labels))


@dataclass(frozen=True)
class Comparison:
    """Second minus first method on the same samples."""

    difference: float
    interval: Interval
    p_value: float
    test: str


def _accuracy(probabilities: np.ndarray, labels: np.ndarray) -> float:
    return float((probabilities.argmax(1) == labels).mean())


def _wilson(probabilities: np.ndarray, labels: np.ndarray) -> Interval:
    correct = int((probabilities.argmax(1) == labels).sum())
    bounds = binomtest(correct, len(labels)).proportion_ci(method="wilson")
    return float(bounds.low), float(bounds.high)


def _mcnemar(first: np.ndarray, second: np.ndarray, labels: np.ndarray) -> tuple[float, str]:
    before, after = first.argmax(1) == labels, second.argmax(1) == labels
    better, worse = int((after & ~before).sum()), int((before & ~after).sum())
    return (float(binomtest(better, better + worse).pvalue) if better + worse else 1.0), "McNemar (exact)"


def _auc(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Binary: of class 1; more classes: macro one-vs-rest."""
    if len(np.unique(labels)) < 2:
        raise ValueError("the AUC needs samples of at least two classes; this split has one")
    if probabilities.shape[1] == 2:
        return float(roc_auc_score(labels, probabilities[:, 1]))
    return float(roc_auc_score(labels, probabilities, multi_class="ovr", labels=np.arange(probabilities.shape[1])))


def _auc_interval(probabilities: np.ndarray, labels: np.ndarray) -> Interval | None:
    if probabilities.shape[1] != 2:
        return None
    value, deviation = _auc(probabilities, labels), _delong([probabilities[:, 1]], labels)[0, 0] ** 0.5
    return max(0.0, value - 1.96 * deviation), min(1.0, value + 1.96 * deviation)


def _delong_test(first: np.ndarray, second: np.ndarray, labels: np.ndarray) -> tuple[float, str]:
    if first.shape[1] != 2:
        return float("nan"), "none for more than two classes"
    covariance = _delong([first[:, 1], second[:, 1]], labels)
    variance = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
    difference = _auc(second, labels) - _auc(first, labels)
    return (float(2 * norm.sf(abs(difference) / variance**0.5)) if variance > 0 else 1.0), "DeLong"


ACCURACY = Metric("accuracy", _accuracy, _wilson, _mcnemar)
AUC = Metric("auc", _auc, _auc_interval, _delong_test)
METRICS = {metric.name: metric for metric in (ACCURACY, AUC)}


def _quantiles(values: list[float]) -> Interval:
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)


def _resamples(labels: np.ndarray) -> list[np.ndarray]:
    """The rows of each bootstrap resample, drawn within each class with a fixed seed."""
    draw = np.random.default_rng(0)
    classes = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    return [np.concatenate([draw.choice(rows, len(rows)) for rows in classes]) for _ in range(RESAMPLES)]


def _delong(scores: list[np.ndarray], labels: np.ndarray) -> np.ndarray:
    """The covariance of the AUCs of several scores on the same samples (DeLong et al. 1988); infinite where a class has
    one sample."""
    positive, negative = labels == 1, labels != 1
    if min(positive.sum(), negative.sum()) < 2:
        return np.diag(np.full(len(scores), np.inf))
    # how each positive ranks among the negatives, and each negative among the positives; ties count half
    wins = [(s[positive][:, None] > s[negative]) + 0.5 * (s[positive][:, None] == s[negative]) for s in scores]
    over_positive, over_negative = [w.mean(1) for w in wins], [w.mean(0) for w in wins]
    return np.atleast_2d(np.cov(over_positive)) / positive.sum() + np.atleast_2d(np.cov(over_negative)) / negative.sum()
