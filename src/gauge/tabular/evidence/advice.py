"""Advice: which missing value of a row is worth knowing, by how far the log loss is expected to fall once it is known.

    gain = b · I,   I = H(Σ_v w_v p_v) - Σ_v w_v H(p_v)

p_v is the prediction once the column has the value v, w_v how likely the other cells make that value: I is what the model
expects to learn about the label. A model also learns from noise, so b is measured for every column: values of rows held out
are hidden and returned one at a time, and b is the regression of the fall of the log loss on I, with that of all columns as
its prior. The lower end of its interval has another prior: a column says nothing until these rows show that it does. Nothing
is suggested for texts and images, nor for any value where there is no trust in cells: their I is H(p), the uncertainty of
the prediction. I comes from the experts other than the network where there are any: it is as good, and they predict 20 times
as fast. How many more predictions are right is a regression on I in the same way.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import entr

from gauge.choices import pick
from gauge.masks import UpTo
from gauge.reports.evidence import Advised
from gauge.tabular.evidence.cell_trust import CellTrust
from gauge.tabular.experts._ensemble import Ensemble
from gauge.tabular.saved.description import Advice, ColumnGain
from gauge.tabular.table.cells import missing
from gauge.tabular.table.columns import Cell
from gauge.tabular.table.rows import Rows
from gauge.training.metrics import NORMAL_QUANTILE, log_losses

MAX_VALUES = 5  # of a missing cell that are tried
MAX_TRIALS = 3000  # hidden values that are returned


class Trials(NamedTuple):
    """Columns of rows, each missing there: the index of the row and that of the column in the schema."""

    row: np.ndarray
    column: np.ndarray


def fit_advice(
    ensemble: Ensemble, rows: Rows, labels: np.ndarray, trust: CellTrust | None, *, seed: int
) -> Advice | None:
    """From rows that the experts have not seen, and their labels; None if there are too few."""
    row, column, expected, gain, right = _measured(ensemble, rows, labels, trust, seed=seed)
    # fewer trials say nothing
    if len(row) < 50:
        return None
    names = [each.name for each in rows.schema.columns]
    suggested = _suggested(rows, trust) >= 0
    rise = _estimates(row, column, expected, right, suggested)[0]
    estimates = np.stack([*_estimates(row, column, expected, gain, suggested), rise], 1)
    return Advice({name: ColumnGain(*each.tolist()) for name, each in zip(names, estimates, strict=True)})


def expected_gains(
    advice: Advice, ensemble: Ensemble, trust: CellTrust | None, rows: Rows, wanted: np.ndarray
) -> np.ndarray:
    """Return the expected gain of every value that is wanted and missing, with the ends of its 95 % interval, and how
    probable it is that the prediction is right now and then; NaN for the others: [rows, columns, 5]."""
    estimates = [advice.columns[column.name] for column in rows.schema.columns]
    slopes = np.array([(*each[:3], 0.0, each.right) for each in estimates])
    trials = Trials(*np.nonzero(wanted & ~rows.observed()))
    gains = np.full((*wanted.shape, 5), np.nan)
    if len(trials.row):
        now = ensemble.predict(rows).max(1)[trials.row, None]
        gains[trials] = information(ensemble, trust, rows, trials)[:, None] * slopes[trials.column]
        gains[(*trials, slice(3, 5))] = (gains[(*trials, slice(3, 5))] + now).clip(0, 1)
    return gains


def helpful(gains: np.ndarray, names: Sequence[str]) -> list[dict[str, Advised]]:
    """Return the missing values of each row that are expected to help beyond chance, the largest gain first."""
    rows = []
    for line in gains:
        order = [index for index in np.argsort(-line[:, 0], kind="stable") if line[index, 1] > 0]
        rows.append({names[index]: Advised(*line[index].tolist()) for index in order})
    return rows


def absent(frame: pd.DataFrame, rows: Rows) -> np.ndarray:
    """Return which values are missing and were not given: a number or a category that is there but cannot be read, or is
    new, need not be asked for: [rows, columns]."""
    given = np.zeros((len(rows), len(rows.schema.columns)), bool)
    for index, column in enumerate(rows.schema.columns):
        if isinstance(column, Cell) and column.name in frame:
            given[:, index] = ~missing(frame[column.name])
    return ~given & ~rows.observed()


def check_costs(costs: Mapping[str, Any] | None, names: Sequence[str]) -> np.ndarray:
    """Return what each column costs: 1 unless it is given, and infinitely much if it is None."""
    values = dict.fromkeys(names, 1.0)
    for name, cost in (costs or {}).items():
        pick(values, name, "column with a cost")
        if cost is not None and (
            isinstance(cost, bool) or not isinstance(cost, int | float | np.number) or not cost > 0
        ):
            raise ValueError(
                f"the cost of {name!r} is {cost!r}; give a number above zero, or None where it cannot be had"
            )
        values[name] = np.inf if cost is None else float(cost)
    return np.array(list(values.values()))


def advice_table(
    gains: np.ndarray, names: Sequence[str], index: pd.Index, costs: np.ndarray, worth: float | int | None
) -> pd.DataFrame:
    """Return a line for each missing value of each row, in the order in which to get them."""
    if worth is not None and not worth > 0:
        raise ValueError(
            f"worth is {worth!r}; give what a fall of the log loss by 1 is worth, in the unit of the costs"
        )
    row, column = np.nonzero(np.isfinite(gains[:, :, 0]))
    gain, low, high, now, then = gains[row, column].T
    cost = costs[column]
    advised = (low > 0) & np.isfinite(cost)
    if worth is not None:
        advised &= worth * gain > cost
    table = pd.DataFrame(
        {
            "row": index[row],
            "column": np.array(names, object)[column],
            "gain": gain,
            "low": low,
            "high": high,
            "cost": cost,
            "gain_per_cost": gain / cost,
            "right_now": now,
            "right_then": then,
            "advised": advised,
        }
    )
    return table.iloc[np.lexsort((-table["gain_per_cost"], ~advised, row))].reset_index(drop=True)


def _measured(
    ensemble: Ensemble, rows: Rows, labels: np.ndarray, trust: CellTrust | None, *, seed: int
) -> tuple[np.ndarray, ...]:
    """Return values of rows held out that are hidden and returned: row, column, the information expected, the fall of the
    log loss, and whether the most probable class becomes right (1) or wrong (-1)."""
    hidden_copies = 6  # of each row held out, with other values hidden
    available, copies = rows.observed(), np.tile(np.arange(len(rows)), hidden_copies)
    # largest share of the values of a row held out that is hidden
    hidden = rows.take(copies).hide(UpTo(0.9), hidden_copies)
    copy, column = np.nonzero(available[copies] & ~hidden.observed())
    images = any(each.values_per_row for each in rows.schema.contents.values())
    # hidden values that are returned
    chosen = np.random.default_rng(seed).permutation(len(copy))[: 400 if images else MAX_TRIALS]
    used, copy = np.unique(copy[chosen], return_inverse=True)
    column, row, hidden = column[chosen], copies[used][copy], hidden.take(used)
    known = hidden.observed()[copy]
    known[np.arange(len(copy)), column] = True
    before, after = ensemble.predict(hidden)[copy], ensemble.predict(rows.take(row).keep(known))
    gain = log_losses(before, labels[row]) - log_losses(after, labels[row])
    right = (after.argmax(1) == labels[row]).astype(float) - (before.argmax(1) == labels[row])
    return row, column, information(ensemble, trust, hidden, Trials(copy, column)), gain, right


def information(ensemble: Ensemble, trust: CellTrust | None, rows: Rows, trials: Trials) -> np.ndarray:
    """Return what the model expects to learn about the label from each value, in nats: see I above."""
    rows_at_once = 4000
    expected, suggested = np.zeros(len(trials.row)), _suggested(rows, trust)[trials.column]
    contents = suggested < 0
    if contents.any():
        here, position = np.unique(trials.row[contents], return_inverse=True)
        expected[contents] = entr(ensemble.predict(rows.take(here))).sum(1)[position]
    quick = [name for name, expert in ensemble.experts.items() if expert.network is None]
    quickly = ensemble.only(quick) if quick else ensemble
    cells = np.flatnonzero(~contents)
    for start in range(0, len(cells), rows_at_once // MAX_VALUES):
        part = cells[start : start + rows_at_once // MAX_VALUES]
        assert trust is not None
        expected[part] = _cell_information(quickly, trust, rows, Trials(trials.row[part], suggested[part]))
    return expected


def _cell_information(ensemble: Ensemble, trust: CellTrust, rows: Rows, trials: Trials) -> np.ndarray:
    """Return the same for cells, whose columns are those of the table."""
    values, weights = _likely_values(trust, rows.cells, trials)
    copies = np.repeat(trials.row, MAX_VALUES)
    filled = rows.cells[copies]
    filled[np.arange(len(copies)), np.repeat(trials.column, MAX_VALUES)] = values.ravel()
    probabilities = ensemble.predict(rows.take(copies).with_cells(filled)).reshape(len(values), MAX_VALUES, -1)
    mixture = (probabilities * weights[:, :, None]).sum(1)
    return (entr(mixture).sum(1) - (entr(probabilities).sum(2) * weights).sum(1)).clip(0.0)


def _suggested(rows: Rows, trust: CellTrust | None) -> np.ndarray:
    """Return the position in the table of each column whose values the other cells suggest, -1 for the others."""
    positions = {} if trust is None else {column.name: index for index, column in enumerate(trust.columns)}
    return np.array([positions.get(column.name, -1) for column in rows.schema.columns])


def _likely_values(trust: CellTrust, cells: np.ndarray, trials: Trials) -> tuple[np.ndarray, np.ndarray]:
    """Return values of each cell and their weights: quantiles of a number, the most likely ones of few values."""
    levels = (np.arange(MAX_VALUES) + 0.5) / MAX_VALUES  # the quantiles of a number that are tried
    values, weights = np.zeros((2, len(trials.row), MAX_VALUES))
    for index, bins in enumerate(trust.bins):
        here = trials.column == index
        given = trust.distribution(cells[trials.row[here]], index)[:, : len(bins.values)]
        if bins.edges is not None and len(bins.values) > MAX_VALUES:
            below = given.cumsum(1) / given.sum(1, keepdims=True)
            place = (below[:, :, None] < levels).sum(1).clip(max=len(bins.values) - 1)
            values[here], weights[here] = bins.values[place], 1.0
        else:
            likely = np.argsort(-given, 1, kind="stable")[:, :MAX_VALUES]
            values[here, : likely.shape[1]] = bins.values[likely]
            weights[here, : likely.shape[1]] = np.take_along_axis(given, likely, 1)
    return values, weights / weights.sum(1, keepdims=True)


def _estimates(
    row: np.ndarray, column: np.ndarray, expected: np.ndarray, gain: np.ndarray, suggested: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Return those of `ColumnGain`, by column: the regression of gain on information through zero, and the mean gain. Trials
    with the same row and column count as one. Columns whose values are `suggested` have a prior of their own."""
    min_variance = 1e-9
    prior_trials = 20  # what the variance of all columns counts in that of one
    prior_deviation = 0.5  # of b from that of all columns
    columns = len(suggested)
    _, position, count = np.unique(row * columns + column, return_inverse=True, return_counts=True)
    weight = 1 / count[position]

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(column, weight * values, columns)

    def variance(rest: np.ndarray) -> np.ndarray:
        own = total(rest**2)
        return (prior_trials * own.sum() / counts.sum() + own) / (prior_trials + counts) + min_variance

    counts, square, product = total(np.ones(len(row))), total(expected**2), total(expected * gain)
    noise = variance(gain - (product / square.clip(min_variance))[column] * expected)
    prior = np.zeros(columns)
    for group in (suggested, ~suggested):
        ratio = total(gain)[group].sum() / total(expected)[group].sum().clip(min_variance)
        prior[group] = np.clip(ratio, 0.0, 2.0)  # largest b of all columns
    # 1.0: the deviation of b from zero of a sceptic
    precision, sceptical = (1 / each**2 + square / noise for each in (prior_deviation, 1.0))
    slope = (prior / prior_deviation**2 + product / noise) / precision
    low = product / noise / sceptical - NORMAL_QUANTILE * sceptical**-0.5
    high = slope + NORMAL_QUANTILE * precision**-0.5
    mean = total(gain) / counts.clip(1)
    error = np.sqrt(variance(gain - mean[column]) / counts.clip(1))
    return slope, np.minimum(low, slope), high, mean, error
