"""Scores: what texts, images and rare categories say about the class, by models that have not seen the row."""

import io
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from helpers import unchecked
from PIL import Image
from sklearn.metrics import roc_auc_score

from gauge import GaugeClassifier
from gauge.tabular.experts import Saved, Task
from gauge.tabular.experts._scores import CrossFit, every_source
from gauge.tabular.experts.trees import Trees
from gauge.tabular.preparation import PRESETS, make_recipe
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Schema
from gauge.tabular.table.splits import Splits

ANY = Splits()
QUICK = {"experts": "trees", "trust": False, "random_state": 0, "n_jobs": 1, "verbose": False}
WORDS = np.array([f"word{number}" for number in range(60)])


def task_of(frame, labels, splits=ANY, **kinds):
    schema = Schema.from_frame(frame, kinds)
    rows = Rows.from_frame(schema, frame, schema.encode(frame))
    recipe = make_recipe(GaugeClassifier().get_params(deep=False), PRESETS["default"], 0, 2)
    return Task(rows, labels, np.ones(len(labels)), 2, recipe, torch.device("cpu"), splits=splits)


def cross_fit(task):
    return CrossFit(task, every_source(task.rows.schema, task.terms, task.pixels))


def noise(rows=240):
    """Texts and categories that a model can memorise, and labels that have nothing to do with them."""
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"place": [f"place {number // 2}" for number in draw.permutation(rows)]})
    frame["note"] = [" ".join(draw.choice(WORDS, 12)) + f" only{number // 2}" for number in range(rows)]
    return frame, draw.integers(0, 2, rows)


def test_scores_of_training_rows_are_not_memorised():
    frame, labels = noise()
    task = task_of(frame, labels)
    scores, columns = cross_fit(task)(np.arange(len(labels)))
    assert list(scores.sources) == ["place", "note"]
    memorised = scores.columns(task.rows)
    for column in range(scores.count):
        assert roc_auc_score(labels, memorised[:, column]) > 0.9
        assert abs(roc_auc_score(labels, columns[:, column]) - 0.5) < 0.1


def test_scores_of_a_fold_do_not_know_the_labels_held_out():
    frame, labels = noise()
    train, held_out = np.arange(180), np.arange(180, 240)
    other = labels.copy()
    other[held_out] = 1 - other[held_out]
    (first, columns), (second, changed) = (cross_fit(task_of(frame, each))(train) for each in (labels, other))
    assert np.array_equal(columns, changed)
    for name in first.learned:
        assert np.array_equal(first.learned[name].coefficients, second.learned[name].coefficients)


def test_rows_of_a_group_do_not_tell_the_scores_of_each_other():
    people = np.repeat(np.arange(30), 4)
    labels = people % 2
    frame = pd.DataFrame({"name": [f"person {person}" for person in people], "x": np.arange(120.0)})
    apart = cross_fit(task_of(frame, labels, name="category"))(np.arange(120))[1]
    together = cross_fit(task_of(frame, labels, Splits(people), name="category"))(np.arange(120))[1]
    assert roc_auc_score(labels, apart[:, 0]) > 0.9
    assert np.allclose(together, 0.0, atol=1e-6)


def png(pixels):
    buffer = io.BytesIO()
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture(scope="module")
def told():
    """What a text and an image tell together; a number tells nothing."""
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 2, 300)
    frame = pd.DataFrame({"x": draw.normal(size=300)})
    frame["note"] = [
        " ".join([*draw.choice(WORDS[:40], 8), *draw.choice(WORDS[20 * each :][:40], 6)]) for each in labels
    ]
    shade = 128 + np.where(labels, 12, -12) + draw.normal(0, 20, 300)
    frame["photo"] = [png(draw.normal(each, 30, (16, 16))) for each in shade]
    frame.loc[::10, "note"] = None
    with unchecked():
        model = GaugeClassifier(**QUICK, columns={"photo": "image"}, image_size=16).fit(frame[:200], labels[:200])
    return model, frame[200:], labels[200:]


def test_trees_read_texts_and_images_and_their_effects_belong_to_these_columns(told):
    model, frame, labels = told
    with unchecked():
        assert model.score(frame, labels) > 0.8
        importance = model.importance(frame, labels)
    assert set(importance["column"][:2]) == {"note", "photo"}
    assert set(model.ensemble_.experts["trees"].scores.sources) == {"note", "photo"}


def test_a_score_is_missing_where_its_text_is(told):
    model, frame, _ = told
    trees = model.ensemble_.experts["trees"]
    with unchecked():
        rows = model.fitted_.read(frame)[1]
        columns = trees.scores.columns(rows)
        hidden = trees.scores.columns(rows.without("note"))
    assert np.array_equal(np.isnan(columns[:, 0]), frame["note"].isna().to_numpy())
    assert np.isnan(hidden[:, 0]).all()
    assert np.array_equal(hidden[:, 1], columns[:, 1])


def test_rows_that_two_experts_read_are_read_once(told, monkeypatch):
    model, frame, _ = told
    trees = model.ensemble_.experts["trees"]
    with unchecked():
        rows = model.fitted_.read(frame)[1]
        trees.predict(rows)
        monkeypatch.setattr(type(trees.terms.vectorizers["note"]), "transform", None)
        again = Trees.load(Saved(trees.save().tensors, trees.save().metadata), model.schema_)
        assert np.array_equal(again.predict(rows), trees.predict(rows))


def test_a_text_is_read_once_however_often_its_row_is_taken_and_hidden(monkeypatch):
    frame = pd.DataFrame({"note": [f"{word} again {word}" for word in WORDS], "size": np.arange(60.0)})
    task = task_of(frame, np.arange(60) % 2, note="text", size="number")
    terms, read = task.terms, []
    assert replace(task, weights=np.ones(60)).terms is terms  # of another expert
    transform = terms.vectorizers["note"].transform
    monkeypatch.setattr(terms.vectorizers["note"], "transform", lambda texts: read.extend(texts) or transform(texts))
    some = task.rows.take(np.arange(10, 40))
    keep = np.random.default_rng(0).random((60, 2)) < 0.5
    hidden = task.rows.keep(keep)
    for rows in (some, hidden, hidden.take(np.arange(20)), some.without("note")):
        expected = transform(rows.texts["note"])
        assert np.array_equal(terms.vectors(rows, "note").toarray(), expected.toarray())
    assert sorted(read) == sorted({*frame["note"][10:40], *frame["note"][keep[:, 0]], ""})


def test_saved_scores_of_other_columns_are_refused(told):
    model, _, _ = told
    trees = model.ensemble_.experts["trees"]
    saved = trees.save()
    short = {**saved.tensors, "scores.coefficients.note": saved.tensors["scores.coefficients.note"][1:]}
    with (
        unchecked(),
        pytest.raises(ValueError, match="the scores of column 'note' are not those of its values; fit the"),
    ):
        Trees.load(saved._replace(tensors=short), model.schema_)


def places(rows, seed):
    """Each of 120 places has a tendency; most of them are rare."""
    draw, tendency = np.random.default_rng(seed), np.random.default_rng(9).random(120) < 0.5
    place = np.minimum(draw.geometric(0.02, rows) - 1, 119)
    labels = np.where(draw.random(rows) < 0.85, tendency[place], ~tendency[place])
    frame = pd.DataFrame({"place": [f"place {each}" for each in place], "x": draw.normal(size=rows)})
    return frame.mask(draw.random(frame.shape) < 0.1), labels.astype(int)


@pytest.mark.parametrize("expert", ["trees", "linear"])
def test_experts_tell_rare_categories_apart_and_they_are_not_missing(expert):
    frame, labels = places(600, seed=0)
    with unchecked():
        model = GaugeClassifier(**QUICK | {"experts": expert}, max_categories=10).fit(frame, labels)
        column = model.schema_.table[0]
        assert (len(column.words), column.cardinality) == (10, 11)
        assert model.missing_rates_["place"] == pytest.approx(frame["place"].isna().mean(), abs=1e-6)
        test, truth = places(600, seed=1)
        rows = model.fitted_.read(test)[1]
        assert np.array_equal(rows.observed()[:, 0], test["place"].notna().to_numpy())
        rare = (rows.cells[:, 0] == column.rare_code).nonzero()[0]
        assert len(rare) > 300
        assert (model.predict(test)[rare] == truth[rare]).mean() > 0.7
        notes = model.fitted_.notes()
    assert "% of its values are rare; they are read, and do not count as missing" in notes[0]


def test_a_category_that_training_has_not_seen_is_rare_where_others_are_and_the_page_says_so(caplog):
    frame, labels = places(200, seed=0)
    with unchecked():
        model = GaugeClassifier(**QUICK, max_categories=10).fit(frame, labels)
        caplog.clear()
        kept = model.schema_.table[0].words[0]
        new = pd.DataFrame({"place": ["the moon", kept, None], "x": [0.0, 0.0, 0.0]})
        fitted = model.fitted_
        assert fitted.read(new)[1].observed()[:, 0].tolist() == [True, True, False]
        assert "was not seen" not in caplog.text
        shown = [[unit.value for unit in row.units if unit.column == "place"] for row in fitted.evidence(new)]
        assert shown == [["the moon (rare)"], [kept], [""]]
        assert "place" not in model.advise(new[:1]).to_string()
        moved = model.drift(pd.DataFrame({"place": ["the moon"] * 100, "x": np.arange(100.0)}))
    assert "'a rare value' in 100 % of the values instead of 6" in str(moved)
    assert "never saw" not in str(moved)


def test_the_limit_of_categories_has_a_rule():
    with pytest.raises(
        ValueError, match="The 'max_categories' parameter of GaugeClassifier must be an integer from 2 to 4096"
    ):
        GaugeClassifier(max_categories=1).fit(*places(60, seed=0))
