"""Thresholds of the probability of one class, chosen by cost, sensitivity or specificity on rows held out from training, and
what classes have to count so that decisions keep one."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class HeldOut:
    """The probabilities of a classifier for rows that it had not learned from, and the numbers of their classes. It holds
    nothing else of these rows."""

    probabilities: np.ndarray
    labels: np.ndarray

    def tensors(self) -> dict[str, np.ndarray]:
        return {"probabilities": self.probabilities.astype(np.float32), "labels": self.labels.astype(np.int64)}

    @classmethod
    def load(cls, tensors: Mapping[str, np.ndarray], classes: int) -> "HeldOut | None":
        """Return what `tensors` gave, for a classifier of so many classes; None if there were no rows held out."""
        if not tensors:
            return None
        probabilities, labels = (tensors[name] for name in ("probabilities", "labels"))
        if probabilities.shape != (*labels.shape, classes) or labels.min() < 0 or labels.max() >= classes:
            raise ValueError(f"the rows held out do not have {classes} classes")
        return cls(probabilities.astype(float), labels)


def positive_share(probabilities: np.ndarray, positive: int) -> np.ndarray:
    """Return what a threshold is compared with: the share of the positive class beside the most probable other one, of two
    classes its probability."""
    own, others = probabilities[:, positive], np.delete(probabilities, positive, 1).max(1)
    return np.asarray(own if probabilities.shape[1] == 2 else own / (own + others))


@dataclass(frozen=True)
class Threshold:
    """From which share on a row counts as positive (see `positive_share`), and how that was chosen."""

    value: float
    chosen: str


def parse_rule(rule: str | float) -> tuple[str | None, float]:
    """Return what a threshold is chosen by and its value; None for a number that is the threshold itself."""
    match = re.fullmatch(r"\s*(?:(sensitivity|specificity|cost)\s*=)?\s*((?:\d+\.?\d*|\.\d+)(?:e-?\d+)?)\s*", str(rule))
    kind, value = (match[1], float(match[2])) if match else ("", float("nan"))
    if not (value > 0 if kind == "cost" else 0 <= value <= 1):
        raise ValueError(
            f"threshold {rule!r} is not one; write a number from 0 to 1, sensitivity=0.95, specificity=0.9, or cost=5 (a "
            "missed case costs five false alarms)"
        )
    return kind, value


def choose_threshold(rule: str | float, held_out: HeldOut | None, positive: int) -> Threshold:
    """Return the threshold that a rule asks for: a number, or by rows held out the largest one with at least that
    sensitivity, the smallest one with at least that specificity, or the one with the least cost."""
    kind, value = parse_rule(rule)
    if kind is None:
        return Threshold(value, "as given")
    if held_out is None:
        raise ValueError(f"no rows were held out from training to choose a threshold by {rule}; give a number")
    p, is_positive = positive_share(held_out.probabilities, positive), held_out.labels == positive
    if not is_positive.any() or is_positive.all():
        raise ValueError(f"the rows held out are all of one kind, which says nothing of {rule}; give a number")
    levels = np.unique(p)
    # between neighbours: a model that learned from all rows gives them slightly other probabilities; the last is above all
    cuts = (np.append(0.0, levels) + np.append(levels, 1.0)) / 2
    cuts[-1] = max(cuts[-1], np.nextafter(levels[-1], 2))
    above = p[None] >= cuts[:, None]
    sensitivity, specificity = above[:, is_positive].mean(1), 1 - above[:, ~is_positive].mean(1)
    note = f"{rule} on {len(p)} rows held out from training"
    if kind == "sensitivity":
        return Threshold(float(cuts[sensitivity >= value - 1e-12].max()), note)
    if kind == "specificity":
        return Threshold(float(cuts[specificity >= value - 1e-12].min()), note)
    cost = value * (1 - sensitivity) * is_positive.sum() + (1 - specificity) * (~is_positive).sum()
    return Threshold(float(cuts[cost.argmin()]), note)


def threshold_weights(rule: str | float, held_out: HeldOut | None, positive: int, classes: int) -> np.ndarray:
    """Return what the classes have to count so that a row is decided as positive from the threshold of a rule on."""
    value = min(choose_threshold(rule, held_out, positive).value - 1e-6, 1.0)  # rows at the threshold are positive
    weights = np.full(classes, max(value, 0.0))
    weights[positive] = 1 - weights[positive]
    return weights
