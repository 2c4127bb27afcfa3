"""Rows of one patient stay together, and the latest rows are held out, wherever a fit divides the rows."""

import logging

import numpy as np
import pandas as pd
import pytest
from helpers import mistake, unchecked, visits

from gauge import GaugeClassifier
from gauge.tabular.experts.linear import Linear

LINEAR = {"experts": "linear", "trust": False, "random_state": 0, "verbose": False}


@pytest.fixture
def folds(monkeypatch):
    """The folds that experts are fitted in, as they are asked for."""
    seen = []
    fit = Linear.fit.__func__

    def watched(cls, task, folds):
        seen.extend(folds)
        return fit(cls, task, folds)

    monkeypatch.setattr(Linear, "fit", classmethod(watched))
    return seen


def test_a_fit_keeps_patients_together_and_does_not_learn_from_their_names(folds):
    table = visits(240)
    table.loc[3, "diagnosis"] = None  # rows without a label are left out of the groups too
    with unchecked():
        model = GaugeClassifier(**LINEAR, columns={"date": "ignore"}).fit(table, "diagnosis", groups="patient")
    patients = table["patient"].drop(index=3).to_numpy()
    assert len(folds) == 5
    for train, held_out in folds:
        assert not set(patients[train]) & set(patients[held_out])
    assert "patient" in model.schema_.ignored
    assert "patient" not in [column.name for column in model.schema_.columns]


def test_a_fit_with_times_is_validated_on_the_latest_rows(folds, caplog):
    table = visits(240).sample(frac=1, random_state=0).reset_index(drop=True)
    table["date"] = pd.to_datetime(table["date"]).dt.strftime("%d.%m.%Y")
    table.loc[0, "date"] = None
    with unchecked(), caplog.at_level(logging.WARNING):
        GaugeClassifier(**LINEAR, columns={"patient": "ignore"}).fit(table, "diagnosis", time="date")
    days = pd.to_datetime(table["date"], format="%d.%m.%Y")
    ((train, held_out),) = folds
    assert len(held_out) == 48
    assert days[held_out].min() > days[train].max()
    assert "1 rows have no time that can be read; they are learned from, never held out" in caplog.text


def test_validation_is_honest_about_new_patients_only_with_groups():
    """The label is the patient's alone: what is learned about one says nothing of another."""
    draw = np.random.default_rng(0)
    patient = np.repeat(np.arange(40), 6)
    table = pd.DataFrame({"code": [f"c{number}" for number in patient], "x": draw.normal(size=240)})
    table["ill"] = (draw.random(40) < 0.5)[patient]
    with unchecked():
        apart, together = (
            GaugeClassifier(**LINEAR, columns={"code": "category"}).fit(table, "ill", groups=groups)
            for groups in (None, patient)
        )
    scores = [model.leaderboard_.set_index("expert").loc["combined", "auc"] for model in (apart, together)]
    assert scores[0] > 0.95
    assert scores[1] < 0.75


def test_wrong_groups_and_times_are_refused_with_a_reason(tmp_path, caplog):
    table = visits(80)
    model = GaugeClassifier(**LINEAR)
    for options, message in (
        ({"groups": "patients"}, "patients"),
        ({"groups": np.zeros(80)}, "all rows belong to one group, and none could be held out"),
        ({"groups": [1, 2]}, "there are 2 groups for 80 rows; give a group for each row"),
        ({"time": "sex"}, "the times such as '[fm]' are neither dates nor numbers"),
        ({"time": np.zeros(80)}, "the latest rows are all rows"),
    ):
        with unchecked(), pytest.raises(ValueError, match=message):
            model.fit(table, "diagnosis", **options)
    with unchecked():
        model.fit(table, "diagnosis", groups=table["patient"][::-1])
    assert "groups and the table have the same index in different orders; they are matched by position" in caplog.text
    table.to_csv(tmp_path / "table.csv", index=False)
    with unchecked(), pytest.raises(ValueError, match="groups and time need all rows in memory"):
        model.fit(tmp_path / "table.csv", "diagnosis", groups="patient")
    said = mistake("fit", "table.csv", "--target", "diagnosis", "--groups", "nobody", "--out", "model", cwd=tmp_path)
    assert "nobody" in said
