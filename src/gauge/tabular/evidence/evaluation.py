"""Evaluation of a fitted classifier on labelled rows, with intervals, beside class shares and boosted trees.

For two classes, or one class against all others (`positive`), also curves and decisions at a threshold:

sensitivity, specificity   the shares of positive and of negative rows that are decided rightly
PPV, NPV                   the shares of rows decided as positive and as negative that are
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import pandas as pd

from gauge.choices import pick
from gauge.masks import RandomCells, UpTo, parse_protocol
from gauge.tabular.classifier import TableClassifier
from gauge.tabular.evidence.measures import (
    NAMES,
    Answered,
    compare,
    coverage_table,
    divided,
    missing_parts,
    operating_point,
    records,
    score_table,
    subgroups,
)
from gauge.tabular.evidence.thresholds import HeldOut, Threshold
from gauge.tabular.prediction_sets import PredictionSets
from gauge.tabular.table.inputs import class_positions, has_label, report_unlabelled
from gauge.tabular.table.rows import Rows
from gauge.training.checkpoint import write_text
from gauge.training.metrics import PROBABILITY_FLOOR

if TYPE_CHECKING:
    from gauge.reports.evaluation import EvaluationPage, Grid

MAX_SHOWN_CLASSES = 12  # of a confusion matrix; of more classes the most frequent confusions are listed
MAX_CONFUSIONS = 10
LINES = {"combined": "classifier", "trees": "boosted trees"}  # of the leaderboard, and what they are called here
# how much smaller the log loss is than that of rows held out, to ask whether training saw these rows
MIN_STANDARD_ERRORS, MIN_IMPROVEMENT = 4.0, 0.1
PROTOCOLS = "gamma=0.3 (that share of numbers and categories), gamma-per-sample=0.3 or up-to=0.5 (of all columns)"


class Choices(TypedDict, total=False):
    """What an evaluation may be asked for; see `GaugeClassifier.evaluate`."""

    threshold: str | float | None
    positive: Any
    by: Sequence[str]
    groups: Any
    against: TableClassifier | None
    protocol: str | None


@dataclass(frozen=True)
class Evaluation:
    """What labelled rows say of a classifier.

    Attributes
    ----------
    scores
        A line for each model and metric with its value and a 95 % interval: Wilson's of the accuracy, bootstrap intervals
        of the others.
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
    doubt
        A sentence, if the rows are answered better than chance allows for rows that training did not see.
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
    doubt: str = ""

    def __getitem__(self, metric: str) -> float:
        """The value of a metric for the classifier itself."""
        lines = self.scores[(self.scores["model"] == "classifier") & (self.scores["metric"] == metric)]
        return float(lines["value"].iloc[0])

    def __str__(self) -> str:
        cells = self.scores.assign(
            metric=self.scores["metric"].replace(NAMES),
            text=[_interval(each.value, each.low, each.high) for each in records(self.scores)],
        )
        lines = cells.pivot(index="model", columns="metric", values="text")
        lines = lines.loc[list(dict.fromkeys(cells["model"])), list(dict.fromkeys(cells["metric"]))]
        table = lines.rename_axis(None).rename_axis(None, axis=1).to_string()
        parts = [f"{self.rows} rows, 95 % intervals", *([self.doubt] if self.doubt else []), table]
        parts += [_text(grid) for grid in (self._confusion(), *self._tables()) if grid.lines]
        return "\n\n".join(parts)

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
        chosen = ""
        if self.threshold is not None:
            chosen = f"{self.positive} from a probability of {self.threshold.value:.3g} on ({self.threshold.chosen})."
        tables = [
            Grid("Sensitivity and specificity", chosen, ("", "value", "rows"), _operating(self.operating)),
            Grid(
                "Against the other model",
                "The classifier minus the other one, on the same rows; p is that of the paired test.",
                ("", "difference", "p", "test"),
                [
                    (each.metric, _interval(each.difference, each.low, each.high, "+"), f"{each.p:.3g}", each.test)
                    for each in records(self.comparison)
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
                    for each in records(self.coverage)
                ],
            ),
        ]
        return [table for table in tables if len(table.lines)]

    def _confusion(self) -> "Grid":
        """Rows by label and decision, all of them or the most frequent mistakes."""
        from gauge.reports.evaluation import Grid

        at = "" if self.threshold is None else ", at the threshold"
        names, counts = [str(name) for name in self.confusion], self.confusion.to_numpy()
        if len(names) <= MAX_SHOWN_CLASSES:
            lines = [(name, *map(str, line)) for name, line in zip(names, counts.tolist(), strict=True)]
            return Grid(
                "Confusion matrix",
                f"Rows by their label (down) and what was decided (across){at}.",
                ("", *names),
                lines,
            )
        wrong = np.where(np.eye(len(names), dtype=bool), 0, counts)
        order = [
            divmod(int(index), len(names)) for index in np.argsort(-wrong, axis=None, kind="stable")[:MAX_CONFUSIONS]
        ]
        lines = [
            (names[label], names[decided], str(wrong[label, decided]))
            for label, decided in order
            if wrong[label, decided]
        ]
        note = f"{wrong.sum()} of {counts.sum()} rows are decided wrongly, of {len(names)} classes."
        return Grid("Most frequent confusions", note, ("label", "decided as", "rows"), lines)

    def _page(self) -> "EvaluationPage":
        from gauge.reports.evaluation import EvaluationPage, Grid
        from gauge.tabular.evidence.curves import charts

        assert self.answered is not None
        tables = {table.title: table for table in self._tables()}
        own = self.scores[self.scores["model"] == "classifier"]
        figures = {
            str(NAMES.get(each.metric, each.metric)): (f"{each.value:.3f}", f"{each.low:.3f} to {each.high:.3f}")
            for each in records(own)
            if np.isfinite(each.value)
        }
        note = "No class was chosen as positive; --positive LABEL adds sensitivity and specificity."
        operating = tables.pop("Sensitivity and specificity", Grid("Sensitivity and specificity", note, (), ()))
        beside = Grid(
            "Beside simpler models",
            "The same rows, by the class shares of training and, where they are among the experts, boosted trees alone.",
            ("", *(NAMES.get(metric, metric) for metric in dict.fromkeys(self.scores["metric"]))),
            [
                (str(name), *(_interval(each.value, each.low, each.high) for each in records(part)))
                for name, part in self.scores.groupby("model", sort=False)
            ],
        )
        counts = np.bincount(self.answered.labels, minlength=len(self.answered.classes))
        shares = ", ".join(f"{count} {label}" for label, count in zip(self.answered.classes, counts, strict=True))
        if len(counts) > MAX_SHOWN_CLASSES:
            shares = f"{len(counts)} classes with {counts.min()} to {counts.max()} rows each"
        groups = self.answered.groups
        kinds = "" if groups is None else f", in {len(np.unique(groups))} groups, of which the intervals are made"
        return EvaluationPage(
            title=f"Predicting {self.facts.get('Predicts', 'the label')}, evaluated",
            lead=f"{self.rows} labelled rows: {shares}{kinds}. All intervals are 95 % intervals.",
            caution=self.doubt,
            figures=figures,
            operating=operating,
            confusion=self._confusion(),
            charts=charts(self.answered, self.threshold),
            tables=[beside, *tables.values()],
            facts=self.facts,
        )


def evaluate(
    answered: Answered,
    *,
    threshold: Threshold | None = None,
    sets: PredictionSets | None = None,
    by: pd.DataFrame | None = None,
    other: np.ndarray | None = None,
    held_out: HeldOut | None = None,
    leaderboard: pd.DataFrame | None = None,
    facts: Mapping[str, str] | None = None,
) -> Evaluation:
    """All that these answers say. `threshold` decides about the positive class, `by` are the columns of subgroups, `other`
    the probabilities of another model to compare with, `held_out` the answers for rows held out from training, and the
    `leaderboard` has the log loss of the models there."""
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
        score_table(answered),
        confusion,
        len(labels),
        positive=None if positive is None else names[positive],
        threshold=threshold,
        operating=pd.DataFrame() if hits is None else operating_point(hits, labels == positive, answered.groups),
        subgroups=subgroups(answered, {} if by is None else {str(name): divided(by[name]) for name in by}, hits),
        by_missing=subgroups(answered, {"": missing_parts(answered.missing)}, hits),
        coverage=pd.DataFrame() if sets is None else coverage_table(answered, sets),
        comparison=pd.DataFrame() if other is None else compare(answered, other),
        answered=answered,
        facts=facts or {},
        doubt="" if held_out is None or leaderboard is None else _doubt(answered, held_out, leaderboard),
    )


def _doubt(answered: Answered, held_out: HeldOut, leaderboard: pd.DataFrame) -> str:
    """That the log loss of a model is smaller than that of rows held out from training, beyond chance; empty if it is not.
    Trees tell rows that they have learned from best."""
    before = _losses(held_out.probabilities, held_out.labels)
    losses = leaderboard.set_index("expert")["log_loss"].rename(index=LINES)
    for name, loss in losses[losses.index.isin(LINES.values())].items():
        here = _losses(answered.models[str(name)], answered.labels)
        error = max(before.std(), here.std()) * (1 / len(here) + 1 / len(before)) ** 0.5
        if loss - here.mean() > max(MIN_STANDARD_ERRORS * error, MIN_IMPROVEMENT * loss):
            return (
                f"Did training see these rows? The log loss of the {name} is {here.mean():.3f} here, and was {loss:.3f} on "
                "rows held out from training; scores on rows that were learned from are too good."
            )
    return ""


def _losses(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return -np.log(probabilities[np.arange(len(labels)), labels].clip(PROBABILITY_FLOOR))


def _text(grid: "Grid") -> str:
    """A table for the terminal."""
    table = pd.DataFrame(list(grid.lines), columns=list(grid.heads)).to_string(index=False)
    return f"{grid.title}{': ' if grid.note else ''}{grid.note}\n{table}"


def hide(rows: Rows, protocol: str | None) -> Rows:
    """The rows with further values missing, as a protocol says."""
    if protocol is None or protocol == "complete":
        return rows
    parsed = parse_protocol(protocol)
    if not isinstance(parsed, RandomCells | UpTo):
        raise ValueError(f"protocol {protocol} is one of benchmarks; for a classifier of `gauge fit` use {PROTOCOLS}")
    return rows.hide(parsed, 0)


def others(model: TableClassifier, rows: Any, classes: Sequence[Any], protocol: str | None) -> np.ndarray:
    """What another model answers for rows, in the order of these classes."""
    if protocol is not None:
        raise ValueError("the same cells cannot be hidden from both models; compare them without a protocol")
    names, own = model.classes.astype(str).tolist(), [str(label) for label in classes]
    if sorted(names) != sorted(own):
        raise ValueError(f"the other model has the classes {names[:20]}, this one {own[:20]}; give one with the same")
    return model.predict_proba(rows)[:, [names.index(name) for name in own]]


def positive_class(classes: Sequence[Any], wanted: Any, threshold: Any) -> int | None:
    """The number of the class that is looked for: by name, the second of two, or none of more, where a threshold is an
    error."""
    names = {str(label): number for number, label in enumerate(classes)}
    if wanted is None and len(classes) != 2 and threshold is not None:
        raise ValueError(f"a threshold needs one class to look for; choose one of {list(classes)[:20]}")
    if wanted is None:
        return 1 if len(classes) == 2 else None
    return pick(names, str(wanted), "class")


def _implied(answered: Answered) -> float:
    """The probability of the positive class, of two, from which on a row is decided so."""
    assert answered.positive is not None
    weights = answered.class_weight
    return float(weights[1 - answered.positive] / sum(weights))


def _confusion(labels: np.ndarray, decided: np.ndarray, names: Sequence[str]) -> pd.DataFrame:
    counts = np.zeros((len(names), len(names)), int)
    np.add.at(counts, (labels, decided), 1)
    return pd.DataFrame(counts, list(names), list(names))


def _operating(measured: pd.DataFrame) -> list[tuple[str, str, str]]:
    return [
        (each.metric, _interval(each.value, each.low, each.high), f"{each.right} of {each.of}")
        for each in records(measured)
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
