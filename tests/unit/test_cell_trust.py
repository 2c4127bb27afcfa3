"""Trust in cells: what does not fit the rest of a row is doubted, imputed values are trusted as far as they are right."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from helpers import unchecked
from sklearn.metrics import roc_auc_score

from gauge import GaugeClassifier
from gauge.tabular.evidence.cell_trust import SWAPPED, CellTrust, swap
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Schema


def planted(rows: int = 600, seed: int = 0) -> pd.DataFrame:
    """`twin` nearly equals `x`, `sign` is its sign, `noise` says nothing about the others. Some cells are missing."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=rows)
    frame = pd.DataFrame({"x": x, "twin": 10 + x + 0.1 * draw.normal(size=rows), "noise": draw.normal(size=rows)})
    frame["sign"] = np.where(x > 0, "plus", "minus")
    return frame.mask(draw.random(frame.shape) < 0.1)


def cells_of(frame: pd.DataFrame, schema: Schema) -> np.ndarray:
    return Rows.from_frame(schema, frame, schema.encode(frame)).cells


@pytest.fixture(scope="module")
def schema():
    return Schema.from_frame(planted())


@pytest.fixture(scope="module")
def trust(schema):
    frame = planted()
    with unchecked():
        return CellTrust.fit(Rows.from_frame(schema, frame, schema.encode(frame)), 0)


@pytest.fixture(scope="module")
def fresh(schema):
    return cells_of(planted(seed=1), schema)


def test_trust_is_a_probability_of_the_cells_that_are_there(trust, fresh):
    values = trust.observed(fresh)
    assert np.array_equal(np.isnan(values), np.isnan(fresh))
    assert ((values[~np.isnan(values)] > 0) & (values[~np.isnan(values)] < 1)).all()


def test_swapped_cells_are_told_from_sound_ones_where_the_others_know_better(trust, fresh):
    swapped, wrong = swap(fresh, SWAPPED, np.random.default_rng(0))
    values, known = trust.observed(swapped), ~np.isnan(swapped)
    auc = [roc_auc_score(~wrong[known[:, at], at], values[known[:, at], at]) for at in range(4)]
    assert min(auc[0], auc[1], auc[3]) > 0.8
    assert abs(auc[2] - 0.5) < 0.15  # nothing tells about noise
    assert abs(values[known].mean() - (~wrong[known]).mean()) < 0.03


def test_a_value_that_does_not_fit_is_doubted_and_the_rest_suggests_another(trust, schema):
    rows = pd.DataFrame({"x": [1.2, 1.2], "twin": [11.2, 8.9], "noise": [0.0, 0.0], "sign": ["plus", "plus"]})
    cells = cells_of(rows, schema)
    values = trust.observed(cells)[:, 1]
    assert values[0] > 0.9
    assert values[1] < 0.5
    low, high = map(float, trust.suggestion(cells[1], 1).split(" to "))
    assert low < 11.2 < high
    assert low > 10
    assert trust.suggestion(cells[0], 3) == "plus"


def test_trusted_imputed_cells_are_right_more_often(trust, fresh):
    draw = np.random.default_rng(0)
    shown = np.where(draw.random(fresh.shape) < 0.3, np.nan, fresh)
    hidden = np.isnan(shown) & ~np.isnan(fresh)
    guesses = trust.guesses(shown)
    values, right = trust.imputed(shown, guesses), trust.is_right(fresh, guesses)
    assert np.isnan(values[~np.isnan(shown)]).all()
    assert roc_auc_score(right[hidden], values[hidden]) > 0.75
    assert abs(values[hidden].mean() - right[hidden].mean()) < 0.06


def test_a_cell_says_nothing_about_itself(trust, fresh):
    """Its own value does not change what the others suggest."""
    other = fresh.copy()
    other[:, 1] = 3.0
    assert np.array_equal(trust.distribution(fresh, 1), trust.distribution(other, 1))


def test_few_rows_and_a_single_column_have_no_trust(schema):
    frame = planted()[:40]
    assert CellTrust.fit(Rows.from_frame(schema, frame, schema.encode(frame)), 0) is None
    one = Schema.from_frame(planted()[["x"]])
    assert CellTrust.fit(Rows.from_frame(one, planted(), one.encode(planted())), 0) is None


@pytest.fixture(scope="module")
def model():
    frame = planted()
    labels = np.where(frame["x"].fillna(0) + frame["noise"].fillna(0) > 0, "yes", "no")
    with unchecked():
        return GaugeClassifier(epochs=2, random_state=0, verbose=False).fit(frame, labels)


def test_an_audit_hides_and_swaps_known_cells_and_compares_trust_with_the_truth(model):
    audit = model.audit(planted(seed=1))
    every = audit.iloc[0]
    assert every["auc_swapped"] > 0.75
    assert every["auc_imputed"] > 0.7
    assert 0 < every["imputed_right"] < 1
    assert max(every["error_imputed"], every["error_observed"]) < 0.1
    assert audit["column"].tolist() == ["all columns", "x", "twin", "noise", "sign"]


def test_an_explanation_says_use_and_trust_apart_and_names_what_does_not_fit(model, tmp_path):
    row = pd.DataFrame({"x": [1.2], "twin": [8.9], "noise": [np.nan], "sign": ["plus"], "id": ["case 7"]})
    explanation = model.explain(row, keep=["id"])
    frame = explanation.to_frame().set_index("column")
    assert frame["trusted"]["twin"] < 0.5
    assert frame["used"]["x"] > 0
    assert np.isnan(frame["trusted"]["noise"])
    assert set(frame["id"]) == {"case 7"}
    assert [unit.column for unit in explanation.rows[0].doubtful][-1:] == ["twin"] or "twin" in repr(explanation)


def test_without_trust_there_is_none_to_audit(model, tmp_path):
    model.save(tmp_path / "model")
    again = GaugeClassifier.load(tmp_path / "model")
    assert again.explain(planted()[:5]).to_frame().equals(model.explain(planted()[:5]).to_frame())
    again.fitted_ = replace(again.fitted_, trust=None)
    with pytest.raises(ValueError, match="this classifier has no trust to audit; fit it with trust=True on at least"):
        again.audit(planted())
    assert again.explain(planted()[:5]).to_frame()["trusted"].isna().all()
