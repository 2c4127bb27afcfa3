"""What rows held out say of a classifier: prediction sets, predictions for thresholds, and advice, in the time left."""

import time
from typing import NamedTuple

import numpy as np

from gauge.tabular.evidence.advice import MAX_TRIALS, fit_advice
from gauge.tabular.evidence.cell_trust import CellTrust
from gauge.tabular.evidence.thresholds import HeldOut
from gauge.tabular.experts import Task
from gauge.tabular.experts._ensemble import Ensemble
from gauge.tabular.saved.description import Advice
from gauge.tabular.saved.prediction_sets import MIN_SCORES, PredictionSets, calibrate, number_of_groups
from gauge.tabular.table.rows import Rows


class FromHeldOut(NamedTuple):
    """None where no rows were held out; `left_out` is what the time limit was too short for."""

    sets: PredictionSets | None
    predictions: HeldOut | None
    advice: Advice | None
    left_out: tuple[str, ...] = ()


def learn_from_held_out(
    ensemble: Ensemble, rows: Rows, labels: np.ndarray, trust: CellTrust | None, *, task: Task
) -> FromHeldOut:
    """Return what experts that have not seen these rows predict for them, beside the rows' labels."""
    min_timed = 100  # rows whose predictions are timed
    max_rows = 2000  # held out that are predicted, drawn at random
    seed = task.recipe.seed
    if not len(rows):
        return FromHeldOut(None, None, None)
    if len(rows) > max_rows:
        chosen = np.random.default_rng(seed).permutation(len(rows))[:max_rows]
        rows, labels = rows.take(np.sort(chosen)), labels[np.sort(chosen)]
    started = time.monotonic()
    if task.seconds_left is not None:
        ensemble.predict(rows.take(np.arange(min(len(rows), min_timed))))
    each = (time.monotonic() - started) / min(len(rows), min_timed)
    sets, predicted, advice, left_out = None, None, None, []
    groups = number_of_groups(len(rows.schema.columns))
    if task.has_time_for(each * groups * max(len(rows), MIN_SCORES)):
        sets = calibrate(ensemble.predict, rows, labels, seed=seed)
        predicted = HeldOut(ensemble.predict(rows), labels)
    else:
        left_out.append("prediction sets and thresholds")
    if task.has_time_for(each * 3 * MAX_TRIALS):
        advice = fit_advice(ensemble, rows, labels, trust, seed=seed)
    else:
        left_out.append("advice on missing values")
    return FromHeldOut(sets, predicted, advice, tuple(left_out))
