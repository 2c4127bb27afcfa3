"""Experts beside the network: each can be switched off, all are weighed by rows held out, and come back from the folder."""

import io
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from helpers import unchecked
from PIL import Image

from gauge import GaugeClassifier
from gauge.deploy.scoring import predict_table
from gauge.tabular.evidence.evaluation import shown_labels
from gauge.tabular.experts._ensemble import choose_experts
from gauge.tabular.table.inputs import class_positions
from gauge.tabular.table.schema import Schema
from gauge.tabular.table.splits import Splits

QUICK = {"epochs": 2, "batch_size": 64, "random_state": 0, "verbose": False}


def planted(rows: int = 300, seed: int = 0) -> pd.DataFrame:
    """`strong` and the word of `notes` decide; `weak` helps; `noise` and `hue` say nothing. Some cells are missing."""
    draw = np.random.default_rng(seed)
    strong, weak = draw.normal(size=rows), draw.normal(size=rows)
    sick = draw.random(rows) < 0.5
    score = 2 * strong + 0.8 * weak + 2.5 * np.where(sick, 1, -1) + 0.5 * draw.normal(size=rows)
    filler = [f"{'as seen before ' * 17} on day {number}" for number in draw.integers(0, 300, rows)]
    words = np.where(sick, "feverish", "rested")  # after the words that the network reads
    frame = pd.DataFrame({"strong": strong, "weak": weak, "noise": draw.normal(size=rows)})
    frame["hue"] = draw.choice(["red", "blue"], rows)
    frame["notes"] = [f"{text} {word}" for text, word in zip(filler, words, strict=True)]
    frame = frame.mask(draw.random(frame.shape) < 0.1)
    return frame.assign(ill=np.where(score > 0, "yes", "no"))


@pytest.fixture(scope="module")
def table():
    return planted()


@pytest.fixture(scope="module")
def model(table):
    return fit(table, "ill")


@pytest.fixture(scope="module")
def fresh():
    return planted(400, seed=1)


def png(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


def fit(frame, labels, **options):
    with unchecked():
        return GaugeClassifier(**QUICK | options).fit(frame, labels)


def test_the_leaderboard_scores_every_expert_and_their_weights_add_up_to_one(model):
    board = model.leaderboard_.set_index("expert")
    assert set(board.index) == {"network", "trees", "linear", "combined"}
    assert board["log_loss"].is_monotonic_increasing
    assert board.drop("combined")["weight"].sum() == pytest.approx(1)


def test_words_far_into_a_text_count_through_the_linear_expert(model, fresh):
    assert model.evaluate(fresh)["auc"] > 0.9
    alone = {"yes": "feverish", "no": "rested"}
    rows = pd.DataFrame({"notes": [f"{'as seen before ' * 17} {word}" for word in alone.values()]})
    rows = rows.reindex(columns=model.feature_names_in_)
    probabilities = model.predict_proba(rows)[:, list(model.classes_).index("yes")]
    assert probabilities[0] > 0.6 > 0.4 > probabilities[1]


def test_texts_that_the_network_does_not_read_whole_are_reported_once(table, caplog):
    fit(table[["notes", "ill"]][:60], "ill", experts="network", epochs=1)
    expected = "'notes': the network reads the first 48 words; 100 % of the texts are longer, only trees and the linear"
    assert [expected in message for message in caplog.messages if "notes" in message] == [True]
    caplog.clear()
    fit(table[["notes", "ill"]], "ill", experts="linear")
    assert "the network reads" not in caplog.text


@pytest.mark.parametrize("name", ["trees", "linear"])
def test_trees_and_linear_models_read_components_of_images(tmp_path, name):
    draw = np.random.default_rng(0)
    bright = draw.random(80) < 0.5
    images = [png(pixels) for pixels in draw.integers(0, 100, (80, 8, 8)) + 100 * bright[:, None, None]]
    frame = pd.DataFrame({"photo": [*images[:70], *[None] * 10], "noise": draw.normal(size=80)})
    model = fit(frame, bright, experts=name, columns={"photo": "image"})
    assert (model.predict(frame)[:70] == bright[:70]).mean() > 0.9
    model.save(tmp_path)
    np.testing.assert_array_equal(GaugeClassifier.load(tmp_path).predict_proba(frame), model.predict_proba(frame))


def test_images_that_are_all_alike_or_absent_but_for_one_say_nothing(table):
    photo = png(np.full((8, 8), 7))
    gone = [photo] + ["nowhere.png"] * 99
    alike = table[["ill", "notes"]][:100].assign(photo=photo, gone=gone)
    model = fit(alike, "ill", experts="trees", columns={"photo": "image", "gone": "image"})
    other = alike[:1].assign(photo=png(np.arange(64).reshape(8, 8)))
    np.testing.assert_allclose(model.predict_proba(other), model.predict_proba(alike[:1]))
    absent = fit(alike.drop(columns="photo"), "ill", experts="trees", columns={"gone": "image"})
    assert np.isfinite(absent.predict_proba(alike[:2])).all()


@pytest.mark.parametrize("experts", ["network", ["linear", "trees"], "trees"])
def test_any_expert_can_be_switched_off_and_the_rest_survives_saving(table, tmp_path, experts):
    rows = table[:100]
    model = fit(rows, "ill", experts=experts)
    assert set(model.ensemble_.experts) == {experts} if isinstance(experts, str) else set(experts)
    model.save(tmp_path)
    again = GaugeClassifier.load(tmp_path)
    assert np.array_equal(again.predict_proba(rows), model.predict_proba(rows))
    assert again.leaderboard_["expert"].tolist() == model.leaderboard_["expert"].tolist()
    if "network" not in experts:
        with pytest.raises(AttributeError, match="this classifier has no network"):
            _ = again.model_


def test_without_the_network_a_row_is_explained_by_the_effects_of_blanking_its_cells(table, tmp_path):
    rows = table[:100]
    rows = rows.assign(photo=[png(np.full((8, 8), 200 * (label == "yes"))) for label in rows["ill"]])
    model = fit(rows, "ill", experts=["trees", "linear"], columns={"photo": "image"})
    explanation = model.explain(rows[:6], "ill", exact=True)
    frame, chosen = explanation.to_frame(), (np.arange(6), model.predict_proba(rows[:6]).argmax(1))
    whole = model.predict_proba(rows[:6])[chosen]
    for name in ("strong", "notes", "photo"):
        blank = model.predict_proba(rows[:6].assign(**{name: None}))[chosen]
        assert np.allclose(explanation.effects[name], whole - blank)
    assert frame[["score", "gate"]].isna().all(axis=None)
    assert frame.loc[frame["state"] == "observed", "used"].notna().all()
    assert (frame["column"] == "photo").sum() == 6 * 16
    explanation.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "feverish" in page
    assert "<img" in page
    assert "Gates" not in page


def test_the_whole_ensemble_comes_back_from_its_folder(model, table, tmp_path):
    model.save(tmp_path)
    again = GaugeClassifier.load(tmp_path)
    assert np.array_equal(again.predict_proba(table), model.predict_proba(table))
    assert again.leaderboard_.round(9).equals(model.leaderboard_.round(9))


def test_trees_that_were_changed_are_refused(model, tmp_path):
    model.save(tmp_path)
    weights = tmp_path / "model.safetensors"
    content, leaves = weights.read_bytes(), model.ensemble_.experts["trees"].forest.value.tobytes()
    assert content.count(leaves) == 1
    weights.write_bytes(content.replace(leaves, bytes(len(leaves))))
    with pytest.raises(ValueError, match="model.safetensors is damaged: its checksum does not match"):
        GaugeClassifier.load(tmp_path)


def test_experts_that_read_no_column_are_left_out_or_refused():
    schema = Schema.from_frame(pd.DataFrame({"notes": [f"as seen on day {number}" for number in range(30)]}))
    assert choose_experts("auto", schema) == ("network", "linear")
    with pytest.raises(ValueError, match="experts='trees' reads no column of this table .text.; add 'network'"):
        choose_experts("trees", schema)
    with pytest.raises(ValueError, match="there is no expert 'forest'"):
        choose_experts(["network", "forest"], schema)


def test_class_weights_move_decisions_and_leave_probabilities_alone(table):
    labels = table["ill"].where(table.index % 4 == 0, "no")
    frame = table.drop(columns="ill")
    plain, balanced = (fit(frame, labels, experts=["trees", "linear"], class_weight=w) for w in (None, "balanced"))
    assert np.array_equal(plain.predict_proba(frame), balanced.predict_proba(frame))
    assert (balanced.predict(frame) == "yes").mean() > (plain.predict(frame) == "yes").mean()
    assert plain.predict_proba(frame)[:, 1].mean() == pytest.approx((labels == "yes").mean(), abs=0.05)


def test_importance_ranks_planted_columns_above_noise(model, fresh):
    with unchecked():
        labelled, unlabelled = model.importance(fresh, "ill"), model.importance(fresh.drop(columns="ill"))
    for ranked in (labelled, unlabelled):
        assert set(ranked["column"][:3]) == {"strong", "notes", "weak"}
        assert (ranked["low"] <= ranked["importance"]).all()
        assert (ranked["importance"] <= ranked["high"]).all()
    ranked = labelled.set_index("column")
    assert (ranked.loc[["strong", "notes", "weak"], "low"] > 0).all()
    assert (ranked.loc[["noise", "hue"], "low"] <= 0).all()
    assert (ranked.loc[["noise", "hue"], "importance"] <= 0.005).all()


def test_the_effect_of_a_cell_is_what_its_loss_takes_from_the_probability(model, table):
    rows = table.drop(columns="ill")[:20]
    frame = model.explain(rows).to_frame()
    lost = model.predict_proba(rows.assign(strong=np.nan))
    before = model.predict_proba(rows)
    chosen = np.arange(20), before.argmax(1)
    cells = frame[(frame["column"] == "strong") & (frame["state"] == "observed")]
    expected = (before[chosen] - lost[chosen])[rows["strong"].notna()]
    assert np.allclose(cells["used"].astype(float), expected)
    assert (cells["used"] < 0).any()  # some values speak against the prediction
    assert (cells["used"] > 0).any()


def test_the_effect_of_a_word_comes_from_a_text_without_it(model):
    rows = pd.DataFrame({"strong": [0.1], "notes": ["the patient is feverish"]}).reindex(
        columns=model.feature_names_in_
    )
    words = model.explain(rows, exact=True).to_frame()
    words = words[words["column"] == "notes"].set_index("value")["used"]
    assert words.abs().idxmax() == "feverish"
    without = model.predict_proba(rows.assign(notes="the patient is"))
    before = model.predict_proba(rows)
    assert words["feverish"] == pytest.approx(before.max() - without[0, before[0].argmax()], abs=1e-6)


def test_evaluate_has_intervals_a_confusion_matrix_and_baselines(model, fresh):
    evaluation = model.evaluate(fresh)
    assert set(evaluation.scores["model"]) == {"classifier", "class shares", "boosted trees"}
    assert (evaluation.scores["low"] <= evaluation.scores["value"] + 1e-9).all()
    assert evaluation["accuracy"] == pytest.approx(model.score(fresh.drop(columns="ill"), fresh["ill"]))
    assert evaluation.confusion.to_numpy().sum() == len(fresh)
    assert np.trace(evaluation.confusion) == pytest.approx(evaluation["accuracy"] * len(fresh))
    assert "calibration error" in str(evaluation)
    with pytest.raises(ValueError, match="the label of row 0 is 'maybe' .1 such in all., which training never saw"):
        model.evaluate(fresh[:1].assign(ill="maybe"))
    with pytest.raises(ValueError, match="the label of row 0 is 7.5 "):
        model.evaluate(fresh[:1].assign(ill=7.5))
    with pytest.raises(ValueError, match="there is no column with the labels 'ill'"):
        model.evaluate(fresh.drop(columns="ill"))


@pytest.mark.parametrize(
    ("classes", "written"),
    [
        ([0, 1], ["0", "1"]),
        ([0, 1], [0.0, 1.0]),
        ([False, True], ["False", "True"]),
        (["False", "True"], [False, True]),
    ],
)
def test_a_class_is_recognised_however_a_file_writes_it(classes, written):
    labels = pd.Series([written[1], None, written[0], " ", "other"], dtype=object)
    assert class_positions(np.array(classes), labels).tolist() == [1, -1, 0, -1, -1]
    assert shown_labels(np.array(classes), labels) == [str(classes[1]), None, str(classes[0]), None, "other"]


def test_predictions_of_a_csv_file_are_compared_with_its_integer_labels(tmp_path):
    table = pd.DataFrame({"x": [0.1, 0.2, 3.3, 3.4] * 15, "y": [0, 0, 1, 1] * 15})
    table.assign(y=table["y"].astype("Int64").where(table.index > 3)).to_csv(tmp_path / "new.csv", index=False)
    model = GaugeClassifier(experts=["linear"], **QUICK).fit(table, "y")
    count = predict_table(model.fitted_, tmp_path / "new.csv", print)
    assert (count.rows, count.labelled) == (60, 56)
    assert count.right == 56


def test_texts_that_differ_as_classes_are_not_confused():
    assert class_positions(np.array(["1", "1.0"]), pd.Series(["1.0", "1", 1.0], dtype=object)).tolist() == [1, 0, -1]


def test_rows_without_a_label_are_neither_evaluated_nor_called_wrong(model, fresh, caplog):
    labels = fresh["ill"].astype(object)
    labels.iloc[[0, 3]] = [None, ""]
    some = fresh.assign(ill=labels)
    with caplog.at_level("WARNING"):
        evaluation = model.evaluate(some)
    assert f"2 rows have no label, first row {fresh.index[0]}; they are left out" in caplog.text
    assert str(evaluation) == str(model.evaluate(fresh.drop(fresh.index[[0, 3]])))
    explained = model.explain(some[:4], "ill")
    assert [row.label is None for row in explained.rows] == [True, False, False, True]
    with pytest.raises(ValueError, match="all labels are missing; give rows that have one"):
        model.evaluate(fresh.assign(ill=None))


def test_folds_hold_out_every_row_once_except_the_only_one_of_a_class():
    labels = np.array([0] * 20 + [1] * 9 + [2])
    folds = Splits().folds(labels, 5, seed=0)
    held_out = np.concatenate([rows for _, rows in folds])
    assert sorted(held_out) == list(range(29))
    for train, rows in folds:
        assert not set(train) & set(rows)
        assert set(labels[train]) == {0, 1, 2}


def test_a_model_without_a_network_is_fitted_loaded_and_asked_without_its_code(tmp_path):
    code = (
        "import sys, pandas as pd; from gauge import GaugeClassifier\n"
        "rows = pd.DataFrame({'age': range(60), 'ward': list('abc') * 20})\n"
        "labels = [age // 2 % 2 for age in range(60)]\n"
        "if sys.argv[1] == 'fit':\n"
        "    GaugeClassifier(preset='fast', random_state=0, verbose=False).fit(rows, labels).save('model')\n"
        "else:\n"
        "    GaugeClassifier.load('model').predict(rows)\n"
        "print(*(name for name in sys.modules if name.startswith(('gauge.paper', 'gauge.plus'))))"
    )
    for step in ("fit", "predict"):
        command = [sys.executable, "-c", code, step]
        done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
        loaded = set(done.stdout.split())
        assert loaded <= {"gauge.plus", "gauge.plus.combination"}  # which weighs the experts
        assert step == "fit" or not loaded
