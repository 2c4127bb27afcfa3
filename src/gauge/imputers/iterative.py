"""Iterative: missing table cells by repeated regressions on the other columns; other modalities from donors."""

import warnings
from collections.abc import Sequence
from typing import Self

import numpy as np
import torch
from jaxtyping import Bool, Float
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401 - scikit-learn asks for it
from sklearn.impute import IterativeImputer
from sklearn.linear_model import BayesianRidge
from torch import Tensor, nn

from gauge.data import Dataset
from gauge.data.dataset import as_values
from gauge.imputers.nearest import Nearest
from gauge.nn.tabular import ColumnLayout, by_cell, check_columns, share_of
from gauge.randomness import choose, permutation, sample_keys
from gauge.types import Imputer, UnsupportedError
from gauge.values import Batch

__all__ = ["Iterative"]


class Iterative(Imputer):
    """Fitted by scikit-learn and applied by torch in float64: the same numbers on any device, without waiting for it.
    Numbers start from the mean of their column, categories from its mode; a row without observed cells keeps these, where
    scikit-learn would run the rounds. Categories are imputed as numbers, then rounded and clamped to their column's range.
    Whole modalities (images, texts) are imputed as in `nearest`.

        x_j = intercept_j + Σ_{k before j} coefficient_jk x_k + Σ_{k after j} coefficient_jk (x_k of the round before)

    for the missing cells of a row, columns in the order of imputation: scikit-learn's IterativeImputer with
    BayesianRidge.

    >>> inputs = {"blood": torch.tensor([[1.0, 2.0], [2, 4], [3, 6], [4, 8]])}
    >>> train = Dataset("train", inputs, torch.zeros(4).long(), {"blood": torch.ones(4, 2).bool()})
    >>> batch = Batch({"blood": torch.tensor([[torch.nan, 5.0]])}, {"blood": torch.tensor([[False, True]])})
    >>> Iterative.from_dataset(train).complete(batch).inputs["blood"]
    tensor([[2.5000, 5.0000]])
    """

    def __init__(
        self, table: str, cardinalities: Sequence[int], donors: Nearest | None = None, *, rounds: int = 5
    ) -> None:
        super().__init__()
        self.name, self.donors = table, donors
        self.columns = ColumnLayout(cardinalities)
        count = len(cardinalities)
        self.start = nn.Buffer(torch.zeros(count).double())
        self.order = nn.Buffer(torch.arange(count))
        # in the order of imputation, for cells minus their start
        self.coefficients = nn.Buffer(torch.zeros(rounds, count, count).double())
        self.intercepts = nn.Buffer(torch.zeros(rounds, count).double())

    @classmethod
    def from_dataset(
        cls,
        train: Dataset,
        cardinalities: Sequence[int] | None = None,
        *,
        rounds: int = 5,
        masked: float = 0.0,
        rows: int = 2000,
        seed: int = 0,
    ) -> Self:
        """The table is the modality whose cells have their own flags. Columns are numeric unless `cardinalities` gives their
        number of categories. At most `rows` rows are used, with the share `masked` of each row's cells hidden: a large one
        does harm, because columns are then learned from their own imputed values."""
        if not 0 <= masked < 1:
            raise ValueError(f"masked is the share of a row's cells to hide, from 0 to below 1, not {masked}")
        tables = [name for name, features in train.feature_counts.items() if features is not None]
        if len(tables) != 1:
            raise UnsupportedError(f"iterative fills one table with a flag for each cell; the data has {len(tables)}")
        (table,) = tables
        sizes = check_columns(train.shapes[table], cardinalities)
        donors = Nearest.from_dataset(train, 1000, seed) if len(train.feature_counts) > 1 else None
        imputer = cls(table, sizes, donors, rounds=rounds)
        cells, observed = as_values(train.inputs[table]).cpu().double(), train.observed[table].cpu()
        columns = zip(cells.T, observed.T, sizes, strict=True)
        start = [_start(column[flags], size) for column, flags, size in columns]
        imputer.start.copy_(torch.tensor(start, dtype=cells.dtype))
        chosen = permutation(len(train), seed, "rows")[:rows]
        hidden = choose(sample_keys(chosen, seed, "masked"), observed[chosen], share_of(masked, len(sizes)))
        imputer._learn(torch.where(observed[chosen] & ~hidden, cells[chosen] - imputer.start, torch.nan))
        return imputer.to(train.device)

    def _learn(self, cells: Float[Tensor, "rows f"]) -> None:
        """Fits the regressions to cells minus their start, so that zero is a column's mean or mode."""
        rounds, count = self.intercepts.shape
        start = {"initial_strategy": "constant", "fill_value": 0, "keep_empty_features": True}
        imputer = IterativeImputer(BayesianRidge(), max_iter=rounds, tol=0, **start)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # all rounds are meant to run
            steps = imputer.fit(cells.numpy()).imputation_sequence_
        if not steps:  # no rounds, or no other column
            return
        order = [step.feat_idx for step in steps[:count]]
        coefficients = np.zeros((len(steps), count))
        for own, step in zip(coefficients, steps, strict=True):
            own[step.neighbor_feat_idx] = step.estimator.coef_
        intercepts = np.array([step.estimator.intercept_ for step in steps])
        self.order.copy_(torch.tensor(order))
        self.coefficients.copy_(torch.from_numpy(coefficients[:, order]).unflatten(0, (rounds, count)))
        self.intercepts.copy_(torch.from_numpy(intercepts).unflatten(0, (rounds, count)))

    @torch.no_grad()
    def complete(self, batch: Batch) -> Batch:
        table = batch.filled({self.name: batch.inputs[self.name].new_zeros(())}).inputs[self.name]
        observed = by_cell(batch.observed[self.name], table)
        values = self._settled(table.to(self.start.dtype) - self.start, observed) + self.start
        values = torch.where(observed.any(1, keepdim=True), values, self.start)
        values = self.columns.in_order(self.columns.codes(values), values[:, self.columns.numbers])
        return (batch if self.donors is None else self.donors.complete(batch)).filled({self.name: values})

    def _settled(self, cells: Float[Tensor, "b f"], observed: Bool[Tensor, "b f"]) -> Float[Tensor, "b f"]:
        """The cells minus their start, after all rounds."""
        missing = ~observed.T[self.order]
        columns = cells.T[self.order].masked_fill(missing, 0.0)
        for coefficients, intercepts in zip(self.coefficients, self.intercepts, strict=True):
            for place, (mask, own, intercept) in enumerate(zip(missing, coefficients, intercepts, strict=True)):
                columns[place] = torch.where(mask, own @ columns + intercept, columns[place])
        return columns[self.order.argsort()].T


def _start(values: Float[Tensor, "rows"], size: int) -> float:
    """The mean of a column's numbers or the mode of its categories; 0 where nothing was observed."""
    if size > 1:
        return float(np.bincount(values.round().long().clamp(0, size - 1).numpy(), minlength=size).argmax())
    return float(values.sum()) / max(1, len(values))
