"""Rows without a label are read for columns and trust, and for nothing else."""

import numpy as np
import pandas as pd
import pytest

from gauge import GaugeClassifier
from gauge.tabular.evidence.cell_trust import CellTrust

LINEAR = {"experts": "linear", "trust": False, "random_state": 0, "verbose": False}


def two_groups(labelled, unlabelled, seed=0, apart=1.0):
    """Six columns, each of which tells two groups apart a little; the labels of all rows, and of some."""
    draw = np.random.default_rng(seed)
    truth = draw.integers(0, 2, labelled + unlabelled)
    cells = draw.normal(size=(len(truth), 6)) + apart * (2 * truth[:, None] - 1)
    target = pd.Series(np.where(truth, "ill", "well"), dtype=object)
    return pd.DataFrame(cells).add_prefix("c"), target, target.where(np.arange(len(truth)) < labelled)


def test_columns_are_read_from_all_rows():
    frame, _, target = two_groups(60, 60)
    frame["ward"] = ["a", "b"] * 30 + ["c"] * 60
    model = GaugeClassifier(**LINEAR, columns={"ward": "category"}).fit(frame, target)
    assert model.fitted_.read(frame.tail(1))[1].observed()[0, -1]
    alone = GaugeClassifier(**LINEAR, columns={"ward": "category"}).fit(frame[:60], target[:60])
    assert not alone.fitted_.read(frame.tail(1))[1].observed()[0, -1]


def test_minus_one_is_a_class():
    frame, truth, _ = two_groups(60, 0)
    labels = np.where(truth == "ill", 1, -1)
    model = GaugeClassifier(**LINEAR).fit(frame, labels)
    assert model.classes_.tolist() == [-1, 1]


def test_a_column_that_no_labelled_row_has_is_reported_and_ignored(caplog):
    frame, _, target = two_groups(60, 20)
    frame["new"] = frame["c0"].where(frame.index >= 60)
    model = GaugeClassifier(**LINEAR).fit(frame, target)
    assert "column 'new' (first of 1) has no value in any row with a label and is ignored; label rows" in caplog.text
    assert model.schema_.ignored["new"] == "it is empty in all rows with a label"
    assert "new" in model.feature_names_in_


def test_rows_with_other_columns_are_reported_and_left_out(caplog):
    frame, _, target = two_groups(60, 0)
    other = pd.DataFrame({"weight": np.arange(30.0), "height": np.arange(30.0) % 7})
    GaugeClassifier(**LINEAR).fit(pd.concat([frame, other]), pd.concat([target, pd.Series([None] * 30)]))
    assert "30 of 30 rows without a label have no value in a column that is used, and are left out" in caplog.text


def test_labels_that_cannot_be_learned_are_refused():
    frame, _, target = two_groups(60, 20)
    with pytest.raises(ValueError, match="all labels are missing; give rows that have one"):
        GaugeClassifier(**LINEAR).fit(frame, pd.Series([None] * 80))
    with pytest.raises(ValueError, match="all labels are 'ill', one class only; give rows of two or more classes"):
        GaugeClassifier(**LINEAR).fit(frame, target.where(target == "ill"))


def test_trust_is_learned_from_all_rows(monkeypatch):
    frame, _, target = two_groups(60, 40)
    seen = []
    monkeypatch.setattr(CellTrust, "fit", lambda rows, seed: seen.append(len(rows)))
    model = GaugeClassifier(**LINEAR | {"trust": True}).fit(frame, target)
    assert seen == [100]
    assert model.n_rows_["train"] == 60
