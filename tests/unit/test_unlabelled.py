"""Rows without a label are used where that pays on rows held out, and what they brought is said."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from helpers import unchecked
from typer.testing import CliRunner

from gauge import GaugeClassifier
from gauge.cli.main import app
from gauge.tabular import fitting
from gauge.tabular.ensemble import make_folds
from gauge.tabular.experts import Lesson, Task
from gauge.tabular.experts._bag import Bag
from gauge.tabular.experts.linear import Linear
from gauge.tabular.experts.network import NetworkExpert
from gauge.tabular.experts.trees import Trees
from gauge.tabular.fitting import _teach
from gauge.tabular.options import PRESETS
from gauge.tabular.preparation import make_recipe
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Schema
from gauge.tabular.teaching import class_shares, row_weights, shift
from gauge.training.metrics import pays

QUICK = {"experts": ["trees", "linear"], "trust": False, "random_state": 0, "verbose": False}
LINEAR = QUICK | {"experts": "linear"}


def two_groups(labelled, unlabelled, seed=0, apart=1.0):
    """Six columns, each of which tells two groups apart a little; the labels of all rows, and of some."""
    draw = np.random.default_rng(seed)
    truth = draw.integers(0, 2, labelled + unlabelled)
    cells = draw.normal(size=(len(truth), 6)) + apart * (2 * truth[:, None] - 1)
    target = pd.Series(np.where(truth, "ill", "well"), dtype=object)
    return pd.DataFrame(cells).add_prefix("c"), target, target.where(np.arange(len(truth)) < labelled)


@pytest.fixture(scope="module")
def groups():
    return two_groups(60, 200)


@pytest.fixture(scope="module")
def taught(groups):
    frame, _, target = groups
    return GaugeClassifier(**QUICK).fit(frame, target)


def task_of(frame, labels):
    schema = Schema.from_frame(frame)
    rows = Rows.from_frame(schema, frame, schema.encode(frame))
    count = len(labels)
    options = GaugeClassifier(epochs=3).get_params(deep=False)
    recipe = replace(make_recipe(options, PRESETS["default"], 0, 2), rate=0.5)
    return Task(rows.take(np.arange(count)), labels, np.ones(count), 2, recipe, torch.device("cpu"), every=rows)


def test_experts_learn_from_rows_without_a_label_where_that_pays(groups, taught):
    frame, _, target = groups
    brought = taught.unlabelled_
    assert (brought.rows, brought.held_out, brought.experts) == (200, 60, ("trees",))
    assert brought.log_loss_with < brought.log_loss_without
    assert f"on 60 rows held out (log loss {brought.log_loss_with:.3f} with, " in str(brought)
    ignored = GaugeClassifier(**QUICK, unlabelled="ignore").fit(frame, target)
    fresh, labels, _ = two_groups(500, 0, seed=1)
    losses = [
        -np.log(model.predict_proba(fresh)[np.arange(500), (labels == "well").astype(int)]).mean()
        for model in (taught, ignored)
    ]
    assert losses[0] < losses[1]


def test_ignored_rows_leave_the_model_of_the_labelled_ones(groups, caplog):
    frame, _, target = groups
    model = GaugeClassifier(**LINEAR, unlabelled="ignore").fit(frame, target)
    expected = GaugeClassifier(**LINEAR).fit(frame[:60], target[:60])
    assert np.array_equal(model.predict_proba(frame), expected.predict_proba(frame))
    assert model.unlabelled_ is None
    assert "200 rows have no label, first row 60; they are left out" in caplog.text


def test_what_does_no_harm_beyond_chance_is_said():
    frame, _, target = two_groups(60, 200, apart=0.0)
    brought = GaugeClassifier(**QUICK).fit(frame, target).unlabelled_
    assert brought.experts == ("trees",)
    verdict = "paid" if brought.log_loss_with < brought.log_loss_without else "did no harm beyond chance"
    assert f"trees learned from them as well, which {verdict} on 60 rows held out (log loss " in str(brought)


def test_linear_models_learn_from_labels_alone(groups, folded):
    labels, folds, experts, cross = folded
    task = task_of(groups[0], labels)
    whole, again, _ = _teach(task, folds, experts, cross)
    assert (whole["linear"], again["linear"]) == (experts["linear"], cross["linear"])
    assert isinstance(whole["trees"], Trees)  # the student alone, as it does no harm
    assert not np.array_equal(whole["trees"].predict(task.all_rows), experts["trees"].predict(task.all_rows))
    frame, _, target = groups
    alone = GaugeClassifier(**LINEAR).fit(frame, target).unlabelled_
    assert str(alone) == (
        "200 rows without a label: columns are read from them too, but linear models gain nothing from learning what they "
        "say themselves"
    )


def test_a_student_that_harms_alone_answers_beside_its_expert(groups, folded, monkeypatch):
    labels, folds, experts, cross = folded
    monkeypatch.setattr(fitting, "MAX_HARM_ALONE", -100.0)  # no student does so well
    whole, again, record = _teach(task_of(groups[0], labels), folds, experts, cross)
    assert isinstance(whole["trees"], Bag)
    assert whole["trees"].members[0] is experts["trees"]
    assert [each.members[0] for each in again["trees"]] == cross["trees"]
    assert record.experts == ("trees",)


@pytest.fixture(scope="module")
def folded(groups):
    """Labels, their folds, and trees and a linear model with those of every fold."""
    frame, truth, _ = groups
    labels = (truth[:60] == "ill").to_numpy(int)
    folds, task = make_folds(labels, 5, seed=0), task_of(frame, labels)
    fitted = {"trees": Trees.fit(task, folds), "linear": Linear.fit(task, folds)}
    whole, cross = ({name: each[part] for name, each in fitted.items()} for part in (0, 1))
    return labels, folds, whole, cross


def test_teachers_and_students_have_not_seen_the_rows_that_judge_them(groups, folded):
    labels, folds, experts, cross = folded
    other = labels.copy()
    other[folds[0][1][0]] = 1 - other[folds[0][1][0]]
    rows = task_of(groups[0], labels).all_rows
    first, second = (
        _teach(task_of(groups[0], each), folds, experts, cross)[1]["trees"][0].predict(rows) for each in (labels, other)
    )
    given = cross["trees"][0].predict(rows)
    # the shares of the classes in all other folds smooth the answers a little
    assert np.abs(first - second).max() < 1e-3 < np.abs(first - given).max()


def test_where_it_harms_the_experts_are_those_of_the_labelled_rows(groups, folded):
    labels, folds, experts, cross = folded
    other = labels.copy()
    other[folds[0][1]] = 1 - other[folds[0][1]]
    same, again, record = _teach(task_of(groups[0], other), folds, experts, cross)
    assert (same, again, record.experts) == (experts, cross, ())
    assert record.log_loss_with > record.log_loss_without
    assert "200 rows without a label: learning from them did not pay on 60 rows held out (log loss " in str(record)
    assert str(record).endswith("without), so they are not used for it")


def test_a_taught_row_counts_its_weight_over_all_classes(groups):
    frame, truth, _ = groups
    task = task_of(frame, (truth[:60] == "ill").to_numpy(int))
    targets = np.array([[0.25, 0.75], [1.0, 0.0]])
    taught = Lesson(np.array([60, 61]), targets, np.array([2.0, 1.0])).as_task(task, np.arange(60))
    assert taught.labels[60:].tolist() == [0, 1, 0]
    assert taught.weights[60:].tolist() == [0.5, 1.5, 1.0]
    assert np.array_equal(taught.rows.cells[60:], task.all_rows.cells[[60, 60, 61]])


def test_the_network_learns_what_it_is_taught(groups):
    frame, truth, _ = groups
    task = task_of(frame[:160], (truth[:60] == "ill").to_numpy(int))
    fold, rows, answers = (np.arange(48), np.arange(48, 60)), np.arange(60, 160), []
    with unchecked():
        for ill in (0.1, 0.9):
            lesson = Lesson(rows, np.tile([1 - ill, ill], (100, 1)), np.ones(100))
            student = NetworkExpert.learn_again(task, fold, lesson)
            answers.append(np.exp(student.predict(task.all_rows.take(rows)))[:, 1].mean())
    assert student.training.rows == 148
    assert student.training.taught == 100
    assert answers[1] > answers[0] + 0.1


def test_other_class_shares_are_estimated_and_weighed_out():
    draw, prior = np.random.default_rng(0), np.array([0.5, 0.5])

    def answers(count, share):
        ill = draw.random(count) < share
        odds = np.exp(2 * (draw.normal(size=count) + 2 * ill - 1))  # exact for equal shares
        return np.stack([1 / (1 + odds), odds / (1 + odds)], 1)

    ratios, shares = shift(answers(2000, 0.9), answers(200, 0.5), prior)
    assert shares[1] == pytest.approx(0.9, abs=0.05)
    new = answers(2000, 0.9)
    assert (new * row_weights(new, ratios)[:, None]).mean(0) == pytest.approx([0.5, 0.5], abs=0.06)
    ratios, shares = shift(answers(2000, 0.5), answers(200, 0.5), prior)
    assert (ratios.tolist(), shares) == ([1.0, 1.0], ())


def test_a_teacher_that_knows_little_does_not_tell_other_class_shares():
    draw, prior = np.random.default_rng(2), np.array([0.55, 0.45])
    likely = 0.444 + 0.05 * draw.normal(size=477), 0.436 + 0.08 * draw.normal(size=50)
    new, known = (np.stack([1 - each, each], 1) for each in likely)
    shares = [class_shares(each, prior)[1] for each in (new, known)]
    assert shares[0] > 50 * shares[1]  # the most likely ones, although the answers are all but the same
    assert shift(new, known, prior)[0].tolist() == [1.0, 1.0]


def test_learning_pays_beyond_its_standard_error_only():
    assert not pays(np.array([0.3, -0.25, 0.1]))
    assert not pays(np.array([0.5]))
    assert pays(np.array([0.3, 0.25, 0.1]))


def test_columns_are_read_from_all_rows():
    frame, _, target = two_groups(60, 60)
    frame["ward"] = ["a", "b"] * 30 + ["c"] * 60
    model = GaugeClassifier(**LINEAR, columns={"ward": "category"}).fit(frame, target)
    assert model.fitted_.read(frame.tail(1))[1].observed()[0, -1]
    alone = GaugeClassifier(**LINEAR, columns={"ward": "category"}, unlabelled="ignore").fit(frame, target)
    assert not alone.fitted_.read(frame.tail(1))[1].observed()[0, -1]


def test_minus_one_is_a_class():
    frame, truth, _ = two_groups(60, 0)
    labels = np.where(truth == "ill", 1, -1)
    model = GaugeClassifier(**LINEAR).fit(frame, labels)
    assert model.classes_.tolist() == [-1, 1]
    assert model.unlabelled_ is None


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
    model = GaugeClassifier(**LINEAR).fit(pd.concat([frame, other]), pd.concat([target, pd.Series([None] * 30)]))
    assert "30 of 30 rows without a label have no value in a column that is used, and are left out" in caplog.text
    assert model.unlabelled_ is None


def test_labels_that_cannot_be_learned_are_refused():
    frame, _, target = two_groups(60, 20)
    with pytest.raises(ValueError, match="all labels are missing; give rows that have one"):
        GaugeClassifier(**LINEAR).fit(frame, pd.Series([None] * 80))
    with pytest.raises(ValueError, match="all labels are 'ill', one class only; give rows of two or more classes"):
        GaugeClassifier(**LINEAR).fit(frame, target.where(target == "ill"))


def test_too_few_labelled_rows_and_too_little_time_are_said():
    frame, _, target = two_groups(30, 20)
    model = GaugeClassifier(**LINEAR).fit(frame, target)
    assert "20 rows without a label: there are too few labelled rows to tell" in str(model.unlabelled_)
    frame, _, target = two_groups(60, 20)
    model = GaugeClassifier(**LINEAR, time_limit=1e-9).fit(frame, target)
    assert str(model.unlabelled_) == "20 rows without a label: the time limit left no time to learn from them"


def test_what_they_were_used_for_is_saved(taught, groups, tmp_path):
    frame = groups[0]
    taught.save(tmp_path)
    assert str(taught.unlabelled_) in (tmp_path / "README.md").read_text()
    again = GaugeClassifier.load(tmp_path)
    assert again.unlabelled_ == taught.unlabelled_
    assert np.array_equal(again.predict_proba(frame), taught.predict_proba(frame))


def test_gauge_fit_says_what_they_brought(tmp_path):
    frame, _, target = two_groups(60, 20)
    frame.assign(target=target).to_csv(tmp_path / "table.csv", index=False)
    options = ["--experts", "linear", "--out", str(tmp_path / "model"), "--seed", "0"]
    with unchecked():
        result = CliRunner().invoke(app, ["fit", str(tmp_path / "table.csv"), "--target", "target", *options])
    assert result.exit_code == 0, result.output
    assert "20 rows without a label: " in result.stderr
