"""Evaluation of a fitted classifier on labelled rows, with intervals, beside class shares and boosted trees.

For two classes, or one class against all others (`positive`), also curves and decisions at a threshold:

sensitivity, specificity   the shares of positive and of negative rows that are decided rightly
PPV, NPV                   the shares of rows decided as positive and as negative that are
net benefit                (true positives - false positives · t / (1 - t)) / rows at the threshold t (Vickers, Elkin 2006)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from gauge.choices import pick
from gauge.masks import RandomCells, UpTo, parse_protocol
from gauge.tabular.evidence.thresholds import Threshold
from gauge.tabular.prediction_sets import PredictionSets
from gauge.tabular.table.inputs import class_positions, has_label, report_unlabelled
from gauge.training.checkpoint import write_text
from gauge.training.metrics import (
    ACCURACY,
    AUC,
    PROBABILITY_FLOOR,
    SCORES,
    Groups,
    area_under_curve,
    bootstrap,
    log_loss,
    quantiles,
    scores,
)

if TYPE_CHECKING:
    from gauge.reports.evaluation import Chart, EvaluationPage, Grid
    from gauge.tabular.table.rows import Rows

NAMES = {
    "log_loss": "log loss",
    "auc": "AUC",
    "calibration_error": "calibration error",
    "average_precision": "average precision",
}
COVERAGES = (0.8, 0.9, 0.95)  # of the prediction sets that are tried
NORMAL = 1.959964  # quantile of a 95 % interval
MAX_PARTS = 8  # of the rows by one column; numbers are divided at their quartiles
CALIBRATION_PARTS = 10  # of equally many rows
MAX_CURVES = 6  # classes that have one
DIAGONAL = [(0.0, 0.0), (1.0, 1.0)]
OPERATING = ("sensitivity", "specificity", "PPV", "NPV")
PROTOCOLS = "gamma=0.3 (that share of numbers and categories), gamma-per-sample=0.3 or up-to=0.5 (of all columns)"


@dataclass(frozen=True)
class Answered:
    """Labelled rows and what models answer for them, the classifier first. `decided` are the classes that it predicts,
    `observed` says which columns each row has, and `groups` are the numbers of patients or others that rows belong to, of
    which intervals are then made. `positive` is the number of the class that is looked for."""

    models: Mapping[str, np.ndarray]
    labels: np.ndarray
    decided: np.ndarray
    classes: Sequence[Any]
    observed: np.ndarray
    groups: Groups = None
    positive: int | None = None

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


@dataclass(frozen=True)
class Evaluation:
    """What labelled rows say of a classifier.

    Attributes
    ----------
    scores
        A line for each model and metric with its value and a 95 % bootstrap interval.
    confusion
        Rows by label (down) and prediction (across).
    rows
        The number of labelled rows.
    positive, threshold
        The class that is looked for, and from which probability on; None where there are more classes and none is chosen.
    operating
        Sensitivity, specificity, PPV and NPV with 95 % intervals; empty without a positive class.
    subgroups, by_missing
        Scores of the rows by columns that were asked for, and by their number of missing values.
    coverage
        How often prediction sets hold the right class.
    comparison
        The classifier minus another one, with intervals and paired tests.
    facts
        How the model was trained.
    """

    scores: pd.DataFrame
    confusion: pd.DataFrame
    rows: int
    positive: str | None = None
    threshold: Threshold | None = None
    operating: pd.DataFrame = field(default_factory=pd.DataFrame)
    subgroups: pd.DataFrame = field(default_factory=pd.DataFrame)
    by_missing: pd.DataFrame = field(default_factory=pd.DataFrame)
    coverage: pd.DataFrame = field(default_factory=pd.DataFrame)
    comparison: pd.DataFrame = field(default_factory=pd.DataFrame)
    answered: Answered | None = None
    facts: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, metric: str) -> float:
        """The value of a metric for the classifier itself."""
        lines = self.scores[(self.scores["model"] == "classifier") & (self.scores["metric"] == metric)]
        return float(lines["value"].iloc[0])

    def __str__(self) -> str:
        cells = self.scores.assign(
            metric=self.scores["metric"].replace(NAMES),
            text=[_interval(each.value, each.low, each.high) for each in _records(self.scores)],
        )
        lines = cells.pivot(index="model", columns="metric", values="text")
        lines = lines.loc[list(dict.fromkeys(cells["model"])), list(dict.fromkeys(cells["metric"]))]
        table = lines.rename_axis(None).rename_axis(None, axis=1).to_string()
        parts = [f"{self.rows} rows, 95 % intervals", table, f"labels (down), predictions (across)\n{self.confusion}"]
        parts += [
            f"{grid.title}\n{pd.DataFrame(list(grid.lines), columns=list(grid.heads)).to_string(index=False)}"
            for grid in self._tables()
            if grid.lines
        ]
        return "\n\n".join(map(str, parts))

    def to_json(self) -> dict[str, Any]:
        more = {
            name: getattr(self, name).to_dict("records")
            for name in ("operating", "by_missing", "subgroups", "coverage", "comparison")
            if len(getattr(self, name))
        }
        if self.threshold is not None:
            more["threshold"] = {"value": self.threshold.value, "chosen": self.threshold.chosen}
        return {
            "rows": self.rows,
            "scores": self.scores.to_dict("records"),
            "confusion": self.confusion.to_dict("split"),
            "positive": self.positive,
        } | _plain(more)

    def to_html(self, path: str | Path) -> None:
        """Write a page that works offline, with curves, decisions, subgroups and prediction sets."""
        from gauge.reports.evaluation import render_evaluation

        write_text(Path(path), render_evaluation(self._page()))

    def _tables(self) -> "list[Grid]":
        from gauge.reports.evaluation import Grid

        groups = "" if self.answered is None or self.answered.groups is None else " Intervals are made of whole groups."
        tables = [
            Grid(
                f"At the threshold, {self.positive} is positive", "", ("", "value", "rows"), _operating(self.operating)
            ),
            Grid(
                "Against the other model",
                "The classifier minus the other one, on the same rows; p is that of the paired test.",
                ("", "difference", "p", "test"),
                [
                    (each.metric, _interval(each.difference, each.low, each.high, "+"), f"{each.p:.3g}", each.test)
                    for each in _records(self.comparison)
                ],
            ),
            Grid(
                "By number of missing values",
                f"Accuracy is that of the most probable class, without a threshold.{groups}",
                *_parts(self.by_missing.drop(columns="column", errors="ignore")),
            ),
            Grid("By subgroup", f"Small parts have wide intervals.{groups}", *_parts(self.subgroups)),
            Grid(
                "Prediction sets",
                "The classes that a row may have: how often they hold the right one, as promised and here, how many they "
                "are, and how often the answer is right where there is only one.",
                ("promised", "rows", "coverage", "classes", "one class", "right if one", "no class"),
                [
                    (
                        f"{100 * each.promised:.0f} %, {each.part}" if each.part else f"{100 * each.promised:.0f} %",
                        str(each.rows),
                        _interval(each.coverage, each.low, each.high),
                        f"{each.size:.2f}",
                        f"{100 * each.one_class:.0f} %",
                        _number(each.one_class_right),
                        f"{100 * each.no_class:.0f} %",
                    )
                    for each in _records(self.coverage)
                ],
            ),
        ]
        return [table for table in tables if len(table.lines)]

    def _page(self) -> "EvaluationPage":
        from gauge.reports.evaluation import EvaluationPage, Grid

        assert self.answered is not None
        tables = {table.title: table for table in self._tables()}
        own = self.scores[self.scores["model"] == "classifier"]
        figures = {
            str(NAMES.get(each.metric, each.metric)): (f"{each.value:.3f}", f"{each.low:.3f} to {each.high:.3f}")
            for each in _records(own)
            if np.isfinite(each.value)
        }
        names = [str(name) for name in self.confusion]
        confusion = Grid(
            "Confusion matrix",
            "Rows by their label (down) and what was decided (across).",
            ("", *names),
            [(name, *map(str, line)) for name, line in zip(names, self.confusion.to_numpy().tolist(), strict=True)],
        )
        note = "No class was chosen as positive; --positive LABEL adds sensitivity and specificity."
        operating = Grid("Sensitivity and specificity", note, (), ())
        if self.threshold is not None:
            chosen = f"{self.positive} from a probability of {self.threshold.value:.3f} on ({self.threshold.chosen})."
            operating = Grid("Sensitivity and specificity", chosen, ("", "value", "rows"), _operating(self.operating))
        models = self.scores[self.scores["model"] != "classifier"]
        beside = Grid(
            "Beside simpler models",
            "The same rows, by the class shares of training and, where they are among the experts, boosted trees alone.",
            ("", *(NAMES.get(metric, metric) for metric in dict.fromkeys(self.scores["metric"]))),
            [
                (str(name), *(_interval(each.value, each.low, each.high) for each in _records(part)))
                for name, part in models.groupby("model", sort=False)
            ],
        )
        shown = [table for title, table in tables.items() if not title.startswith("At the threshold")]
        counts = np.bincount(self.answered.labels, minlength=len(self.answered.classes))
        shares = ", ".join(f"{count} {label}" for label, count in zip(self.answered.classes, counts, strict=True))
        groups = self.answered.groups
        kinds = "" if groups is None else f", in {len(np.unique(groups))} groups, of which the intervals are made"
        return EvaluationPage(
            title=f"Predicting {self.facts.get('Predicts', 'the label')}, evaluated",
            lead=f"{self.rows} labelled rows: {shares}{kinds}. All intervals are 95 % intervals.",
            figures=figures,
            operating=operating,
            confusion=confusion,
            charts=charts(self.answered, self.threshold),
            tables=[beside, *shown],
            facts=self.facts,
        )


def evaluate(
    answered: Answered,
    *,
    threshold: Threshold | None = None,
    sets: PredictionSets | None = None,
    by: pd.DataFrame | None = None,
    other: np.ndarray | None = None,
    facts: Mapping[str, str] | None = None,
) -> Evaluation:
    """All that these answers say. `threshold` decides about the positive class, `by` are the columns of subgroups, `other`
    the probabilities of another model to compare with."""
    labels, names = answered.labels, [str(label) for label in answered.classes]
    decided, positive = answered.decided, answered.positive
    hits = None
    confusion = _confusion(labels, decided, names)
    if positive is not None:
        p, is_positive = answered.one_class(answered.own)
        hits = decided == positive if threshold is None else p >= threshold.value
        if threshold is not None:
            rest = names[1 - positive] if len(names) == 2 else f"not {names[positive]}"
            confusion = _confusion(is_positive.astype(int), hits.astype(int), [rest, names[positive]])
        elif len(names) == 2:
            threshold = Threshold(_implied(answered), "as the model decides")
    return Evaluation(
        _scores(answered),
        confusion,
        len(labels),
        positive=None if positive is None else names[positive],
        threshold=threshold,
        operating=pd.DataFrame() if hits is None else _operating_point(hits, labels == positive, answered.groups),
        subgroups=_subgroups(answered, {} if by is None else {str(name): _divided(by[name]) for name in by}, hits),
        by_missing=_subgroups(answered, {"": _missing_parts(answered.missing)}, hits),
        coverage=pd.DataFrame() if sets is None else _coverage(answered, sets),
        comparison=pd.DataFrame() if other is None else _compare(answered, other),
        answered=answered,
        facts=facts or {},
    )


def hide(rows: "Rows", protocol: str) -> "Rows":
    """The rows with further values missing, as a protocol says."""
    parsed = parse_protocol(protocol)
    if protocol == "complete":
        return rows
    if not isinstance(parsed, RandomCells | UpTo):
        raise ValueError(f"protocol {protocol} is one of benchmarks; for a classifier of `gauge fit` use {PROTOCOLS}")
    return rows.hide(parsed, 0)


def positive_class(classes: Sequence[Any], wanted: Any) -> int | None:
    """The number of the class that is looked for: by name, the second of two, or none of more."""
    names = {str(label): number for number, label in enumerate(classes)}
    if wanted is None:
        return 1 if len(classes) == 2 else None
    return pick(names, str(wanted), "class")


def _implied(answered: Answered) -> float:
    """The smallest probability of the positive class with which a row is decided so."""
    p, _ = answered.one_class(answered.own)
    chosen = p[answered.decided == answered.positive]
    return float(chosen.min()) if len(chosen) else 1.0


def _scores(answered: Answered) -> pd.DataFrame:
    """A line for each model and metric, all of them from the same resamples."""
    labels, metrics = answered.labels, [*SCORES] + ([] if answered.positive is None else ["average_precision"])
    right = [
        (answered.decided if probabilities is answered.own else probabilities.argmax(1)) == labels
        for probabilities in answered.models.values()
    ]

    def score(rows: np.ndarray) -> np.ndarray:
        values = []
        for probabilities, hits in zip(answered.models.values(), right, strict=True):
            value = scores(probabilities[rows], labels[rows]) | {"accuracy": float(hits[rows].mean())}
            if answered.positive is not None:
                p, is_positive = answered.one_class(probabilities)
                value["average_precision"] = average_precision(p[rows], is_positive[rows])
            values += [value[metric] for metric in metrics]
        return np.array(values)

    low, high = quantiles(bootstrap(score, labels, answered.groups))
    names = [(name, metric) for name in answered.models for metric in metrics]
    lines = zip(names, score(np.arange(len(labels))), low, high, strict=True)
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
    recall, precision = _precision_recall(scores, positive)
    return float((np.diff(recall, prepend=0.0) * precision).sum()) if positive.any() else float("nan")


def _precision_recall(scores: np.ndarray, positive: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Recall and precision at every score as the threshold, from the largest on."""
    order = np.argsort(-scores, kind="stable")
    last = np.flatnonzero(np.diff(scores[order], append=np.nan) != 0)  # of equal scores
    found = np.cumsum(positive[order])[last]
    return found / max(positive.sum(), 1), found / (last + 1)


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


def _operating_point(hits: np.ndarray, positive: np.ndarray, groups: Groups) -> pd.DataFrame:
    """Sensitivity, specificity, PPV and NPV, each with the rows that it counts."""
    among = (positive, ~positive, hits, ~hits)
    right = (hits, ~hits, positive, ~positive)
    lines = []
    for name, rows, truth in zip(OPERATING, among, right, strict=True):
        value, low, high = share_interval(truth[rows], None if groups is None else groups[rows])
        counts = {"right": int(truth[rows].sum()), "of": int(rows.sum())}
        lines.append({"metric": name, "value": value, "low": low, "high": high} | counts)
    return pd.DataFrame(lines)


def _subgroups(answered: Answered, divided: Mapping[str, pd.Categorical], hits: np.ndarray | None) -> pd.DataFrame:
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
        measured = _records(_operating_point(hits, labels == answered.positive, groups))
        line |= {each.metric: (each.value, each.low, each.high) for each in measured[:2]}
    return line | {"log_loss": log_loss(probabilities, labels)}


def _divided(column: pd.Series) -> pd.Categorical:
    """The part of each row by one column: its value, the quarter of its numbers, or that it is missing."""
    if pd.api.types.is_numeric_dtype(column) and column.nunique() > MAX_PARTS:
        quarters = pd.qcut(column, 4, duplicates="drop")
        spans: Any = quarters.cat.categories
        names = [f"{span.left:g} to {span.right:g}" for span in spans]
        codes = quarters.cat.codes.to_numpy(int)
    else:
        texts = column.astype(str)
        frequent = texts[column.notna()].value_counts().index[:MAX_PARTS]
        names = [*sorted(frequent), "others"]
        codes = np.where(column.isna(), -1, pd.Index(names[:-1]).get_indexer(pd.Index(texts)))
        codes = np.where((codes < 0) & column.notna(), len(names) - 1, codes)
    return _categorical(np.where(codes < 0, len(names), codes), [*names, "missing"])


def _missing_parts(missing: np.ndarray) -> pd.Categorical:
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


def _coverage(answered: Answered, sets: PredictionSets) -> pd.DataFrame:
    """How often prediction sets hold the label, for all rows and, at 90 %, by number of missing values."""
    lines, parts = [], _missing_parts(answered.missing)
    for promised in COVERAGES:
        held = sets.contains(answered.own, answered.observed, promised)
        covered, size = held[np.arange(len(held)), answered.labels], held.sum(1)
        shown = {"": np.arange(len(held))}
        if promised == COVERAGES[1]:
            shown |= {f"{name} missing": rows for name, rows in _rows_of(parts).items()}
        for name, rows in shown.items():
            groups = None if answered.groups is None else answered.groups[rows]
            value, low, high = share_interval(covered[rows], groups)
            one = size[rows] == 1
            line = {"promised": promised, "part": name, "rows": len(rows), "coverage": value, "low": low, "high": high}
            line |= {"size": float(size[rows].mean()), "one_class": float(one.mean())}
            line["one_class_right"] = float(covered[rows][one].mean()) if one.any() else float("nan")
            lines.append(line | {"no_class": float((size[rows] == 0).mean())})
    return pd.DataFrame(lines)


def _compare(answered: Answered, other: np.ndarray) -> pd.DataFrame:
    """The classifier minus another one: accuracy, AUC and log loss with intervals and paired tests."""
    own, labels, groups = answered.own, answered.labels, answered.groups
    metrics = {"accuracy": ACCURACY} | ({"auc": AUC} if len(np.unique(labels)) > 1 else {})
    lines = []
    for name, metric in metrics.items():
        found = metric.compare(other, own, labels, groups)
        line = {"metric": NAMES.get(name, name), "difference": found.difference, "low": found.interval[0]}
        lines.append(line | {"high": found.interval[1], "p": found.p_value, "test": found.test})
    losses = [-np.log(each[np.arange(len(labels)), labels].clip(PROBABILITY_FLOOR)) for each in (own, other)]
    change = losses[0] - losses[1]
    low, high = quantiles(bootstrap(lambda rows: change[rows].mean(), labels, groups))
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


def charts(answered: Answered, threshold: Threshold | None) -> "list[Chart]":
    """ROC, precision and recall, calibration and, for a positive class, the decision curve."""
    from gauge.reports.evaluation import Chart, Line

    own, labels = answered.own, answered.labels
    if answered.positive is not None:
        shown = {f"{answered.classes[answered.positive]}": answered.one_class(own)}
    else:
        frequent = np.argsort(-np.bincount(labels, minlength=len(answered.classes)), kind="stable")[:MAX_CURVES]
        shown = {str(answered.classes[number]): (own[:, number], labels == number) for number in frequent}
    shown = {name: pair for name, pair in shown.items() if 0 < pair[1].sum() < len(labels)}
    rocs: list[Line] = []
    precisions: list[Line] = []
    for name, (p, is_positive) in shown.items():
        recall, precision = _precision_recall(p, is_positive)
        false = _precision_recall(p, ~is_positive)[0]
        area = area_under_curve(np.stack([1 - p, p], 1), is_positive.astype(int))
        style: Literal["main", "second"] = "main" if not rocs else "second"
        rocs.append(Line(f"{name}: AUC {area:.3f}", [(0.0, 0.0), *zip(false, recall, strict=True)], style))
        points = list(zip(recall, precision, strict=True))
        precisions.append(Line(f"{name}: average precision {average_precision(p, is_positive):.3f}", points, style))
    rocs.append(Line("chance", DIAGONAL, "reference"))
    if answered.positive is not None and shown:
        share = float((labels == answered.positive).mean())
        precisions.append(Line(f"chance: {share:.2f}", [(0.0, share), (1.0, share)], "reference"))
    result = [
        Chart("ROC curve", "The further up and left, the better.", "1 - specificity", "sensitivity", rocs),
        Chart(
            "Precision and recall",
            "How many of those found are right, as more are found.",
            "recall",
            "precision",
            precisions,
        ),
        _calibration(answered),
    ]
    return [*result, _decision_curve(answered, threshold)] if answered.positive is not None else result


def _calibration(answered: Answered) -> "Chart":
    from gauge.reports.evaluation import Chart, Line

    if answered.positive is not None:
        p, right = answered.one_class(answered.own)
        x, y = f"probability of {answered.classes[answered.positive]}", "share that has it"
    else:
        p, right = answered.own.max(1), answered.own.argmax(1) == answered.labels
        x, y = "probability of the predicted class", "share that is right"
    order = np.argsort(p, kind="stable")
    points, spans = [], []
    for rows in np.array_split(order, min(CALIBRATION_PARTS, len(order))):
        share, low, high = share_interval(right[rows])
        points.append((float(p[rows].mean()), share))
        spans.append((low, high))
    lines = [
        Line("rows in ten parts, 95 % intervals", points, "main", spans),
        Line("exact", DIAGONAL, "reference"),
    ]
    return Chart("Calibration", "On the dotted line, probabilities are what they say.", x, y, lines)


def _decision_curve(answered: Answered, threshold: Threshold | None) -> "Chart":
    from gauge.reports.evaluation import Chart, Line

    p, is_positive = answered.one_class(answered.own)
    share, steps = float(is_positive.mean()), np.arange(1, 100) / 100
    odds = steps / (1 - steps)
    model = [
        float((p[is_positive] >= t).sum() - weight * (p[~is_positive] >= t).sum()) / len(p)
        for t, weight in zip(steps, odds, strict=True)
    ]
    lines = [
        Line("by the model", list(zip(steps.tolist(), model, strict=True))),
        Line("all", list(zip(steps.tolist(), (share - (1 - share) * odds).tolist(), strict=True)), "second"),
        Line("none", [(0.0, 0.0), (1.0, 0.0)], "reference"),
    ]
    note = "Net benefit of treating rows from this probability on; useful where it is above both other lines."
    if threshold is not None:
        note += f" The threshold used is {threshold.value:.3f}."
    top = float(np.ceil(max(share, *model, 0.01) / 0.06) * 0.06)  # so that zero and all ticks have two digits
    return Chart("Decision curve", note, "threshold", "net benefit", lines, ((0.0, 1.0), (-top / 3, top)))


def _confusion(labels: np.ndarray, decided: np.ndarray, names: Sequence[str]) -> pd.DataFrame:
    counts = np.zeros((len(names), len(names)), int)
    np.add.at(counts, (labels, decided), 1)
    return pd.DataFrame(counts, list(names), list(names))


def _operating(measured: pd.DataFrame) -> list[tuple[str, str, str]]:
    return [
        (each.metric, _interval(each.value, each.low, each.high), f"{each.right} of {each.of}")
        for each in _records(measured)
    ]


def _parts(lines: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Heads and cells of the table of some parts of the rows."""
    if not len(lines):
        return [], []
    if "column" in lines:
        lines = lines.assign(part=lines["column"] + ": " + lines["part"]).drop(columns="column")
    heads = ["", *(NAMES.get(name, name) for name in lines.columns[1:])]
    cells = [[_cell(value) for value in line] for line in lines.itertuples(index=False)]
    return heads, cells


def _records(frame: pd.DataFrame) -> list[Any]:
    """The lines of a table, with a name for each cell."""
    return [SimpleNamespace(**{str(name): value for name, value in line.items()}) for line in frame.to_dict("records")]


def _cell(value: Any) -> str:
    return _interval(*value) if isinstance(value, tuple) else _number(value) if isinstance(value, float) else str(value)


def _number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.3f}"


def _interval(value: float, low: float, high: float, sign: str = "") -> str:
    if np.isnan(value):
        return "–"
    return f"{value:{sign}.3f}" + ("" if np.isnan(low) else f" [{low:{sign}.3f}, {high:{sign}.3f}]")


def _plain(value: Any) -> Any:
    """The same value with None for NaN, which JSON lacks."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and np.isnan(value) else value


def label_numbers(classes: np.ndarray, values: pd.Series) -> np.ndarray:
    """Labels as positions in `classes`; -1 where one is missing, with a warning."""
    if not len(values):
        raise ValueError("the table has no rows; give some to evaluate")
    numbers, known = class_positions(classes, values), has_label(values)
    if not known.all():
        report_unlabelled(known, values.index)
    unknown = np.flatnonzero(known & (numbers < 0))
    if len(unknown):
        label = values.iloc[unknown].tolist()[0]
        raise ValueError(
            f"the label of row {unknown[0]} is {label!r} ({len(unknown)} such in all), which training never saw; "
            f"the classes are {classes.tolist()[:20]}: leave such rows out"
        )
    return numbers


def shown_labels(classes: np.ndarray, labels: pd.Series) -> list[str | None]:
    """Labels in the words of `classes`, others as they are written; None where they are missing."""
    cells = zip(labels, class_positions(classes, labels), has_label(labels), strict=True)
    return [str(classes[position] if position >= 0 else label) if known else None for label, position, known in cells]
