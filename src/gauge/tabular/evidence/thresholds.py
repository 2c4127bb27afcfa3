"""Thresholds of the probability of one class, chosen by cost, sensitivity or specificity on rows held out from training."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gauge.tabular.ensemble import Ensemble
from gauge.tabular.prediction_sets import PredictionSets, calibrate
from gauge.tabular.table.rows import Rows

MAX_ROWS = 2000  # held out that a model keeps the answers for
RULES = "a number from 0 to 1, sensitivity=0.95, specificity=0.9, or cost=5 (a missed case costs five false alarms)"


@dataclass(frozen=True)
class HeldOut:
    """What a classifier answered for rows that it had not learned from, and the numbers of their classes. It holds nothing
    else of these rows."""

    probabilities: np.ndarray
    labels: np.ndarray

    def first(self, rows: int = MAX_ROWS) -> "HeldOut":
        """Some of them, evenly chosen."""
        chosen = np.unique(np.linspace(0, len(self.labels) - 1, min(rows, len(self.labels))).astype(int))
        return HeldOut(self.probabilities[chosen], self.labels[chosen])

    def tensors(self) -> dict[str, Tensor]:
        probabilities = torch.from_numpy(np.asarray(self.probabilities, np.float32))
        return {"probabilities": probabilities, "labels": torch.from_numpy(np.asarray(self.labels, np.int64))}

    @classmethod
    def load(cls, tensors: Mapping[str, Tensor], classes: int) -> "HeldOut | None":
        """What `tensors` gave, for a classifier of so many classes; None if there were no rows held out."""
        if not tensors:
            return None
        probabilities, labels = (tensors[name].numpy() for name in ("probabilities", "labels"))
        if probabilities.shape != (*labels.shape, classes) or labels.min() < 0 or labels.max() >= classes:
            raise ValueError(f"the rows held out are not answers for {classes} classes")
        return cls(probabilities.astype(float), labels)


def from_held_out(
    ensemble: Ensemble, rows: Rows, labels: np.ndarray, seed: int
) -> tuple[PredictionSets | None, HeldOut | None]:
    """Prediction sets and answers from experts that have not learned from these rows; None without rows."""
    if not len(rows):
        return None, None
    return calibrate(ensemble.predict, rows, labels, seed=seed), HeldOut(ensemble.predict(rows), labels).first()


@dataclass(frozen=True)
class Threshold:
    """From which probability on a row counts as positive, and how that was chosen."""

    value: float
    chosen: str


def choose_threshold(rule: str | float, held_out: HeldOut | None, positive: int) -> Threshold:
    """The threshold that a rule asks for: a number, or by rows held out the largest one with at least that sensitivity, the
    smallest one with at least that specificity, or the one with the least cost."""
    match = re.fullmatch(r"\s*(?:(sensitivity|specificity|cost)\s*=)?\s*([0-9.]+(?:e-?\d+)?)\s*", str(rule))
    try:
        kind, value = (match[1], float(match[2])) if match else ("", float("nan"))
    except ValueError:
        kind, value = "", float("nan")
    if not (value > 0 if kind == "cost" else 0 <= value <= 1):
        raise ValueError(f"threshold {rule!r} is not one; write {RULES}")
    if kind is None:
        return Threshold(value, "as given")
    if held_out is None:
        raise ValueError(f"no rows were held out from training to choose a threshold by {rule}; give a number")
    p, is_positive = held_out.probabilities[:, positive], held_out.labels == positive
    if not is_positive.any() or is_positive.all():
        raise ValueError(f"the rows held out are all of one kind, which says nothing of {rule}; give a number")
    cuts = np.unique(p)
    above = p[None] >= cuts[:, None]
    sensitivity, specificity = above[:, is_positive].mean(1), 1 - above[:, ~is_positive].mean(1)
    note = f"{rule} on {len(p)} rows held out from training"
    if kind == "sensitivity":
        return Threshold(float(cuts[sensitivity >= value - 1e-12].max()), note)
    if kind == "specificity":
        enough = cuts[specificity >= value - 1e-12]
        return Threshold(float(enough.min()) if len(enough) else float(np.nextafter(cuts.max(), 2)), note)
    cost = value * (1 - sensitivity) * is_positive.sum() + (1 - specificity) * (~is_positive).sum()
    return Threshold(float(cuts[cost.argmin()]), note)
