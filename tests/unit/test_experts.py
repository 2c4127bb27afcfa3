"""Experts beside the network: each can be switched off, all are weighed by rows held out, and come back from the folder."""

import io

import numpy as np
import pandas as pd
import pytest
from helpers import python, unchecked
from PIL import Image

from gauge import GaugeClassifier
from gauge.tabular.evidence.evaluation import shown_labels
from gauge.tabular.table.inputs import class_positions

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
    assert frame["score"].isna().all()
    assert frame.loc[frame["state"] == "observed", "used"].notna().all()
    assert (frame["column"] == "photo").sum() == 6 * 16
    explanation.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "feverish" in page
    assert "<img" in page
    assert "Scores" not in page


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
        loaded = set(python("-c", code, step, cwd=tmp_path).stdout.split())
        assert loaded <= {"gauge.plus", "gauge.plus.combination"}  # which weighs the experts
        assert step == "fit" or not loaded
