"""Effects: how much each piece of a row moves the answer of all experts, by making it missing.

effect = p(predicted class | row) - p(predicted class | row without the piece): positive where it speaks for the prediction
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from gauge.tabular.ensemble import Ensemble
from gauge.tabular.evidence.cell_trust import CellTrust
from gauge.tabular.table.rows import Rows

MIN_PROBABILITY = 1e-12  # in a logarithm
MAX_VALUES = 5  # of a missing cell that are tried, the most likely ones
NORMAL_QUANTILE = 1.96  # of a 95 % interval


def column_effects(ensemble: Ensemble, rows: Rows, decided: np.ndarray) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The effect of every column on the probability of the class decided for each row, zero where it is missing; and the
    number of the class that each column supports most."""
    every, before = np.arange(len(rows)), ensemble.predict(rows)
    names = [column.name for column in rows.schema.columns]
    changes = np.stack([before - ensemble.predict(rows.without(name)) for name in names], 1)
    effects = changes[every, :, decided] * rows.observed()
    return pd.DataFrame(effects, columns=names), pd.DataFrame(changes.argmax(2), columns=names)


def missing_values(
    ensemble: Ensemble, trust: CellTrust | None, rows: Rows, decided: np.ndarray, effects: pd.DataFrame
) -> list[dict[str, float]]:
    """How far each missing value of each row would move the probability of the class decided for it, the largest first.

    For a cell that is the mean over the values that the other cells suggest; for texts and images, of which nothing is
    suggested, the mean size of the effect in the rows that have one.
    """
    observed, names = rows.observed(), [column.name for column in rows.schema.columns]
    sizes = np.where(observed, effects.abs().to_numpy(), 0.0).sum(0) / observed.sum(0).clip(1)
    expected = np.where(observed, np.nan, sizes)
    if trust is not None:
        columns = [names.index(column.name) for column in trust.columns]
        expected[:, columns] = _expected_changes(ensemble, trust, rows, decided)
    helpful = []
    for line in expected:
        order = [index for index in np.argsort(-line, kind="stable") if line[index] > 0]
        helpful.append({names[index]: float(line[index]) for index in order})
    return helpful


def _expected_changes(ensemble: Ensemble, trust: CellTrust, rows: Rows, decided: np.ndarray) -> np.ndarray:
    """The mean absolute change by each missing cell of the table, NaN for the others: [rows, cells]."""
    cells = rows.cells
    expected = np.full(cells.shape, np.nan)
    missing, column = np.nonzero(np.isnan(cells))
    if not len(missing):
        return expected
    values, weights = np.zeros((2, len(missing), MAX_VALUES))
    for index, bins in enumerate(trust.bins):
        here = column == index
        given = trust.distribution(cells[missing[here]], index)[:, : len(bins.values)]
        likely = np.argsort(-given, 1, kind="stable")[:, :MAX_VALUES]
        values[here, : likely.shape[1]] = bins.values[likely]
        weights[here, : likely.shape[1]] = np.take_along_axis(given, likely, 1)
    copies = np.repeat(missing, MAX_VALUES)
    filled = cells[copies]
    filled[np.arange(len(copies)), np.repeat(column, MAX_VALUES)] = values.ravel()
    before = ensemble.predict(rows)[missing, decided[missing]]
    after = ensemble.predict(rows.take(copies).with_cells(filled))[np.arange(len(copies)), decided[copies]]
    change = np.abs(after.reshape(values.shape) - before[:, None])
    expected[missing, column] = (change * weights).sum(1) / weights.sum(1).clip(MIN_PROBABILITY)
    return expected


def importance(ensemble: Ensemble, rows: Rows, decided: np.ndarray, labels: np.ndarray | None) -> pd.DataFrame:
    """A line for each column, the most important first: the mean over all rows of what its loss costs, with a 95 % interval.

    With labels that is the increase of the log loss when the column is missing, without them the absolute effect.
    """
    names = [column.name for column in rows.schema.columns]
    if labels is None:
        costs = column_effects(ensemble, rows, decided)[0].abs().to_numpy()
    else:
        chosen = np.arange(len(rows)), labels
        before = np.log(ensemble.predict(rows)[chosen].clip(MIN_PROBABILITY))
        after = [np.log(ensemble.predict(rows.without(name))[chosen].clip(MIN_PROBABILITY)) for name in names]
        costs = (before[:, None] - np.stack(after, 1)) * rows.observed()
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
