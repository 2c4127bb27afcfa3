"""What labelled rows say of answers: scores, shares with intervals, subgroups, coverage, and two models compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from gauge.tabular.prediction_sets import PredictionSets
from gauge.training.metrics import (
    ACCURACY,
    AUC,
    PROBABILITY_FLOOR,
    SCORES,
    Groups,
    OfRows,
    area_under_curve,
    bootstrap_at_once,
    log_loss,
    quantiles,
    resampled_areas,
    resampled_calibration_error,
    resampled_log_loss,
)

NAMES = {
    "log_loss": "log loss",
    "auc": "AUC",
    "calibration_error": "calibration error",
    "average_precision": "average precision",
}
MAX_SHOWN_CLASSES = 20
COVERAGES = (0.8, 0.9, 0.95)  # of the prediction sets that are tried
NORMAL = 1.959964  # quantile of a 95 % interval
MAX_PARTS = 8  # of the rows by one column; numbers are divided at their quartiles
LARGE_SHARE = 0.8  # of a class, from which on a good accuracy says little
OPERATING = ("sensitivity", "specificity", "PPV", "NPV")


@dataclass(frozen=True)
class Answered:
    """Labelled rows and what models answer for them, the classifier first. `decided` are the classes that it predicts,
    `observed` says which columns each row has, and `groups` are the numbers of patients or others that rows belong to, of
    which intervals are then made. `positive` is the number of the class that is looked for, and `class_weight` what each
    class counts in a decision."""

    models: Mapping[str, np.ndarray]
    labels: np.ndarray
    decided: np.ndarray
    classes: Sequence[Any]
    observed: np.ndarray
    groups: Groups = None
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
        """The probability of the positive class, and whether each row has it."""
        assert self.positive is not None
        return probabilities[:, self.positive], self.labels == self.positive


def score_table(answered: Answered) -> pd.DataFrame:
    """A line for each model and metric, all of them from the same resamples."""
    labels, metrics = answered.labels, [*SCORES] + ([] if answered.positive is None else ["average_precision"])
    models = list(answered.models.values())
    right = [
        (answered.decided if probabilities is answered.own else probabilities.argmax(1)) == labels
        for probabilities in models
    ]
    areas = [resampled_areas(probabilities, labels) for probabilities in models]
    losses = [resampled_log_loss(probabilities, labels) for probabilities in models]
    errors = [resampled_calibration_error(probabilities, labels) for probabilities in models]
    precisions = (
        []
        if answered.positive is None
        else [resampled_average_precision(*answered.one_class(probabilities)) for probabilities in models]
    )

    def score(rows: np.ndarray) -> np.ndarray:
        values = []
        for model in range(len(models)):
            value = {"log_loss": losses[model](rows), "calibration_error": errors[model](rows)}
            value |= {"accuracy": right[model][rows].mean(1), "auc": areas[model](rows)}
            if precisions:
                value["average_precision"] = precisions[model](rows)
            values += [value[metric] for metric in metrics]
        return np.stack(values, 1)

    low, high = quantiles(bootstrap_at_once(score, labels, answered.groups))
    for model, hits in enumerate(right):  # a share like those of parts of the rows, and never certain
        index = model * len(metrics) + metrics.index("accuracy")
        _, low[index], high[index] = share_interval(hits, answered.groups)
    names = [(name, metric) for name in answered.models for metric in metrics]
    lines = zip(names, score(np.arange(len(labels))[None])[0], low, high, strict=True)
    return pd.DataFrame(
        [
            {"model": name, "metric": metric, "value": value, "low": below, "high": above}
            for (name, metric), value, below, above in lines
        ]
    )


def average_precision(scores: np.ndarray, positive: np.ndarray) -> float:
    """The precision at every positive row, averaged; rows of equal scores count together. NaN without a positive row.

    >>> average_precision(np.array([0.9, 0.8, 0.7]), np.array([True, False, True])).__round__(3)
    0.833
    """
    return float(resampled_average_precision(scores, positive)(np.arange(len(scores))[None])[0])


def resampled_average_precision(scores: np.ndarray, positive: np.ndarray) -> OfRows:
    """`average_precision` of resamples: counts by score take the place of an order for each of them."""
    values, rank = np.unique(-scores, return_inverse=True)

    def precision(rows: np.ndarray) -> np.ndarray:
        bins = rank[rows] + len(values) * np.arange(len(rows))[:, None]
        size, chosen = len(rows) * len(values), positive[rows]
        seen = np.bincount(bins.ravel(), minlength=size).reshape(len(rows), -1).cumsum(1)
        own = np.bincount(bins[chosen], minlength=size).reshape(len(rows), -1)
        with np.errstate(invalid="ignore"):  # NaN without a positive row
            return (own * own.cumsum(1) / np.maximum(seen, 1)).sum(1) / own.sum(1)

    return precision


def precision_recall(scores: np.ndarray, positive: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Recall and precision at every score as the threshold, from the largest on."""
    order = np.argsort(-scores, kind="stable")
    last = np.flatnonzero(np.diff(scores[order], append=np.nan) != 0)  # of equal scores
    hits = np.cumsum(positive[order])[last]
    return hits / max(positive.sum(), 1), hits / (last + 1)


def share_interval(right: np.ndarray, groups: Groups = None) -> tuple[float, float, float]:
    """The share of True values with Wilson's 95 % interval, NaN if there are none. Values in groups count as as many
    independent ones as would vary by chance as much as the groups do (Rao and Scott 1992).

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
        count = share * (1 - share) / varies if varies else float(len(off))
    middle = share + NORMAL**2 / (2 * count)
    spread = NORMAL * (share * (1 - share) / count + (NORMAL / (2 * count)) ** 2) ** 0.5
    low, high = ((middle + side) / (1 + NORMAL**2 / count) for side in (-spread, spread))
    return share, max(0.0, low), min(1.0, high)


def operating_point(hits: np.ndarray, positive: np.ndarray, groups: Groups) -> pd.DataFrame:
    """Sensitivity, specificity, PPV and NPV, each with the rows that it counts."""
    among = (positive, ~positive, hits, ~hits)
    right = (hits, ~hits, positive, ~positive)
    lines = []
    for name, rows, truth in zip(OPERATING, among, right, strict=True):
        value, low, high = share_interval(truth[rows], None if groups is None else groups[rows])
        counts = {"right": int(truth[rows].sum()), "of": int(rows.sum())}
        lines.append({"metric": name, "value": value, "low": low, "high": high} | counts)
    return pd.DataFrame(lines)


def subgroups(answered: Answered, divided: Mapping[str, pd.Categorical], hits: np.ndarray | None) -> pd.DataFrame:
    """The scores of every part of the rows, by each column."""
    lines = []
    for column, parts in divided.items():
        for name, chosen in _rows_of(parts).items():
            line = {"column": column, "part": name, "rows": len(chosen)}
            lines.append(line | _part(answered, chosen, None if hits is None else hits[chosen]))
    return pd.DataFrame(lines)


def _part(answered: Answered, rows: np.ndarray, hits: np.ndarray | None) -> dict[str, Any]:
    labels, probabilities = answered.labels[rows], answered.own[rows]
    groups = None if answered.groups is None else answered.groups[rows]
    line: dict[str, Any] = {"accuracy": share_interval(answered.decided[rows] == labels, groups)}
    area = area_under_curve(probabilities, labels)
    limits = (float("nan"), float("nan"))
    if len(np.unique(labels)) > 1 and np.isfinite(area):
        limits = tuple(np.clip(AUC.interval(probabilities, labels, groups=groups), 0, 1).tolist())
    line["auc"] = (area, *limits)
    if hits is not None:
        measured = records(operating_point(hits, labels == answered.positive, groups))
        line |= {each.metric: (each.value, each.low, each.high) for each in measured[:2]}
    return line | {"log_loss": log_loss(probabilities, labels)}


def divided(column: pd.Series) -> pd.Categorical:
    """The part of each row by one column: its value, the quarter of its numbers, or that it is missing."""
    if pd.api.types.is_numeric_dtype(column) and column.nunique() > MAX_PARTS:
        quarters = pd.qcut(column, 4, duplicates="drop")
        spans: Any = quarters.cat.categories
        names = [f"{span.left:g} to {span.right:g}" for span in spans]
        codes = quarters.cat.codes.to_numpy(int)
    else:
        texts = column.map("{:.12g}".format) if pd.api.types.is_float_dtype(column) else column.astype(str)
        frequent = texts[column.notna()].value_counts().index[:MAX_PARTS]
        names = [*sorted(frequent), "others"]
        codes = np.where(column.isna(), -1, pd.Index(names[:-1]).get_indexer(pd.Index(texts)))
        codes = np.where((codes < 0) & column.notna(), len(names) - 1, codes)
    return _categorical(np.where(codes < 0, len(names), codes), [*names, "missing"])


def missing_parts(missing: np.ndarray) -> pd.Categorical:
    """The part of each row by its number of missing values: each number, or spans of them."""
    counts = np.unique(missing)
    ends = (
        counts
        if len(counts) <= MAX_PARTS
        else np.unique(np.quantile(missing, np.linspace(0, 1, 6)[1:], method="higher"))
    )
    part = np.searchsorted(ends, missing)
    starts = [int(missing[part == number].min()) for number in range(len(ends))]
    names = [f"{start} to {end}" if start != end else f"{end}" for start, end in zip(starts, ends, strict=True)]
    return _categorical(part, names)


def _categorical(codes: np.ndarray, names: Sequence[str]) -> pd.Categorical:
    return pd.Categorical.from_codes(codes.astype(int).tolist(), pd.Index(list(names), dtype=object))


def _rows_of(parts: pd.Categorical) -> dict[str, np.ndarray]:
    """The rows of every part that has some, in order."""
    rows = {str(name): np.flatnonzero(parts.codes == code) for code, name in enumerate(parts.categories)}
    return {name: chosen for name, chosen in rows.items() if len(chosen)}


def coverage_table(answered: Answered, sets: PredictionSets) -> pd.DataFrame:
    """How often prediction sets hold the label, for all rows and, at 90 %, by number of missing values and by class; there
    also the sets whose promise holds for every class."""
    every = np.arange(len(answered.labels))
    names = [f"rows of {name}" for name in answered.classes]
    classes = dict(list(_rows_of(_categorical(answered.labels, names)).items())[:MAX_SHOWN_CLASSES])
    missing = {f"{name} missing": rows for name, rows in _rows_of(missing_parts(answered.missing)).items()}
    tables = [(promised, False, {"": every}) for promised in COVERAGES]
    tables[1][2].update(missing | classes)
    own = {f"of every class, {name}": rows for name, rows in classes.items()}
    tables.insert(2, (COVERAGES[1], True, {"of every class": every} | own))
    lines = []
    for promised, by_class, shown in tables:
        held = sets.contains(answered.own, answered.observed, promised, by_class=by_class)
        covered, size = held[every, answered.labels], held.sum(1)
        for name, rows in shown.items():
            groups = None if answered.groups is None else answered.groups[rows]
            value, low, high = share_interval(covered[rows], groups)
            one = size[rows] == 1
            line = {"promised": promised, "part": name, "rows": len(rows), "coverage": value, "low": low, "high": high}
            line |= {"size": float(size[rows].mean()), "one_class": float(one.mean())}
            line["one_class_right"] = float(covered[rows][one].mean()) if one.any() else float("nan")
            lines.append(line | {"no_class": float((size[rows] == 0).mean())})
    return pd.DataFrame(lines)


def compare(answered: Answered, other: np.ndarray) -> pd.DataFrame:
    """The classifier minus another one: accuracy, AUC and log loss with intervals and paired tests."""
    own, labels, groups = answered.own, answered.labels, answered.groups
    metrics = {"accuracy": ACCURACY} | ({"auc": AUC} if len(np.unique(labels)) > 1 else {})
    lines = []
    for name, metric in metrics.items():
        test = metric.compare(other, own, labels, groups)
        line = {"metric": NAMES.get(name, name), "difference": test.difference, "low": test.interval[0]}
        lines.append(line | {"high": test.interval[1], "p": test.p_value, "test": test.test})
    losses = [-np.log(each[np.arange(len(labels)), labels].clip(PROBABILITY_FLOOR)) for each in (own, other)]
    change = losses[0] - losses[1]
    low, high = quantiles(bootstrap_at_once(lambda rows: change[rows].mean(1), labels, groups))
    line = {"metric": NAMES["log_loss"], "difference": float(change.mean()), "low": float(low), "high": float(high)}
    lines.append(
        line | {"p": _paired_p(change, groups), "test": "t test of rows" if groups is None else "t test of groups"}
    )
    return pd.DataFrame(lines)


def _paired_p(change: np.ndarray, groups: Groups) -> float:
    """That the mean of changes, or of their sums over groups, is zero, by Student's t."""
    from scipy.special import stdtr

    if groups is not None:
        change = np.bincount(np.unique(groups, return_inverse=True)[1], change)
    spread = change.std(ddof=1) if len(change) > 1 else 0.0
    if not spread:
        return 1.0
    return float(2 * stdtr(len(change) - 1, -abs(change.mean()) / (spread / len(change) ** 0.5)))


def records(frame: pd.DataFrame) -> list[Any]:
    """The lines of a table, with a name for each cell."""
    return [SimpleNamespace(**{str(name): value for name, value in line.items()}) for line in frame.to_dict("records")]


def large_class_note(label: str, share: float) -> list[str]:
    """What an accuracy has to beat, where one class is far more frequent than the others."""
    if share <= LARGE_SHARE:
        return []
    return [f"always predicting {label!r} gives an accuracy of {100 * share:.1f} %: look at AUC and log loss"]
