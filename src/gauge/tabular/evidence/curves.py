"""The curves of an evaluation: ROC, precision and recall, calibration, and net benefit (Vickers and Elkin 2006).

net benefit = (true positives - false positives · t / (1 - t)) / rows, where rows from the probability t on are treated
"""

import numpy as np

from gauge.reports.evaluation import CURVES, Chart, Line
from gauge.tabular.evidence.measures import Answered, average_precision, precision_recall, share_interval
from gauge.tabular.evidence.thresholds import Threshold
from gauge.training.metrics import area_under_curve

CALIBRATION_PARTS = 10  # of equally many rows
DIAGONAL = [(0.0, 0.0), (1.0, 1.0)]
ENDS = (0.04, 0.08, 0.2, 0.4, 1.0)  # of an axis of probabilities, where those of a rare class are all small


def charts(answered: Answered, threshold: Threshold | None) -> list[Chart]:
    """ROC, precision and recall, calibration and, for a positive class, the decision curve."""
    own, labels = answered.own, answered.labels
    if answered.positive is not None:
        shown = {f"{answered.classes[answered.positive]}": answered.one_class(own)}
    else:
        frequent = np.argsort(-np.bincount(labels, minlength=len(answered.classes)), kind="stable")[: len(CURVES)]
        shown = {str(answered.classes[number]): (own[:, number], labels == number) for number in frequent}
    shown = {name: pair for name, pair in shown.items() if 0 < pair[1].sum() < len(labels)}
    rocs: list[Line] = []
    precisions: list[Line] = []
    for name, (p, is_positive) in shown.items():
        recall, precision = precision_recall(p, is_positive)
        false = precision_recall(p, ~is_positive)[0]
        area = area_under_curve(np.stack([1 - p, p], 1), is_positive.astype(int))
        style = CURVES[len(rocs)]
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


def _calibration(answered: Answered) -> Chart:
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
    end = _end(max(value for point in (*points, *spans) for value in point))
    lines = [
        Line("rows in ten parts, 95 % intervals", points, "main", spans),
        Line("exact", [(0.0, 0.0), (end, end)], "reference"),
    ]
    limits = (0.0, end), (0.0, end)
    return Chart("Calibration", "On the dotted line, probabilities are what they say.", x, y, lines, limits)


def _end(largest: float) -> float:
    """Of the axis for probabilities up to the largest one."""
    return next((end for end in ENDS if largest <= end), 1.0)


def _decision_curve(answered: Answered, threshold: Threshold | None) -> Chart:
    p, is_positive = answered.one_class(answered.own)
    end = _end(max(float(p.max()), 0.0 if threshold is None else threshold.value))
    share, steps = float(is_positive.mean()), end * np.arange(1, 100) / 100
    odds = steps / (1 - steps)
    model = [
        float((p[is_positive] >= t).sum() - weight * (p[~is_positive] >= t).sum()) / len(p)
        for t, weight in zip(steps, odds, strict=True)
    ]
    lines = [
        Line("by the model", list(zip(steps.tolist(), model, strict=True))),
        Line("all", list(zip(steps.tolist(), (share - (1 - share) * odds).tolist(), strict=True)), "second"),
        Line("none", [(0.0, 0.0), (end, 0.0)], "reference"),
    ]
    note = "Net benefit of treating rows from this probability on; useful where it is above both other lines."
    if threshold is not None:
        note += f" The threshold used is {threshold.value:.3g}."
    largest = max(share, *model, 1e-4)
    unit = next(unit for unit in (6e-4, 6e-3, 6e-2) if largest <= 10 * unit or unit == 6e-2)
    top = float(np.ceil(largest / unit) * unit)  # so that zero and all ticks have two digits
    return Chart("Decision curve", note, "threshold", "net benefit", lines, ((0.0, end), (-top / 3, top)))
