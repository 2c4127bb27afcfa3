"""What labelled rows say of predictions: scores, shares with intervals, subgroups, coverage, and two models compared."""

import itertools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from gauge.tabular.saved.prediction_sets import PredictionSets
from gauge.training import metrics

ENDS = ["value", "low", "high"]  # a score and its 95 % interval
MAX_PARTS = 8  # of the rows by one column; numbers are divided at their quartiles
NO_INTERVAL = (float("nan"), float("nan"))
AREAS = ("auc", "average_precision")
Area = tuple[float, float, float]
Parts = Mapping[str, np.ndarray]
"""The rows of some parts of a table, by name."""


@dataclass(frozen=True)
class EvaluatedRows:
    """Labelled rows and the probabilities of models for them, the classifier first. `decided` are the classes that it
    predicts, `observed` says which columns each row has, and `groups` are the numbers of patients or others that rows belong
    to, of which intervals are then made. `positive` is the number of the class that is looked for, and `class_weight` what
    each class counts in a decision."""

    models: Mapping[str, np.ndarray]
    labels: np.ndarray
    decided: np.ndarray
    classes: Sequence[Any]
    observed: np.ndarray
    groups: metrics.Groups = None
    positive: int | None = None
    class_weight: Sequence[float] = (1.0, 1.0)

    @property
    def own(self) -> np.ndarray:
        """The probabilities of the classifier itself."""
        return next(iter(self.models.values()))

    @property
    def missing(self) -> np.ndarray:
        """How many values each row misses."""
        return (~self.observed).sum(1)

    def one_class(self, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the probability of the positive class, and whether each row has it."""
        assert self.positive is not None
        return probabilities[:, self.positive], self.labels == self.positive


def score_table(predictions: EvaluatedRows) -> pd.DataFrame:
    """Return a line for each model and metric, all of them from the same resamples."""
    labels, groups = predictions.labels, predictions.groups
    scorers: dict[tuple[str, str], metrics.OfRows] = {}
    known: dict[tuple[str, str], Area] = {}
    for name, probabilities in predictions.models.items():
        right = (predictions.decided if probabilities is predictions.own else probabilities.argmax(1)) == labels
        # like the shares of parts of the rows, never certain
        known[name, "accuracy"] = share_interval(right, groups)
        scorers[name, "log_loss"] = metrics.resampled_log_loss(probabilities, labels)
        scorers[name, "auc"] = metrics.resampled_areas(probabilities, labels)
        # never below zero and too large by chance, in a resample twice
        known[name, "calibration_error"] = metrics.calibration_error(probabilities, labels), *NO_INTERVAL
        if predictions.positive is not None:
            scorers[name, "average_precision"] = resampled_average_precision(*predictions.one_class(probabilities))

    def score(rows: np.ndarray) -> np.ndarray:
        return np.stack([scorer(rows) for scorer in scorers.values()], 1)

    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # where all labels are of one class
        intervals = metrics.quantiles(metrics.bootstrap_at_once(score, np.zeros_like(labels), groups))
    values = score(np.arange(len(labels))[None])[0]
    if groups is not None and len(np.unique(groups)) < 2:  # of which all resamples are the same
        intervals = np.full((2, len(values)), np.nan)
    for (model, metric), value, low, high in zip(scorers, values, *intervals, strict=True):
        ends = value, low, high
        known[model, metric] = _uncertain(ends, labels, groups) if metric in AREAS else ends
    order = [*predictions.models], ["accuracy", "log_loss", "auc", "calibration_error", "average_precision"]
    table = [(*key, *known[key]) for key in itertools.product(*order) if key in known]
    return pd.DataFrame(table, columns=["model", "metric", *ENDS])


def _uncertain(area: Area, labels: np.ndarray, groups: metrics.Groups) -> Area:
    """Return an area under a curve and its interval. Where it is 1 or 0, which resamples do not change, that is Wilson's
    for as many rows, or groups, as the rarest class has."""
    value, low, high = area
    if low < high or value not in (0, 1):
        return area
    if groups is not None:
        labels = np.unique([labels, np.unique(groups, return_inverse=True)[1]], axis=1)[0]
    return share_interval(np.full(np.unique(labels, return_counts=True)[1].min(), bool(value)))


def _mean(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return values[rows].mean(1)


def resampled_average_precision(scores: np.ndarray, positive: np.ndarray) -> metrics.OfRows:
    """Return the average precision of resamples, that of `sklearn.metrics`, which takes ten times as long in a bootstrap:
    counts by score take the place of an order for each resample."""
    values, rank = np.unique(-scores, return_inverse=True)

    def precision(rows: np.ndarray) -> np.ndarray:
        bins = rank[rows] + len(values) * np.arange(len(rows))[:, None]
        size, chosen = len(rows) * len(values), positive[rows]
        seen = np.bincount(bins.ravel(), minlength=size).reshape(len(rows), -1).cumsum(1)
        own = np.bincount(bins[chosen], minlength=size).reshape(len(rows), -1)
        with np.errstate(invalid="ignore"):  # NaN without a positive row
            return (own * own.cumsum(1) / np.maximum(seen, 1)).sum(1) / own.sum(1)

    return precision


def share_interval(right: np.ndarray, groups: metrics.Groups = None) -> tuple[float, float, float]:
    """Return the share of True values with Wilson's 95 % interval, NaN if there are none. Values in groups count as as many
    independent ones as would vary by chance as much as the groups do (Rao and Scott 1992), and never as more than there are.

    >>> [round(value, 3) for value in share_interval(np.array([True] * 9 + [False]))]
    [0.9, 0.596, 0.982]
    """
    if not len(right):
        return float("nan"), float("nan"), float("nan")
    share, count = float(right.mean()), float(len(right))
    if groups is not None:
        number = np.unique(groups, return_inverse=True)[1]
        off = np.bincount(number, right - share)
        varies = float(np.square(off).sum()) * len(off) / max(len(off) - 1, 1) / len(right) ** 2
        known = 0 < share < 1 and len(off) > 1  # or else nothing says how far groups vary: one value of each counts
        if known:  # by few groups not as well as Wilson takes for granted, but as Student does
            less = (metrics.NORMAL_QUANTILE / stdtrit(len(off) - 1, 0.975)) ** 2
            count = less * min(count, share * (1 - share) / max(varies, 1e-30))
        else:
            count = float(len(off))
    return share, *metrics.wilson(share, count)


def operating_point(hits: np.ndarray, positive: np.ndarray, groups: metrics.Groups) -> pd.DataFrame:
    """Return sensitivity, specificity, PPV and NPV, each with the rows that it counts."""
    among = (positive, ~positive, hits, ~hits)
    right = (hits, ~hits, positive, ~positive)
    lines = []
    for name, rows, truth in zip(("sensitivity", "specificity", "PPV", "NPV"), among, right, strict=True):
        share = share_interval(truth[rows], None if groups is None else groups[rows])
        lines.append((name, *share, int(truth[rows].sum()), int(rows.sum())))
    return pd.DataFrame(lines, columns=["metric", *ENDS, "right", "of"])


def subgroups(predictions: EvaluatedRows, divided: Mapping[str, Parts], hits: np.ndarray | None) -> pd.DataFrame:
    """Return the scores of every part of the rows, by each column."""
    lines = []
    for column, parts in divided.items():
        for name, chosen in parts.items():
            line = {"column": column, "part": name, "rows": len(chosen)}
            lines.append(line | _part(predictions, chosen, None if hits is None else hits[chosen]))
    return pd.DataFrame(lines)


def _part(predictions: EvaluatedRows, rows: np.ndarray, hits: np.ndarray | None) -> dict[str, Any]:
    labels, probabilities = predictions.labels[rows], predictions.own[rows]
    groups = None if predictions.groups is None else predictions.groups[rows]
    line: dict[str, Any] = {"accuracy": share_interval(predictions.decided[rows] == labels, groups)}
    area = metrics.area_under_curve(probabilities, labels)
    limits = NO_INTERVAL
    if len(np.unique(labels)) > 1 and np.isfinite(area) and (groups is None or len(np.unique(groups)) > 1):
        limits = tuple(np.clip(metrics.AUC.interval(probabilities, labels, groups=groups), 0, 1).tolist())
    line["auc"] = _uncertain((area, *limits), labels, groups)
    if hits is not None:
        measured = operating_point(hits, labels == predictions.positive, groups)[:2]
        line |= {
            name: tuple(ends) for name, ends in zip(measured["metric"], measured[ENDS].to_numpy().tolist(), strict=True)
        }
    return line | {"log_loss": metrics.log_loss(probabilities, labels)}


def divided(column: pd.Series) -> Parts:
    """Return the rows of each part by one column: a value, a quarter of its numbers, or those where it is missing."""
    known = column.notna()
    if pd.api.types.is_numeric_dtype(column) and column.nunique() > MAX_PARTS:
        quarter = pd.qcut(column, 4, labels=False, duplicates="drop")
        quarters = [quarter == number for number in np.unique(quarter[known])]
        parts = {f"{column[rows].min():g} to {column[rows].max():g}": rows for rows in quarters}
    else:
        texts = column.map("{:.12g}".format) if pd.api.types.is_float_dtype(column) else column.astype(str)
        frequent = sorted(texts[known].value_counts().index[:MAX_PARTS])
        parts = {name: known & (texts == name) for name in frequent}
        parts["others"] = parts.get("others", False) | (known & ~texts.isin(frequent))
    parts["missing"] = parts.get("missing", False) | ~known
    return {name: np.flatnonzero(rows) for name, rows in parts.items() if rows.any()}


def missing_parts(missing: np.ndarray) -> Parts:
    """Return the rows of each part by the number of missing values: each number, or spans of them."""
    ends = np.unique(missing)
    if len(ends) > MAX_PARTS:
        ends = np.unique(np.quantile(missing, np.linspace(0, 1, 6)[1:], method="higher"))
    parts = {}
    for number, end in enumerate(ends):
        rows = np.flatnonzero(np.searchsorted(ends, missing) == number)
        start = missing[rows].min()
        parts[f"{start} to {end}" if start != end else f"{end}"] = rows
    return parts


def coverage_table(predictions: EvaluatedRows, sets: PredictionSets) -> pd.DataFrame:
    """Return how often prediction sets hold the label, for all rows and, at 90 %, by number of missing values and by class;
    there also the sets whose promise holds for every class."""
    coverages = (0.8, 0.9, 0.95)  # of the prediction sets that are tried
    every = np.arange(len(predictions.labels))
    occurring = np.unique(predictions.labels)[:20]  # classes that are shown
    own = {f"rows of {predictions.classes[each]}": np.flatnonzero(predictions.labels == each) for each in occurring}
    missing = {f"{name} missing": rows for name, rows in missing_parts(predictions.missing).items()}
    tables = [(promised, False, {"": every}) for promised in coverages]
    tables[1][2].update(missing | own)
    every_class = {"of every class": every} | {f"of every class, {name}": rows for name, rows in own.items()}
    tables.insert(2, (coverages[1], True, every_class))
    lines = []
    for promised, by_class, shown in tables:
        held = sets.contains(predictions.own, predictions.observed, promised, by_class=by_class)
        covered, size = held[every, predictions.labels], held.sum(1)
        for name, rows in shown.items():
            groups = None if predictions.groups is None else predictions.groups[rows]
            share, one = share_interval(covered[rows], groups), size[rows] == 1
            right = float(covered[rows][one].mean()) if one.any() else float("nan")
            sizes = float(size[rows].mean()), float(one.mean()), right, float((size[rows] == 0).mean())
            lines.append((promised, name, len(rows), *share, *sizes))
    columns = ["promised", "part", "rows", "coverage", *ENDS[1:], "size", "one_class", "one_class_right", "no_class"]
    return pd.DataFrame(lines, columns=columns)


def compare(predictions: EvaluatedRows, other: np.ndarray) -> pd.DataFrame:
    """Return the classifier minus another one: accuracy, AUC and log loss with intervals and paired tests."""
    own, labels, groups = predictions.own, predictions.labels, predictions.groups
    lines = []
    for name, metric in (("accuracy", metrics.ACCURACY), ("AUC", metrics.AUC)):
        if metric is metrics.ACCURACY or len(np.unique(labels)) > 1:
            test = metric.compare(other, own, labels, groups)
            lines.append((name, test.difference, *test.interval, test.p_value, test.test))
    change = metrics.log_losses(own, labels) - metrics.log_losses(other, labels)
    low, high = metrics.quantiles(
        metrics.bootstrap_at_once(partial(_mean, change), np.zeros_like(labels), groups)
    ).tolist()
    test_name = "t test of rows" if groups is None else "t test of groups"
    lines.append(("log loss", float(change.mean()), low, high, _paired_p(change, groups), test_name))
    return pd.DataFrame(lines, columns=["metric", "difference", "low", "high", "p", "test"])


def _paired_p(change: np.ndarray, groups: metrics.Groups) -> float:
    """Return the p value of Student's t test that the mean of changes, or of their sums over groups, is zero."""
    from scipy.stats import ttest_1samp

    if groups is not None:
        change = np.bincount(np.unique(groups, return_inverse=True)[1], change)
    return float(ttest_1samp(change, 0).pvalue) if len(change) > 1 and change.std() else 1.0
