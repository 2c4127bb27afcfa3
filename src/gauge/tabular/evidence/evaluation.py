"""Evaluation of a fitted classifier on labelled rows, with intervals, beside class shares and boosted trees.

For two classes, or one class against all others (`positive`), also curves and decisions at a threshold:

sensitivity, specificity   the shares of positive and of negative rows that are decided rightly
PPV, NPV                   the shares of rows decided as positive and as negative that are
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import pandas as pd

from gauge.choices import pick
from gauge.data.files import write_text
from gauge.masks import RandomCells, UpTo, parse_protocol
from gauge.reports import evaluation as reports
from gauge.tabular.evidence.curves import charts
from gauge.tabular.evidence.measures import (
    EvaluatedRows,
    compare,
    coverage_table,
    divided,
    missing_parts,
    operating_point,
    score_table,
    subgroups,
)
from gauge.tabular.evidence.thresholds import HeldOut, Threshold, positive_share
from gauge.tabular.saved.classifier import TableClassifier
from gauge.tabular.saved.prediction_sets import PredictionSets
from gauge.tabular.table.inputs import class_positions, has_label, report_unlabelled
from gauge.tabular.table.rows import Rows
from gauge.training.metrics import log_losses


class Choices(TypedDict, total=False):
    """What an evaluation may be asked for; see `GaugeClassifier.evaluate`."""

    threshold: str | float | None
    positive: Any
    by: Sequence[str]
    groups: Any
    against: TableClassifier | None
    protocol: str | None


@dataclass(frozen=True, eq=False)
class Evaluation(Mapping[str, float]):
    """What labelled rows say of a classifier: a mapping from metrics to the values of the classifier, and more.

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
        A sentence, if the rows are predicted better than chance allows for rows that training did not see.
    predictions
        The labelled rows and the probabilities of all models for them.
    facts
        How the model was trained.

    Examples
    --------
    >>> from gauge import GaugeClassifier
    >>> table = pd.DataFrame({"age": [20.0, 70, 30, 65] * 20, "ill": [0, 1, 0, 1] * 20})
    >>> evaluation = GaugeClassifier(experts="linear", random_state=0, verbose=False).fit(table, "ill").evaluate(table)
    >>> evaluation["accuracy"], evaluation.confusion.values.tolist()
    (1.0, [[40, 0], [0, 40]])
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
    predictions: EvaluatedRows | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    doubt: str = ""

    def __getitem__(self, metric: str) -> float:
        """The value of a metric for the classifier itself."""
        return float(pick(self._own, metric, "metric"))

    def __iter__(self) -> Iterator[str]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)

    @property
    def _own(self) -> dict[str, float]:
        own = self.scores[self.scores["model"] == "classifier"]
        return dict(zip(own["metric"], own["value"], strict=True))

    def __str__(self) -> str:
        grid = reports.score_grid(self.scores)
        table = pd.DataFrame([line[1:] for line in grid.lines], columns=list(grid.heads[1:]))
        table.index = pd.Index([line[0] for line in grid.lines])
        parts = [f"{self.rows} rows, 95 % intervals", *([self.doubt] if self.doubt else []), table.to_string()]
        return "\n\n".join([*parts, *map(str, (self.confusion_grid, *self._tables().values()))])

    def to_json(self) -> dict[str, Any]:
        more = {
            name: getattr(self, name).to_dict("records")
            for name in ("operating", "by_missing", "subgroups", "coverage", "comparison")
            if len(getattr(self, name))
        }
        if self.threshold is not None:
            more["threshold"] = {"value": self.threshold.value, "chosen": self.threshold.chosen}
        more |= {"scores": self.scores.to_dict("records"), "confusion": self.confusion.to_dict("split")}
        return _plain({"rows": self.rows, "positive": self.positive, **more})

    def to_html(self, path: str | Path) -> None:
        """Write a page that works offline, with curves, decisions, subgroups and prediction sets.

        Parameters
        ----------
        path
            Of the page, an HTML file.

        Examples
        --------
        >>> evaluation.to_html("report.html")
        """
        assert self.predictions is not None
        rows, tables = self.predictions, self._tables()
        own = self.scores[(self.scores["model"] == "classifier") & np.isfinite(self.scores["value"])]
        note = "No class was chosen as positive; --positive LABEL adds sensitivity and specificity."
        operating = tables.pop("operating", reports.TextTable("Sensitivity and specificity", note, (), ()))
        shares = reports.class_counts(rows.classes, np.bincount(rows.labels, minlength=len(rows.classes)).tolist())
        if rows.groups is not None:
            shares += f", in {len(np.unique(rows.groups))} groups, of which the intervals are made"
        page = reports.EvaluationPage(
            title=f"Predicting {self.facts.get('Predicts', 'the label')}, evaluated",
            lead=f"{self.rows} labelled rows: {shares}. All intervals are 95 % intervals.",
            caution=self.doubt,
            figures={
                reports.metric_name(metric): (f"{value:.3f}", "" if np.isnan(low) else f"{low:.3f} to {high:.3f}")
                for _, metric, value, low, high in own.itertuples(index=False)
            },
            operating=operating,
            confusion=self.confusion_grid,
            charts=charts(rows, self.threshold),
            tables=[reports.score_grid(self.scores), *tables.values()],
            facts=self.facts,
        )
        write_text(Path(path), reports.render_evaluation(page))

    @property
    def confusion_grid(self) -> reports.TextTable:
        return reports.confusion_grid(self.confusion, "" if self.threshold is None else ", at the threshold")

    @property
    def _promised(self) -> Sequence[str] | None:
        """The name and the value of what the rule of the threshold promises."""
        rule = "" if self.threshold is None else self.threshold.chosen
        match = re.match(r"\s*(sensitivity|specificity)\s*=\s*(\S+)", rule)
        return None if match is None else match.groups()

    def _tables(self) -> dict[str, reports.TextTable]:
        """Return the other tables to show, by what they are made of, where that was measured."""
        grouped = self.predictions is not None and self.predictions.groups is not None
        groups = " Intervals are made of whole groups." if grouped else ""
        chosen, by_missing, parts = "", self.by_missing.drop(columns="column", errors="ignore"), self.subgroups
        if self.threshold is not None:
            two = self.predictions is None or len(self.predictions.classes) == 2
            share = "probability" if two else "share beside the most probable other class"
            chosen = f"{self.positive} from a {share} of {self.threshold.value:.3g} on ({self.threshold.chosen})."
        if len(parts):
            parts = parts.assign(part=parts["column"] + ": " + parts["part"]).drop(columns="column")
        missing_note = f"Accuracy is that of the predicted class, whatever the threshold of this report.{groups}"
        tables = {
            "operating": reports.operating_grid(self.operating, self.positive, chosen, self._promised),
            "comparison": reports.comparison_grid(self.comparison),
            "by_missing": reports.parts_grid("By number of missing values", missing_note, by_missing),
            "subgroups": reports.parts_grid("By subgroup", f"Small parts have wide intervals.{groups}", parts),
            "coverage": reports.coverage_grid(self.coverage),
        }
        return {name: table for name, table in tables.items() if table.lines}


def evaluate(
    predictions: EvaluatedRows,
    *,
    threshold: Threshold | None = None,
    sets: PredictionSets | None = None,
    by: pd.DataFrame | None = None,
    other: np.ndarray | None = None,
    held_out: HeldOut | None = None,
    leaderboard: pd.DataFrame | None = None,
    facts: Mapping[str, str] | None = None,
) -> Evaluation:
    """Return all that these predictions say. `threshold` decides about the positive class, `by` are the columns of
    subgroups, `other` the probabilities of another model to compare with, `held_out` the predictions for rows held out from
    training, and the `leaderboard` has the log loss of the models there."""
    labels, names = predictions.labels, [str(label) for label in predictions.classes]
    decided, positive = predictions.decided, predictions.positive
    hits = None
    confusion = _confusion(labels, decided, names)
    if positive is not None:
        hits = decided == positive
        if threshold is not None:
            hits = positive_share(predictions.own, positive) >= threshold.value
            rest = names[1 - positive] if len(names) == 2 else f"not {names[positive]}"
            confusion = _confusion((labels == positive).astype(int), hits.astype(int), [rest, names[positive]])
        elif len(names) == 2:
            weights = predictions.class_weight  # from this probability on the positive class of two outweighs the other
            threshold = Threshold(float(weights[1 - positive] / sum(weights)), "as the model decides")
    return Evaluation(
        score_table(predictions),
        confusion,
        len(labels),
        positive=None if positive is None else names[positive],
        threshold=threshold,
        operating=pd.DataFrame() if hits is None else operating_point(hits, labels == positive, predictions.groups),
        subgroups=subgroups(predictions, {} if by is None else {str(name): divided(by[name]) for name in by}, hits),
        by_missing=subgroups(predictions, {"": missing_parts(predictions.missing)}, hits),
        coverage=pd.DataFrame() if sets is None else coverage_table(predictions, sets),
        comparison=pd.DataFrame() if other is None else compare(predictions, other),
        predictions=predictions,
        facts=facts or {},
        doubt="" if held_out is None or leaderboard is None else _doubt(predictions, held_out, leaderboard),
    )


def _doubt(predictions: EvaluatedRows, held_out: HeldOut, leaderboard: pd.DataFrame) -> str:
    """Return a sentence if the log loss of a model is smaller than that of rows held out from training, beyond chance. Trees
    are the best at telling rows that they have learned from."""
    before = log_losses(held_out.probabilities, held_out.labels)
    names = {"combined": "classifier", "trees": "boosted trees"}
    for expert, loss in zip(leaderboard["expert"], leaderboard["log_loss"], strict=True):
        name = names.get(expert)
        if name is None:
            continue
        here = log_losses(predictions.models[name], predictions.labels)
        error = max(before.std(), here.std()) * (1 / len(here) + 1 / len(before)) ** 0.5
        if loss - here.mean() > max(4 * error, 0.1 * loss):  # four standard errors, and a tenth
            return (
                f"Did training see these rows? The log loss of the {name} is {here.mean():.3f} here, and was {loss:.3f} on "
                "rows held out from training; scores on rows that were learned from are too good."
            )
    return ""


def hide(rows: Rows, protocol: str | None) -> Rows:
    """Return the rows with further values missing, as a protocol says."""
    if protocol is None or protocol == "complete":
        return rows
    parsed = parse_protocol(protocol)
    if not isinstance(parsed, RandomCells | UpTo):
        raise ValueError(
            f"protocol {protocol} is one of benchmarks; for a classifier of `gauge fit` use gamma=0.3 (that share of "
            "numbers and categories), gamma-per-sample=0.3 or up-to=0.5 (of all columns)"
        )
    return rows.hide(parsed, 0)


def others(model: TableClassifier, rows: Any, classes: Sequence[Any], protocol: str | None) -> np.ndarray:
    """Return the probabilities of another model for rows, in the order of these classes."""
    if protocol is not None:
        raise ValueError("the same cells cannot be hidden from both models; compare them without a protocol")
    names, own = model.classes.astype(str).tolist(), [str(label) for label in classes]
    if sorted(names) != sorted(own):
        raise ValueError(f"the other model has the classes {names[:20]}, this one {own[:20]}; give one with the same")
    return model.predict_proba(rows)[:, [names.index(name) for name in own]]


def positive_class(classes: Sequence[Any], wanted: Any, threshold: Any) -> int | None:
    """Return the number of the class that is looked for: by name in any writing, the second of two, or none of more, where a
    threshold is an error."""
    names = {str(label): number for number, label in enumerate(classes)}
    if wanted is None and len(classes) != 2 and threshold is not None:
        raise ValueError(f"a threshold needs one class to look for; choose one of {list(classes)[:20]}")
    if wanted is None:
        return 1 if len(classes) == 2 else None
    position = int(class_positions(classes, pd.Series([wanted], dtype=object))[0])
    return position if position >= 0 else pick(names, str(wanted), "class")


def _confusion(labels: np.ndarray, decided: np.ndarray, names: Sequence[str]) -> pd.DataFrame:
    counts = np.zeros((len(names), len(names)), int)
    np.add.at(counts, (labels, decided), 1)
    return pd.DataFrame(counts, list(names), list(names))


def _plain(value: Any) -> Any:
    """Return the same value with None for NaN, which JSON lacks."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and np.isnan(value) else value


def label_numbers(classes: np.ndarray, values: pd.Series) -> np.ndarray:
    """Return labels as positions in `classes`; -1 where one is missing, with a warning."""
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
            f"the classes are {classes.tolist()[:20]}: write labels as in training, or leave such rows out"
        )
    return numbers


def shown_labels(classes: np.ndarray, labels: pd.Series) -> list[str | None]:
    """Return labels in the words of `classes`, others as they are written; None where they are missing."""
    cells = zip(labels, class_positions(classes, labels), has_label(labels), strict=True)
    return [str(classes[position] if position >= 0 else label) if known else None for label, position, known in cells]
