"""The curves of an evaluation: ROC, precision and recall, calibration, and net benefit (Vickers and Elkin 2006).

net benefit = (true positives - false positives · t / (1 - t)) / rows, where rows from the probability t on are treated
"""

import numpy as np

from gauge.reports.evaluation import CURVES, Chart, Line
from gauge.tabular.evidence.measures import EvaluatedRows, share_interval
from gauge.tabular.evidence.thresholds import Threshold


def charts(predictions: EvaluatedRows, threshold: Threshold | None) -> list[Chart]:
    """Return ROC, precision and recall, calibration and, for a positive class, the decision curve."""
    from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score, roc_curve

    own, labels = predictions.own, predictions.labels
    if predictions.positive is not None:
        shown = {f"{predictions.classes[predictions.positive]}": predictions.one_class(own)}
    else:
        frequent = np.argsort(-np.bincount(labels, minlength=len(predictions.classes)), kind="stable")[: len(CURVES)]
        shown = {str(predictions.classes[number]): (own[:, number], labels == number) for number in frequent}
    shown = {name: pair for name, pair in shown.items() if 0 < pair[1].sum() < len(labels)}
    rocs: list[Line] = []
    precisions: list[Line] = []
    for name, (p, is_positive) in shown.items():
        false, sensitivity, _ = roc_curve(is_positive, p, drop_intermediate=False)
        precision, recall, _ = precision_recall_curve(is_positive, p)
        style, area = CURVES[len(rocs)], roc_auc_score(is_positive, p)
        rocs.append(Line(f"{name}: AUC {area:.3f}", list(zip(false, sensitivity, strict=True)), style))
        # without the last one, at a recall of 0, which is no threshold
        points = list(zip(recall, precision, strict=True))[-2::-1]
        average = average_precision_score(is_positive, p)
        precisions.append(Line(f"{name}: average precision {average:.3f}", points, style))
    rocs.append(Line("chance", [(0.0, 0.0), (1.0, 1.0)], "reference"))
    if predictions.positive is not None and shown:
        share = float((labels == predictions.positive).mean())
        precisions.append(Line(f"chance: {share:.2f}", [(0.0, share), (1.0, share)], "reference"))
    note = "How many of those found are right, as more are found."
    result = [
        Chart("ROC curve", "The further up and left, the better.", "1 - specificity", "sensitivity", rocs),
        Chart("Precision and recall", note, "recall", "precision", precisions),
        _calibration(predictions),
    ]
    return [*result, _decision_curve(predictions, threshold)] if predictions.positive is not None else result


def _calibration(predictions: EvaluatedRows) -> Chart:
    if predictions.positive is not None:
        p, right = predictions.one_class(predictions.own)
        x, y = f"probability of {predictions.classes[predictions.positive]}", "share that has it"
    else:
        p, right = predictions.own.max(1), predictions.own.argmax(1) == predictions.labels
        x, y = "probability of the predicted class", "share that is right"
    order = np.argsort(p, kind="stable")
    points, spans = [], []
    for rows in np.array_split(order, min(10, len(order))):
        share, low, high = share_interval(right[rows], None if predictions.groups is None else predictions.groups[rows])
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
    """Return the end of an axis for probabilities up to the largest one: those of a rare class are all small."""
    return next((end for end in (0.04, 0.08, 0.2, 0.4) if largest <= end), 1.0)


def _decision_curve(predictions: EvaluatedRows, threshold: Threshold | None) -> Chart:
    p, is_positive = predictions.one_class(predictions.own)
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
    if threshold is not None and len(predictions.classes) == 2:
        note += f" The threshold used is {threshold.value:.3g}."
    largest = max(share, *model, 1e-4)
    unit = next(unit for unit in (6e-4, 6e-3, 6e-2) if largest <= 10 * unit or unit == 6e-2)
    top = float(np.ceil(largest / unit) * unit)  # so that zero and all ticks have two digits
    return Chart("Decision curve", note, "threshold", "net benefit", lines, ((0.0, end), (-top / 3, top)))
