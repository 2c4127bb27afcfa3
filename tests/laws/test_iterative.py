"""Iterative: scikit-learn's regressions, applied without it; categories stay categories."""

import pytest
import torch
from helpers import noise
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401 - scikit-learn asks for it
from sklearn.impute import IterativeImputer

from gauge import Batch, Dataset
from gauge.imputers.iterative import Iterative

CARDINALITIES = (1, 3, 1, 2, 1)  # categories need not come first
SCALE, OFFSET = torch.tensor([1.0, 1, 30, 1, 0.01]), torch.tensor([0.0, 0, 2000, 0, -5])


def patients(rows: int = 60, seed: int = 0, gaps: bool = True) -> Dataset:
    """Columns that say much of each other, on scales of their own; the later, the more often missing."""
    health = noise(rows, 1, seed=seed)
    table = health * torch.tensor([1.0, 1, -1, 1, 2]) + 0.5 * noise(rows, 5, seed=seed + 1)
    table[:, 1], table[:, 3] = (table[:, 1] + 1).round().clamp(0, 2), (table[:, 3] > 0.4).float()
    there = noise(rows, 5, seed=seed + 2) > torch.tensor([-1.0, -2, -0.5, 0, 0.3])
    there[:, 1] |= ~there.any(1)
    observed = {"blood": there if gaps else torch.ones_like(there)}
    return Dataset("train", {"blood": table * SCALE + OFFSET}, torch.zeros(rows).long(), observed)


def completed(imputer: Iterative, batch: Batch) -> torch.Tensor:
    return imputer.complete(batch).inputs["blood"]


def with_nan(data: Dataset) -> torch.Tensor:
    return data.inputs["blood"].double().masked_fill(~data.observed["blood"], torch.nan)


@pytest.mark.parametrize("rounds", [1, 5])
def test_numbers_are_those_of_scikit_learn(rounds):
    train, test = patients(), patients(seed=9)
    theirs = IterativeImputer(max_iter=rounds, tol=0, skip_complete=False)
    with pytest.warns(ConvergenceWarning):
        theirs.fit(with_nan(train).numpy())
    assert [step.feat_idx for step in theirs.imputation_sequence_[:5]] != [0, 1, 2, 3, 4]
    expected = torch.from_numpy(theirs.transform(with_nan(test).numpy())).float()
    found = completed(Iterative.from_dataset(train, rounds=rounds), test.batch(torch.arange(60)))
    torch.testing.assert_close((found - OFFSET) / SCALE, (expected - OFFSET) / SCALE, rtol=0, atol=2e-4)


def test_categories_come_back_as_codes_within_their_column():
    """Even for rows far beyond any training row."""
    extreme = torch.tensor([[9.0, torch.nan, -9, torch.nan, 18], [-9, torch.nan, 9, torch.nan, -18]]) * SCALE + OFFSET
    imputer = Iterative.from_dataset(patients(400), CARDINALITIES)
    found = completed(imputer, Batch({"blood": extreme}, {"blood": ~extreme.isnan()}))
    assert found[:, [1, 3]].tolist() == [[2, 1], [0, 0]]
    gaps = patients(seed=9).batch(torch.arange(60))
    codes = imputer.columns.codes(completed(imputer, gaps))
    assert torch.equal(codes.float(), completed(imputer, gaps)[:, [1, 3]])


def test_an_imputer_of_tables_says_what_it_needs():
    data = Dataset("train", {"x": noise(4, 2)}, torch.zeros(4).long())
    with pytest.raises(ValueError, match="iterative fills one table with a flag for each cell; the data has 0"):
        Iterative.from_dataset(data)
