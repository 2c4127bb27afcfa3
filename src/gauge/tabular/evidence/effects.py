"""Effects: how much each piece of a row moves the answer of all experts, by making it missing.

effect = p(predicted class | row) - p(predicted class | row without the piece): positive where it speaks for the prediction
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from gauge.tabular.ensemble import Ensemble
from gauge.tabular.table.rows import Rows

MIN_PROBABILITY = 1e-12  # in a logarithm
SHUFFLES = 3  # of each column
NORMAL_QUANTILE = 1.96  # of a 95 % interval


def column_effects(ensemble: Ensemble, rows: Rows, decided: np.ndarray) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The effect of every column on the probability of the class decided for each row, zero where it is missing; and the
    number of the class that each column supports most."""
    every, before = np.arange(len(rows)), ensemble.predict(rows)
    names = [column.name for column in rows.schema.columns]
    changes = np.stack([before - ensemble.predict(rows.without(name)) for name in names], 1)
    effects = changes[every, :, decided] * rows.observed()
    return pd.DataFrame(effects, columns=names), pd.DataFrame(changes.argmax(2), columns=names)


def importance(ensemble: Ensemble, rows: Rows, decided: np.ndarray, labels: np.ndarray | None) -> pd.DataFrame:
    """A line for each column, the most important first: the mean over all rows of what its loss costs, with a 95 % interval.

    With labels that is the increase of the log loss when the values of the column are shuffled among the rows that have one,
    without them the absolute effect. Shuffled, and not missing: the less a row has, the less certain is every answer, so
    that also the loss of noise would cost something.
    """
    names = [column.name for column in rows.schema.columns]
    if not len(rows):
        raise ValueError("the table has no rows; give some to measure the importance of columns on")
    if labels is None:
        costs = column_effects(ensemble, rows, decided)[0].abs().to_numpy()
    else:
        chosen, draw = (np.arange(len(rows)), labels), np.random.default_rng(0)

        def logs(given: Rows) -> np.ndarray:
            return np.asarray(np.log(ensemble.predict(given)[chosen].clip(MIN_PROBABILITY)))

        before = logs(rows)
        after = [np.mean([logs(rows.shuffle(name, draw)) for _ in range(SHUFFLES)], 0) for name in names]
        costs = before[:, None] - np.stack(after, 1)
    mean, error = costs.mean(0), costs.std(0, ddof=1) / len(costs) ** 0.5 if len(costs) > 1 else np.inf
    table = pd.DataFrame(
        {
            "column": names,
            "importance": mean,
            "low": mean - NORMAL_QUANTILE * error,
            "high": mean + NORMAL_QUANTILE * error,
        }
    )
    return table.sort_values("importance", ascending=False, kind="stable", ignore_index=True)


@dataclass(frozen=True)
class Piece:
    """A word or a part of an image: its column and its position there."""

    column: str
    index: int


def piece_effects(
    ensemble: Ensemble, rows: Rows, row: int, decided: int, pieces: Sequence[Piece], counts: Mapping[str, int]
) -> np.ndarray:
    """The effects of words and image parts of one row. A word is left out of its text; a part of an image takes its mean
    colour. `counts` holds the number of parts of each column."""
    copies = rows.take(np.full(len(pieces) + 1, row))
    inputs = {name: tensor.clone() for name, tensor in copies.encoded.inputs.items()}
    texts = {name: column.copy() for name, column in copies.texts.items()}
    modalities = {column.name: (modality, column) for modality, column in rows.schema.contents.items()}
    for copy, piece in enumerate(pieces):
        modality, column = modalities[piece.column]
        column.hide_part(inputs[modality][copy], piece.index, counts[piece.column])
        if piece.column in texts:
            texts[piece.column][copy] = column.text_without(texts[piece.column][copy], piece.index)
    encoded = replace(copies.encoded, inputs=inputs)
    probabilities = ensemble.predict(replace(copies, encoded=encoded, texts=texts))[:, decided]
    return probabilities[-1] - probabilities[:-1]
