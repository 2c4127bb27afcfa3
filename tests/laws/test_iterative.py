"""Iterative: scikit-learn's regressions, applied without it; categories stay categories."""

import helpers
import pytest
import torch
from helpers import noise
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401 - scikit-learn asks for it
from sklearn.impute import IterativeImputer
from torch._subclasses.fake_tensor import FakeTensorMode

from gauge import Batch, Dataset
from gauge.imputers.iterative import Iterative
from gauge.registry import IMPUTERS

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


def test_a_table_without_gaps_teaches_more_than_the_mean():
    train, test = patients(400, gaps=False), patients(seed=9)
    truth, hidden = test.inputs["blood"], ~test.observed["blood"]
    found = completed(Iterative.from_dataset(train, CARDINALITIES), test.batch(torch.arange(60)))
    start = train.inputs["blood"].mean(0)
    for column in (0, 2, 4):
        rows = hidden[:, column]
        ours, mean = ((values - truth[:, column])[rows].square().mean() for values in (found[:, column], start[column]))
        assert ours < 0.7 * mean


def test_categories_come_back_as_codes_within_their_column():
    """Even for rows far beyond any training row."""
    extreme = torch.tensor([[9.0, torch.nan, -9, torch.nan, 18], [-9, torch.nan, 9, torch.nan, -18]]) * SCALE + OFFSET
    imputer = Iterative.from_dataset(patients(400), CARDINALITIES)
    found = completed(imputer, Batch({"blood": extreme}, {"blood": ~extreme.isnan()}))
    assert found[:, [1, 3]].tolist() == [[2, 1], [0, 0]]
    gaps = patients(seed=9).batch(torch.arange(60))
    codes = imputer.columns.codes(completed(imputer, gaps))
    assert torch.equal(codes.float(), completed(imputer, gaps)[:, [1, 3]])


def test_a_wholly_missing_table_gets_means_and_modes():
    train = patients()
    seen = with_nan(train)
    expected = [float(column.nanmean()) for column in seen.T]
    expected[1], expected[3] = (float(seen[:, place][~seen[:, place].isnan()].mode().values) for place in (1, 3))
    batch = Batch({"blood": torch.full((2, 5), torch.nan)}, {"blood": torch.zeros(2, 5).bool()})
    found = completed(Iterative.from_dataset(train, CARDINALITIES), batch)
    torch.testing.assert_close(found, torch.tensor([expected, expected]))


def test_rows_and_hidden_cells_follow_the_seed():
    def learned(seed):
        return Iterative.from_dataset(patients(), rows=40, masked=0.2, seed=seed).coefficients

    assert torch.equal(learned(0), learned(0))
    assert (learned(0) != learned(1)).any()


def test_a_state_dict_brings_the_imputer_back(train, batch):
    imputer, fresh = (
        Iterative.from_dataset(train),
        Iterative.from_dataset(helpers.dataset("train", rows=40, seed=50), rounds=5, seed=1),
    )
    fresh.load_state_dict(imputer.state_dict())
    helpers.assert_equal(fresh.complete(batch).inputs, imputer.complete(batch).inputs)
    alone, bare = Iterative.from_dataset(patients(), CARDINALITIES), Iterative("blood", CARDINALITIES)
    bare.load_state_dict(alone.state_dict())
    gaps = patients(seed=9).batch(torch.arange(60))
    assert torch.equal(completed(bare, gaps), completed(alone, gaps))


@pytest.mark.parametrize("rounds", [0, 5])
@pytest.mark.parametrize("columns", [1, 2])
def test_without_rounds_or_other_columns_the_mean_remains(rounds, columns):
    train = Dataset("train", {"x": noise(9, columns)}, torch.zeros(9).long(), {"x": torch.ones(9, columns).bool()})
    batch = Batch({"x": torch.zeros(1, columns)}, {"x": torch.arange(columns)[None] > 0})
    found = Iterative.from_dataset(train, rounds=rounds).complete(batch).inputs["x"][0, 0]
    assert torch.isclose(found, train.inputs["x"][:, 0].mean()) == (rounds == 0 or columns == 1)


def test_imputing_never_waits_for_a_value(train, batch):
    """On tensors without values, whatever needs one raises."""
    imputer = Iterative.from_dataset(train)
    with FakeTensorMode(allow_non_fake_inputs=True) as fake:
        inputs, observed = (
            {name: fake.from_tensor(x) for name, x in y.items()} for y in (batch.inputs, batch.observed)
        )
        imputer.complete(Batch(inputs, observed, index=fake.from_tensor(batch.index)))


def test_half_precision_around_it_changes_nothing():
    imputer, batch = Iterative.from_dataset(patients(), CARDINALITIES), patients(seed=9).batch(torch.arange(60))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = completed(imputer, batch)
    assert torch.equal(inside, completed(imputer, batch))


@pytest.mark.parametrize("name", ["iterative", "masked_columns"])
def test_an_imputer_of_tables_says_what_it_needs(name):
    data = Dataset("train", {"x": noise(4, 2)}, torch.zeros(4).long())
    with pytest.raises(ValueError, match=f"{name} fills one table with a flag for each cell; the data has 0"):
        IMPUTERS.get(name).from_dataset(data)


@pytest.mark.parametrize("masked", [-0.1, 1.0])
def test_hiding_every_cell_is_an_error(masked):
    with pytest.raises(ValueError, match=f"a row's cells to hide, from 0 to below 1, not {masked}"):
        Iterative.from_dataset(patients(), masked=masked)
