"""Rows without a label are used for what they know, and columns that tell the label alone are named."""

import logging

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_wine

from gauge import GaugeClassifier
from gauge.tabular.evidence.cell_trust import CellTrust
from gauge.tabular.table.inspection import inspect_table, leak_problems

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


SOUND = ("age", "ward", "notes")


@pytest.fixture(scope="module")
def table():
    """Four columns tell the label: in other words, as a code, by a threshold with missing cells, and by what is missing."""
    draw = np.random.default_rng(0)
    ill = draw.random(200) < 0.4
    frame = pd.DataFrame({"age": draw.normal(50 + 10 * ill, 10), "ward": draw.choice(["a", "b"], 200)})
    frame["notes"] = [f"seen on day {day} and again later" for day in range(200)]
    frame["status"] = np.where(ill, draw.choice(["died", "ill"], 200), "well")
    frame["code"] = 3 + ill
    frame["titre"] = np.where(draw.random(200) < 0.3, np.nan, np.where(ill, 8, 2) + draw.normal(size=200))
    frame["discharged"] = pd.Series(draw.normal(size=200)).where(ill)
    return frame.assign(label=np.where(ill, "yes", "no"))


def test_inspect_names_every_column_that_tells_the_label_alone_and_no_other(table):
    problems = [problem for problem in inspect_table(table, target="label").problems if "tells the label" in problem]
    assert {problem.partition(":")[0] for problem in problems} == set(table) - {*SOUND, "label"}
    assert "status: tells the label alone: 100.0 % of 200 rows, where the largest class has" in problems[0]
    assert problems[0].endswith("if it follows from the label, ignore it (columns=, --column NAME=ignore)")
    assert not any("tells the label" in problem for problem in inspect_table(table).problems)


def test_fit_warns_of_the_same_columns(table, caplog):
    with caplog.at_level(logging.WARNING):
        GaugeClassifier(experts="linear", trust=False, verbose=False, random_state=0).fit(table, "label")
    named = {message.split("'")[1] for message in caplog.messages if "tells the label alone" in message}
    assert named == set(table) - {*SOUND, "label"}


def test_groups_that_nobody_named_are_reported_by_inspect_and_fit(caplog):
    draw, patients = np.random.default_rng(0), np.repeat(np.arange(60), 3)
    values = draw.normal(size=(60, 6))[patients] + 0.01 * draw.normal(size=(180, 6))
    table = pd.DataFrame(values, columns=list("abcdef")).assign(patient=patients, label=(patients * 7 % 5 > 2) * 1)
    problems = [
        "60 values with about 3.0 rows each look like an identifier of groups; keep their rows together where some are held",
        " % of the rows have a near twin; if they belong to the same patient or object, name it with groups= (--groups)",
    ]
    inspected = "\n".join(inspect_table(table, target="label").problems)
    model = GaugeClassifier(experts="linear", trust=False, verbose=False, random_state=0)
    model.fit(table, "label")
    for problem in problems:
        assert problem in inspected
        assert problem in caplog.text
    caplog.clear()
    model.fit(table, "label", groups="patient")
    assert not caplog.messages


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine])
def test_good_columns_are_not_called_leaks(load):
    data = load()
    assert not inspect_table(pd.DataFrame(data.data)).problems
    assert [list(leak_problems(cells, data.target)) for cells in data.data.T] == [[]] * data.data.shape[1]


def test_a_rare_class_needs_more_than_a_guess_of_the_largest_one():
    draw = np.random.default_rng(0)
    rare = np.arange(1000) % 50 == 0
    assert not list(leak_problems(draw.normal(size=1000), rare))
    assert not list(leak_problems(np.where(draw.random(1000) < 0.005, ~rare, rare), rare))
    assert list(leak_problems(rare * 2.0, rare))


def test_few_rows_are_not_judged():
    labels = np.arange(29) % 2
    assert not list(leak_problems(labels.astype(float), labels))
    labels = np.arange(30) % 2
    assert list(leak_problems(labels.astype(float), labels))
