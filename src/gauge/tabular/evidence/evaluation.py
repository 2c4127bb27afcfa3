"""Evaluation of a fitted classifier on labelled rows, with intervals, beside class shares and boosted trees."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from gauge.tabular.table.inputs import class_positions, has_label, report_unlabelled
from gauge.training.metrics import SCORES, bootstrap, quantiles, scores

NAMES = {"log_loss": "log loss", "auc": "AUC", "calibration_error": "calibration error"}


@dataclass(frozen=True)
class Evaluation:
    """`scores` has a line for each model and metric with its value and a 95 % bootstrap interval; `confusion` counts rows
    by label (down) and prediction (across)."""

    scores: pd.DataFrame
    confusion: pd.DataFrame
    rows: int

    def __getitem__(self, metric: str) -> float:
        """The value of a metric for the classifier itself."""
        lines = self.scores[(self.scores["model"] == "classifier") & (self.scores["metric"] == metric)]
        return float(lines["value"].iloc[0])

    def __str__(self) -> str:
        cells = self.scores.assign(
            metric=self.scores["metric"].replace(NAMES),
            text=[f"{each.value:.3f} [{each.low:.3f}, {each.high:.3f}]" for each in self.scores.itertuples()],
        )
        lines = cells.pivot(index="model", columns="metric", values="text")
        lines = lines.loc[list(dict.fromkeys(cells["model"])), list(dict.fromkeys(cells["metric"]))]
        table = lines.rename_axis(None).rename_axis(None, axis=1).to_string()
        parts = (f"{self.rows} rows, 95 % intervals", table, f"labels (down), predictions (across)\n{self.confusion}")
        return "\n\n".join(map(str, parts))

    def to_json(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "scores": self.scores.to_dict("records"),
            "confusion": self.confusion.to_dict("split"),
        }


def evaluate(
    models: Mapping[str, np.ndarray], labels: np.ndarray, decided: np.ndarray, classes: Sequence[Any]
) -> Evaluation:
    """Scores of the probabilities of each model, the classifier first; `decided` are the classes it predicts, and what its
    accuracy counts."""
    lines = []
    for number, (name, probabilities) in enumerate(models.items()):
        predicted = decided if number == 0 else probabilities.argmax(1)

        def score(rows: np.ndarray, given: np.ndarray = probabilities, chosen: np.ndarray = predicted) -> np.ndarray:
            values = scores(given[rows], labels[rows]) | {"accuracy": float((chosen[rows] == labels[rows]).mean())}
            return np.array([values[metric] for metric in SCORES])

        low, high = quantiles(bootstrap(score, labels))
        values = score(np.arange(len(labels)))
        lines += [
            {"model": name, "metric": metric, "value": value, "low": below, "high": above}
            for metric, value, below, above in zip(SCORES, values, low, high, strict=True)
        ]
    counts = np.zeros((len(classes), len(classes)), int)
    np.add.at(counts, (labels, decided), 1)
    names = [str(label) for label in classes]
    return Evaluation(pd.DataFrame(lines), pd.DataFrame(counts, names, names), len(labels))


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
