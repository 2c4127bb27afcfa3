"""The one definition of every score of class probabilities, with 95 % intervals, and the paired comparison of two methods.

accuracy            the share of samples whose most probable class is the right one
log loss            the mean of -log max(p(right class), 1e-7), in nats
AUC                 of two classes the second against the first, of more each against the rest, averaged; ties count half
calibration error   Σ_bins |Σ (correct - confidence)| / n over 15 bins of equal width of the confidence
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from scipy.special import ndtr

RESAMPLES = 1000  # of a bootstrap
CALIBRATION_BINS = 15  # Guo et al. 2017
NORMAL_QUANTILE = 1.959963984540054  # of a 95 % interval

Interval = tuple[float, float]
Groups = np.ndarray | None
"""The number of each sample's group, where samples share a photo or a lesion and are not independent."""

OfRows = Callable[[np.ndarray], np.ndarray]
"""A score of the samples with these indices, which may repeat, for each of some resamples: [resamples, samples]."""


@dataclass(frozen=True)
class Metric:
    """A number from 0 to 1 for class probabilities and labels. `sampling` is an interval in closed form, or None;
    `paired` gives the p-value and the name of the test for two methods on the same samples; `resampled` gives the scores of
    resamples, where that is faster."""

    name: str
    score: Callable[[np.ndarray, np.ndarray], float]
    sampling: Callable[[np.ndarray, np.ndarray], Interval | None]
    paired: Callable[[np.ndarray, np.ndarray, np.ndarray, Groups], tuple[float, str]]
    resampled: Callable[[np.ndarray, np.ndarray], OfRows] | None = None

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
        of_rows, own = self.of_rows(probabilities, labels), None if groups is None else groups[:samples]
        drawn = bootstrap_at_once(
            lambda rows: of_rows((offsets + rows[:, None]).reshape(len(rows), -1)), labels[:samples], own
        )
        low, high = quantiles(drawn)
        return float(low), float(high)

    def of_rows(self, probabilities: np.ndarray, labels: np.ndarray) -> OfRows:
        if self.resampled is not None:
            return self.resampled(probabilities, labels)
        return lambda rows: np.array([self.score(probabilities[each], labels[each]) for each in rows])

    def compare(self, first: np.ndarray, second: np.ndarray, labels: np.ndarray, groups: Groups = None) -> "Comparison":
        """Second minus first method, with a bootstrap interval and the paired test."""
        before, after = self.of_rows(first, labels), self.of_rows(second, labels)
        low, high = quantiles(bootstrap_at_once(lambda rows: after(rows) - before(rows), labels, groups))
        difference = self.score(second, labels) - self.score(first, labels)
        return Comparison(difference, (float(low), float(high)), *self.paired(first, second, labels, groups))


@dataclass(frozen=True)
class Comparison:
    """Second minus first method on the same samples."""

    difference: float
    interval: Interval
    p_value: float
    test: str


def log_losses(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the log loss of every row, in nats. Probabilities below 1e-7, what float32 resolves near 1, count as that.

    >>> log_losses(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([0, 1])).round(3).tolist()
    [0.693, 16.118]
    """
    return -np.log(probabilities[np.arange(len(labels)), labels].clip(1e-7))


def scores(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """All scores, by name; labels are class numbers.

    >>> scores(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 1]))["accuracy"]
    1.0
    """
    return {name: score(probabilities, labels) for name, score in SCORES.items()}


def accuracy(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """The share of samples whose most probable class is the right one."""
    return float((probabilities.argmax(1) == labels).mean())


def log_loss(probabilities: np.ndarray, labels: np.ndarray) -> float:
    return float(resampled_log_loss(probabilities, labels)(np.arange(len(labels))[None])[0])


def resampled_log_loss(probabilities: np.ndarray, labels: np.ndarray) -> OfRows:
    """`log_loss` of resamples, with one logarithm for each sample."""
    losses = log_losses(probabilities, labels)
    return lambda rows: losses[rows].mean(1)


def area_under_curve(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """With two classes, the AUC of the second against the first; with more, the mean of each one that occurs against the
    rest. NaN if only one occurs."""
    return float(resampled_areas(probabilities, labels)(np.arange(len(labels))[None])[0])


def resampled_areas(probabilities: np.ndarray, labels: np.ndarray) -> OfRows:
    """`area_under_curve` of resamples. All samples are ranked once, so that a resample is counted and not sorted:
    `roc_auc_score` takes many times as long.

    >>> areas = resampled_areas(np.array([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]]), np.array([0, 1, 1]))
    >>> areas(np.array([[0, 1, 1], [0, 0, 2]])).tolist()
    [1.0, 1.0]
    """
    classes = np.array([1]) if probabilities.shape[1] == 2 else np.unique(labels)
    shape = len(classes), len(labels)
    ranks = np.stack([np.unique(probabilities[:, label], return_inverse=True)[1] for label in classes])
    ranks += len(labels) * np.arange(len(classes))[:, None]
    row, own = np.searchsorted(classes, labels).clip(max=len(classes) - 1), np.arange(len(labels))
    rank, has_class = ranks[row, own], classes[row] == labels

    def area(rows: np.ndarray) -> np.ndarray:
        count, number = len(rows), np.arange(len(rows))[:, None]
        every = np.bincount((ranks[:, rows] + ranks.size * number).ravel(), minlength=count * ranks.size)
        every = every.reshape(count, *shape)
        below = (np.cumsum(every, 2) - every / 2).reshape(count, -1)
        chosen = has_class[rows]
        where, size = (row[rows] + len(classes) * number)[chosen], count * len(classes)
        sums = np.bincount(where, np.take_along_axis(below, rank[rows], 1)[chosen], size).reshape(count, -1)
        positive = np.bincount(where, minlength=size).reshape(count, -1)
        pairs = positive * (rows.shape[1] - positive)
        # of the samples below positive ones, half of all pairs of positive ones are positive themselves
        areas = (sums - positive * positive / 2) / np.maximum(pairs, 1)
        with np.errstate(invalid="ignore"):  # NaN without any pair
            return np.where(pairs > 0, areas, 0.0).sum(1) / (pairs > 0).sum(1)

    return area


def calibration_error(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """The expected calibration error: how far accuracy is from confidence, over 15 bins of equal width.

    >>> round(calibration_error(np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([0, 1])), 2)
    0.4
    """
    return expected_calibration_error(probabilities.max(1), probabilities.argmax(1) == labels)


def expected_calibration_error(confidence: np.ndarray, right: np.ndarray) -> float:
    """How far the share that is right is from the confidence, over bins of the latter; `right` may be shares."""
    gaps = np.bincount(_bins(confidence), right - confidence.astype(float))
    return float(np.abs(gaps).sum() / len(confidence))


def reliability(confidence: np.ndarray, right: np.ndarray) -> dict[str, Any]:
    """The expected calibration error `ece`, and for each of its `bins` that is not empty the mean confidence, the share that
    is right and the count."""
    bins = _bins(confidence)
    count = np.bincount(bins, minlength=CALIBRATION_BINS)
    sums = [np.bincount(bins, values.astype(float), minlength=CALIBRATION_BINS) for values in (confidence, right)]
    rows = [
        [round(float(mean), 4), round(float(share), 4), float(number)]
        for mean, share, number in zip(*(total / np.maximum(count, 1) for total in sums), count, strict=True)
        if number
    ]
    return {"ece": expected_calibration_error(confidence, right), "bins": rows}


def _bins(confidence: np.ndarray) -> np.ndarray:
    return np.minimum((confidence.astype(float) * CALIBRATION_BINS).astype(int), CALIBRATION_BINS - 1)


SCORES = {"accuracy": accuracy, "log_loss": log_loss, "auc": area_under_curve, "calibration_error": calibration_error}


def wilson(share: float, count: float | int) -> Interval:
    """Return Wilson's 95 % interval of a share of so many samples. The count of samples in groups is not a whole number,
    which `scipy.stats.binomtest` requires.

    >>> tuple(round(end, 3) for end in wilson(0.9, 10))
    (0.596, 0.982)
    """
    middle = share + NORMAL_QUANTILE**2 / (2 * count)
    spread = NORMAL_QUANTILE * (share * (1 - share) / count + (NORMAL_QUANTILE / (2 * count)) ** 2) ** 0.5
    low, high = ((middle + side) / (1 + NORMAL_QUANTILE**2 / count) for side in (-spread, spread))
    return max(0.0, min(low, share)), min(1.0, max(high, share))  # rounding may put an end beyond a share of 0 or 1


def _mcnemar(first: np.ndarray, second: np.ndarray, labels: np.ndarray, groups: Groups = None) -> tuple[float, str]:
    before, after = first.argmax(1) == labels, second.argmax(1) == labels
    if groups is not None:
        gains = np.bincount(np.unique(groups, return_inverse=True)[1], after.astype(int) - before.astype(int))
        size = float(np.square(gains).sum()) ** 0.5
        return (float(2 * ndtr(-abs(gains.sum()) / size)) if size else 1.0), "McNemar for groups (Durkalski)"
    better, worse = int((after & ~before).sum()), int((before & ~after).sum())
    from scipy.stats import binomtest

    return (float(binomtest(better, better + worse).pvalue) if better + worse else 1.0), "McNemar (exact)"


def _auc(probabilities: np.ndarray, labels: np.ndarray) -> float:
    if len(np.unique(labels)) < 2:
        raise ValueError("the AUC needs samples of at least two classes; this split has one")
    return area_under_curve(probabilities, labels)


def _auc_interval(probabilities: np.ndarray, labels: np.ndarray) -> Interval | None:
    if probabilities.shape[1] != 2:
        return None
    value, deviation = _auc(probabilities, labels), _delong([probabilities[:, 1]], labels)[0, 0] ** 0.5
    return max(0.0, value - NORMAL_QUANTILE * deviation), min(1.0, value + NORMAL_QUANTILE * deviation)


def _delong_test(first: np.ndarray, second: np.ndarray, labels: np.ndarray, groups: Groups = None) -> tuple[float, str]:
    if first.shape[1] != 2:
        return float("nan"), "none for more than two classes"
    covariance = _delong([first[:, 1], second[:, 1]], labels, groups)
    variance = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
    difference = _auc(second, labels) - _auc(first, labels)
    name = "DeLong" if groups is None else "DeLong for groups (Obuchowski)"
    if variance > 0:
        return float(2 * ndtr(-abs(difference) / variance**0.5)), name
    # nothing varies, or there is one group: no less than what a sign test of the rarer class, or its groups, could give
    kinds = labels if groups is None else np.unique([labels, np.unique(groups, return_inverse=True)[1]], axis=1)[0]
    return (1.0 if difference == 0 else min(1.0, 2.0 ** (1 - int(np.unique(kinds, return_counts=True)[1].min())))), name


def _accuracy_interval(probabilities: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    return wilson(accuracy(probabilities, labels), len(labels))  # a name of its own: settings with a metric are pickled


ACCURACY = Metric("accuracy", accuracy, _accuracy_interval, _mcnemar)
AUC = Metric("auc", _auc, _auc_interval, _delong_test, resampled_areas)
METRICS = {metric.name: metric for metric in (ACCURACY, AUC)}


def bootstrap_at_once(score: OfRows, labels: np.ndarray, groups: Groups = None) -> np.ndarray:
    """The score of each of `RESAMPLES` resamples, as a function of the rows of several, which are drawn within each class,
    or groups as a whole: their resamples may differ in length, and come one by one."""
    # 30,000 rows of resamples are scored at once
    count = 1 if groups is not None else max(1, 30_000 // max(len(labels), 1))
    drawn = _resamples(labels, groups)
    blocks = iter(lambda: list(islice(drawn, count)), [])
    return np.concatenate([score(np.stack(block)) for block in blocks])


def quantiles(values: np.ndarray | list[float]) -> np.ndarray:
    """The limits of the 95 % interval of resampled values, along the first axis."""
    return np.nanquantile(values, (0.025, 0.975), axis=0)


def _resamples(labels: np.ndarray, groups: Groups = None) -> Iterator[np.ndarray]:
    """The rows of each bootstrap resample, drawn within each class with a fixed seed. Groups are drawn as a whole and from
    all classes: strata of few groups would hide how these vary."""
    draw = np.random.default_rng(0)
    if groups is None:
        strata = [np.flatnonzero(labels == label) for label in np.unique(labels)]
        for _ in range(RESAMPLES):
            yield np.concatenate([rows[draw.integers(len(rows), size=len(rows))] for rows in strata])
        return
    _, number, counts = np.unique(groups, return_inverse=True, return_counts=True)
    members, classes = np.split(np.argsort(number, kind="stable"), np.cumsum(counts)[:-1]), len(np.unique(labels))
    for _ in range(RESAMPLES):
        for _ in range(20):  # some have no sample of a class, and so no AUC
            rows = np.concatenate([members[group] for group in draw.integers(len(members), size=len(members))])
            if len(np.unique(labels[rows])) == classes:
                break
        yield rows


def _ranks(values: np.ndarray) -> np.ndarray:
    """From 1 on; equal values share the mean of theirs, as in scipy.stats.rankdata, which takes a second to import."""
    _, number, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[number]


def _delong(scores: list[np.ndarray], labels: np.ndarray, groups: Groups = None) -> np.ndarray:
    """The covariance of the AUCs of several scores on the same samples (DeLong et al. 1988), or on samples in groups
    (Obuchowski 1997); infinite where a class has one sample."""
    positive, negative = labels == 1, labels != 1
    if min(positive.sum(), negative.sum()) < 2:
        return np.diag(np.full(len(scores), np.inf))
    # how each positive ranks among the negatives, and each negative among the positives; ties count half (Sun and Xu 2014)
    ranks = np.array([_ranks(score) for score in scores])
    among_positive, among_negative = (
        np.array([_ranks(score[own]) for score in scores]) for own in (positive, negative)
    )
    over_positive = (ranks[:, positive] - among_positive) / negative.sum()
    over_negative = 1 - (ranks[:, negative] - among_negative) / positive.sum()
    if groups is not None:
        number = np.unique(groups, return_inverse=True)[1]
        parts = np.zeros((len(scores), len(labels)))
        parts[:, positive] = (over_positive - over_positive.mean(1, keepdims=True)) / positive.sum()
        parts[:, negative] = (over_negative - over_negative.mean(1, keepdims=True)) / negative.sum()
        sums = np.array([np.bincount(number, part) for part in parts])
        return sums @ sums.T * (sums.shape[1] / (sums.shape[1] - 1) if sums.shape[1] > 1 else np.nan)
    return np.atleast_2d(np.cov(over_positive)) / positive.sum() + np.atleast_2d(np.cov(over_negative)) / negative.sum()
