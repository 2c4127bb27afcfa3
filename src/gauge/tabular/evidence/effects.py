"""Effects: how much each piece of a row moves the prediction of all experts, by making it missing.

effect = p(predicted class | row) - p(predicted class | row without the piece): positive where it speaks for the prediction
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from gauge.tabular.experts._ensemble import Ensemble
from gauge.tabular.table.rows import Rows
from gauge.training.metrics import NORMAL_QUANTILE, log_losses


def column_effects(ensemble: Ensemble, rows: Rows, decided: np.ndarray) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the effect of every column on the probability of the class decided for each row, zero where it is missing; and
    the number of the class that each column supports most."""
    every, before = np.arange(len(rows)), ensemble.predict(rows)
    names = [column.name for column in rows.schema.columns]
    changes = np.stack([before - ensemble.predict(rows.without(name)) for name in names], 1)
    effects = changes[every, :, decided] * rows.observed()
    return pd.DataFrame(effects, columns=names), pd.DataFrame(changes.argmax(2), columns=names)


def importance(ensemble: Ensemble, rows: Rows, decided: np.ndarray, labels: np.ndarray | None) -> pd.DataFrame:
    """Return a line for each column, the most important first: the mean over all rows of what its loss costs, with a 95 %
    interval.

    With labels that is the increase of the log loss when the values of the column are shuffled among the rows that have one,
    without them the absolute effect. Shuffled, and not missing: the less a row has, the less certain is every
    prediction, so that also the loss of noise would cost something.
    """
    names = [column.name for column in rows.schema.columns]
    if not len(rows):
        raise ValueError("the table has no rows; give some to measure the importance of columns on")
    if labels is None:
        costs = column_effects(ensemble, rows, decided)[0].abs().to_numpy()
    else:
        draw, before, shuffles = np.random.default_rng(0), log_losses(ensemble.predict(rows), labels), 3
        after = [
            [log_losses(ensemble.predict(rows.shuffle(name, draw)), labels) for _ in range(shuffles)] for name in names
        ]
        costs = np.mean(after, 1).T - before[:, None]
    mean, low, high = mean_interval(costs)
    table = pd.DataFrame({"column": names, "importance": mean, "low": low, "high": high})
    return table.sort_values("importance", ascending=False, kind="stable", ignore_index=True)


def mean_interval(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean over all rows with the ends of its 95 % interval, which are infinite for a single row."""
    mean = values.mean(0)
    error = values.std(0, ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.full(len(mean), np.inf)
    return mean, mean - NORMAL_QUANTILE * error, mean + NORMAL_QUANTILE * error


def piece_effects(
    ensemble: Ensemble, rows: Rows, row: int, decided: int, pieces: Sequence[tuple[str, int]], counts: Mapping[str, int]
) -> np.ndarray:
    """Return the effects of words and image parts of one row. A word is left out of its text; a part of an image takes its
    mean colour. `pieces` are columns and positions there, `counts` holds the number of parts of each column."""
    copies = rows.take(np.full(len(pieces) + 1, row))
    inputs = {name: values.copy() for name, values in copies.encoded.inputs.items()}
    texts = {name: column.copy() for name, column in copies.texts.items()}
    modalities = {column.name: (modality, column) for modality, column in rows.schema.contents.items()}
    for copy, (name, index) in enumerate(pieces):
        modality, column = modalities[name]
        column.hide_part(inputs[modality][copy], index, counts[name])
        if name in texts:
            texts[name][copy] = column.text_without(texts[name][copy], index)
    encoded = replace(copies.encoded, inputs=inputs)
    probabilities = ensemble.predict(replace(copies, encoded=encoded, texts=texts))[:, decided]
    return probabilities[-1] - probabilities[:-1]
