"""Metrics with 95 % intervals, and the paired comparison of two methods on the same samples."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest, norm, rankdata
from sklearn.metrics import roc_auc_score

RESAMPLES = 1000

BINS = 15  # of the calibration error

Interval = tuple[float, float]
Groups = np.ndarray | None
"""The number of each sample's group, where samples share a photo or a lesion and are not independent."""


@dataclass(frozen=True)
class Metric:
    """A number from 0 to 1 for class probabilities and labels. `sampling` is an interval in closed form, or None;
    `paired` gives the p-value and the name of the test for two methods on the same samples."""

    name: str
    score: Callable[[np.ndarray, np.ndarray], float]
    sampling: Callable[[np.ndarray, np.ndarray], Interval | None]
    paired: Callable[[np.ndarray, np.ndarray, np.ndarray, Groups], tuple[float, str]]

    def __str__(self) -> str:
        return self.name

    def chance(self, labels: np.ndarray) -> float:
        """The score of the class frequencies as the prediction for every sample."""
        shares = np.bincount(labels) / len(labels)
        return self.score(np.tile(shares, (len(labels), 1)), labels)

    def interval(
        self, probabilities: np.ndarray, labels: np.ndarray, *, repeats: int = 1, groups: Groups = None
    ) -> Interval:
        """A 95 % interval for the sampling of the test set. Samples whose rows repeat are resampled with all of them, and so
        are groups of samples."""
        closed = self.sampling(probabilities, labels) if repeats == 1 and groups is None else None
        if closed is not None:
            return closed
        samples = len(labels) // repeats
        offsets = samples * np.arange(repeats)[:, None]
        drawn = _resamples(labels[:samples], None if groups is None else groups[:samples])
        rows = [(offsets + chosen).ravel() for chosen in drawn]
        return _quantiles([self.score(probabilities[chosen], labels[chosen]) for chosen in rows])

    def compare(self, first: np.ndarray, second: np.ndarray, labels: np.ndarray, groups: Groups = None) -> "Comparison":
        """Second minus first method, with a bootstrap interval and the paired test."""

        def difference(rows: np.ndarray | slice) -> float:
            return self.score(second[rows], labels[rows]) - self.score(first[rows], labels[rows])

        values = [difference(rows) for rows in _resamples(labels, groups)]
        return Comparison(difference(slice(None)), _quantiles(values), *self.paired(first, second, labels, groups))


@dataclass(frozen=True)
class Comparison:
    """Second minus first method on the same samples."""

    difference: float
    interval: Interval
    p_value: float
    test: str


def calibration_error(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """The expected calibration error: how far accuracy is from confidence, over 15 bins of equal width.

    >>> round(calibration_error(np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([0, 1])), 2)
    0.4
    """
    confidence, correct = probabilities.max(1), probabilities.argmax(1) == labels
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, correct - confidence, minlength=BINS)
    return float(np.abs(gaps).sum() / len(labels))


def log_loss(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """The mean negative log probability of the right class, in nats; probabilities below 1e-7 count as that."""
    right = probabilities[np.arange(len(labels)), labels]
    return float(-np.log(np.maximum(right, 1e-7)).mean())


def _accuracy(probabilities: np.ndarray, labels: np.ndarray) -> float:
    return float((probabilities.argmax(1) == labels).mean())


def _wilson(probabilities: np.ndarray, labels: np.ndarray) -> Interval:
    correct = int((probabilities.argmax(1) == labels).sum())
    bounds = binomtest(correct, len(labels)).proportion_ci(method="wilson")
    return float(bounds.low), float(bounds.high)


def _mcnemar(first: np.ndarray, second: np.ndarray, labels: np.ndarray, groups: Groups = None) -> tuple[float, str]:
    before, after = first.argmax(1) == labels, second.argmax(1) == labels
    if groups is not None:
        gains = np.bincount(np.unique(groups, return_inverse=True)[1], after.astype(int) - before.astype(int))
        size = float(np.square(gains).sum()) ** 0.5
        return (float(2 * norm.sf(abs(gains.sum()) / size)) if size else 1.0), "McNemar for groups (Durkalski)"
    better, worse = int((after & ~before).sum()), int((before & ~after).sum())
    return (float(binomtest(better, better + worse).pvalue) if better + worse else 1.0), "McNemar (exact)"


def _auc(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Binary: of class 1; more classes: macro one-vs-rest."""
    if len(np.unique(labels)) < 2:
        raise ValueError("the AUC needs samples of at least two classes; this split has one")
    if probabilities.shape[1] == 2:
        return _rank_auc(probabilities[:, 1], labels == 1)
    return float(roc_auc_score(labels, probabilities, multi_class="ovr", labels=np.arange(probabilities.shape[1])))


def _rank_auc(scores: np.ndarray, positive: np.ndarray) -> float:
    """The share of pairs in the right order, ties counted half; `roc_auc_score` is many times slower in a bootstrap."""
    count = int(positive.sum())
    return float((rankdata(scores)[positive].sum() / count - (count + 1) / 2) / (len(scores) - count))


def _auc_interval(probabilities: np.ndarray, labels: np.ndarray) -> Interval | None:
    if probabilities.shape[1] != 2:
        return None
    value, deviation = _auc(probabilities, labels), _delong([probabilities[:, 1]], labels)[0, 0] ** 0.5
    return max(0.0, value - 1.96 * deviation), min(1.0, value + 1.96 * deviation)


def _delong_test(first: np.ndarray, second: np.ndarray, labels: np.ndarray, groups: Groups = None) -> tuple[float, str]:
    if first.shape[1] != 2:
        return float("nan"), "none for more than two classes"
    covariance = _delong([first[:, 1], second[:, 1]], labels, groups)
    variance = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
    difference = _auc(second, labels) - _auc(first, labels)
    return (float(2 * norm.sf(abs(difference) / variance**0.5)) if variance > 0 else 1.0), (
        "DeLong" if groups is None else "DeLong for groups (Obuchowski)"
    )


ACCURACY = Metric("accuracy", _accuracy, _wilson, _mcnemar)
AUC = Metric("auc", _auc, _auc_interval, _delong_test)
METRICS = {metric.name: metric for metric in (ACCURACY, AUC)}


def _quantiles(values: list[float]) -> Interval:
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)


def _resamples(labels: np.ndarray, groups: Groups = None) -> Iterator[np.ndarray]:
    """The rows of each bootstrap resample, drawn within each class with a fixed seed. Groups are drawn as a whole, within
    the class of their first sample."""
    draw = np.random.default_rng(0)
    if groups is None:
        classes = [np.flatnonzero(labels == label) for label in np.unique(labels)]
        for _ in range(RESAMPLES):
            yield np.concatenate([draw.choice(rows, len(rows)) for rows in classes])
        return
    _, first, number, counts = np.unique(groups, return_index=True, return_inverse=True, return_counts=True)
    members = np.split(np.argsort(number, kind="stable"), np.cumsum(counts)[:-1])
    classes = [np.flatnonzero(labels[first] == label) for label in np.unique(labels[first])]
    for _ in range(RESAMPLES):
        chosen = np.concatenate([draw.choice(each, len(each)) for each in classes])
        yield np.concatenate([members[group] for group in chosen])


def _delong(scores: list[np.ndarray], labels: np.ndarray, groups: Groups = None) -> np.ndarray:
    """The covariance of the AUCs of several scores on the same samples (DeLong et al. 1988), or on samples in groups
    (Obuchowski 1997); infinite where a class has one sample."""
    positive, negative = labels == 1, labels != 1
    if min(positive.sum(), negative.sum()) < 2:
        return np.diag(np.full(len(scores), np.inf))
    # how each positive ranks among the negatives, and each negative among the positives; ties count half
    wins = [(s[positive][:, None] > s[negative]) + 0.5 * (s[positive][:, None] == s[negative]) for s in scores]
    over_positive, over_negative = [w.mean(1) for w in wins], [w.mean(0) for w in wins]
    if groups is not None:
        number = np.unique(groups, return_inverse=True)[1]
        parts = np.zeros((len(scores), len(labels)))
        parts[:, positive] = (np.array(over_positive) - np.mean(over_positive, 1)[:, None]) / positive.sum()
        parts[:, negative] = (np.array(over_negative) - np.mean(over_negative, 1)[:, None]) / negative.sum()
        sums = np.array([np.bincount(number, part) for part in parts])
        return sums @ sums.T * sums.shape[1] / (sums.shape[1] - 1)
    return np.atleast_2d(np.cov(over_positive)) / positive.sum() + np.atleast_2d(np.cov(over_negative)) / negative.sum()
