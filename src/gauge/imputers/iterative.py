"""Iterative: a table's missing cells by regressions on its other columns, round after round; all else from donors.

    x_j = intercept_j + Σ_{k before j} coefficient_jk x_k + Σ_{k after j} coefficient_jk (x_k of the round before)

for the missing cells of a row, columns in the order of imputation: scikit-learn's IterativeImputer with BayesianRidge.
"""

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
from torch import Tensor

from gauge.data import Dataset
from gauge.data.dataset import as_values
from gauge.imputers._table import cells_of, filled, find_donors, find_table
from gauge.imputers.nearest import Nearest
from gauge.model.nn.tabular import ColumnLayout, check_columns, share_of
from gauge.randomness import choose, permutation, sample_keys
from gauge.types import Batch, Imputer

__all__ = ["Iterative"]


class Iterative(Imputer):
    """Fitted by scikit-learn, applied by torch: the same numbers on any device, and the host never waits for one.

    Numbers start from the mean of their column, categories from its mode; a row without any cell keeps these, where
    scikit-learn would let the rounds run. Categories are imputed as numbers, rounded at the end and kept within their
    column. Whole modalities (images, texts) come from the nearest of some training samples, as `nearest` has it.

    A batch costs two small kernels for each round and column, however many rows it has. They compute in float64, which
    neither autocast nor TF32 touches.

    >>> inputs = {"blood": torch.tensor([[1.0, 2.0], [2, 4], [3, 6], [4, 8]])}
    >>> train = Dataset("train", inputs, torch.zeros(4).long(), {"blood": torch.ones(4, 2).bool()})
    >>> batch = Batch({"blood": torch.tensor([[torch.nan, 5.0]])}, {"blood": torch.tensor([[False, True]])})
    >>> Iterative.of(train).complete(batch).inputs["blood"]
    tensor([[2.5000, 5.0000]])
    """

    needs_table = True

    def __init__(
        self, table: str, cardinalities: Sequence[int], donors: Nearest | None = None, *, rounds: int = 5
    ) -> None:
        super().__init__()
        self.name, self.donors = table, donors
        self.columns = ColumnLayout(cardinalities)
        count = len(cardinalities)
        self.register_buffer("start", torch.zeros(count).double())
        self.register_buffer("order", torch.arange(count))
        self.register_buffer("coefficients", torch.zeros(rounds, count, count).double())
        self.register_buffer("intercepts", torch.zeros(rounds, count).double())
        self.start: Tensor
        self.order: Tensor
        self.coefficients: Tensor  # these two in the order of imputation, of cells less their start
        self.intercepts: Tensor

    @classmethod
    def of(
        cls,
        train: Dataset,
        cardinalities: Sequence[int] | None = None,
        *,
        rounds: int = 5,
        masked: float = 0.0,
        rows: int = 2000,
        seed: int = 0,
    ) -> Self:
        """The table is the modality whose cells have flags of their own. Columns hold numbers unless `cardinalities` says
        how many categories they have. At most `rows` rows are learned from, with that share of each row's cells `masked`.
        Much of that does harm: a column is then learned from guesses that were made of it."""
        if not 0 <= masked < 1:
            raise ValueError(f"masked is the share of a row's cells to hide, from 0 to below 1, not {masked}")
        imputer = cls.blank(train, cardinalities, rounds=rounds, seed=seed)
        table, sizes = imputer.name, check_columns(train.shapes[imputer.name], cardinalities)
        cells, observed = as_values(train.inputs[table]).cpu().double(), train.observed[table].cpu()
        imputer.start.copy_(_start(cells, observed, sizes))
        chosen = permutation(len(train), seed, "rows")[:rows]
        there = observed[chosen]
        there = there & ~choose(sample_keys(chosen, seed, "masked"), there, share_of(masked, len(sizes)))
        imputer._learn(torch.where(there, cells[chosen] - imputer.start, torch.nan))
        return imputer.to(train.device)

    @classmethod
    def blank(
        cls, like: Dataset, cardinalities: Sequence[int] | None = None, *, rounds: int = 5, seed: int = 0, **_: object
    ) -> Self:
        table = find_table(like, "iterative")
        sizes = check_columns(like.shapes[table], cardinalities)
        return cls(table, sizes, find_donors(like, seed=seed), rounds=rounds)

    def _learn(self, cells: Float[Tensor, "rows f"]) -> None:
        """From cells less their start: a start of zero is the mean of some columns and the mode of others."""
        rounds, count = self.intercepts.shape
        imputer = IterativeImputer(
            BayesianRidge(),
            max_iter=rounds,
            tol=0,
            initial_strategy="constant",
            fill_value=0,
            keep_empty_features=True,
        )
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
        table, observed = cells_of(batch, self.name)
        values = self._settled(table.to(self.start.dtype) - self.start, observed) + self.start
        values = torch.where(observed.any(1, keepdim=True), values, self.start)
        columns = self.columns
        values = columns.in_order(columns.codes(values), values[:, columns.numbers])
        return filled(batch, self.name, values, self.donors)

    def _settled(self, cells: Float[Tensor, "b f"], observed: Bool[Tensor, "b f"]) -> Float[Tensor, "b f"]:
        """Cells less their start, after all rounds."""
        missing = ~observed.T[self.order]
        columns = cells.T[self.order].masked_fill(missing, 0.0)
        for coefficients, intercepts in zip(self.coefficients, self.intercepts, strict=True):
            for column, gaps, own, intercept in zip(columns, missing, coefficients, intercepts, strict=True):
                torch.where(gaps, torch.addmv(intercept, columns.T, own), column, out=column)
        return columns[self.order.argsort()].T


def _start(
    cells: Float[Tensor, "rows f"], observed: Bool[Tensor, "rows f"], sizes: Sequence[int]
) -> Float[Tensor, "f"]:
    """The mean of a column's numbers or the mode of its categories; 0 where nothing was observed."""

    def start(seen: Tensor, size: int) -> float:
        if size > 1:
            return float(np.bincount(seen.round().long().clamp(0, size - 1).numpy(), minlength=size).argmax())
        return float(seen.sum()) / max(1, len(seen))

    columns = zip(cells.T, observed.T, sizes, strict=True)
    return torch.tensor([start(values[there], size) for values, there, size in columns], dtype=cells.dtype)
