"""GaugeClassifier takes any table with missing values, explains what it trusted, and comes back from its saved folder."""

import json
import logging

import numpy as np
import pandas as pd
import pytest
from helpers import clinic, python, unchecked

from gauge import GaugeClassifier

FAST = {"batch_size": 64, "learning_rate": 0.01, "random_state": 0, "verbose": False}
QUICK = FAST | {"epochs": 2}


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return tmp_path_factory.mktemp("clinic") / "images"


@pytest.fixture(scope="module")
def table(images):
    return clinic(images)


@pytest.fixture(scope="module")
def model(table, images):
    """Trained well enough to be right, on a table of everything."""
    options = FAST | {"epochs": 6, "learning_rate": 5e-3, "image_folder": images}
    return GaugeClassifier(**options).fit(table, "diagnosis")


def fit(frame, labels, **options):
    with unchecked():  # the models above check types and shapes
        return GaugeClassifier(**QUICK | options).fit(frame, labels)


def test_it_learns_from_numbers_categories_texts_and_images_with_missing_values(model, table):
    kinds = {column.name: column.kind for column in model.schema_.columns}
    assert kinds == {"age": "number", "site": "category", "photo": "image", "notes": "text", "sex": "category"}
    assert model.score(table, table["diagnosis"]) > 0.8
    assert model.missing_rates_["photo"] == pytest.approx(0.3, abs=0.1)


def test_any_column_may_be_missing_at_predict_and_new_ones_are_ignored(model, table, caplog):
    with caplog.at_level(logging.WARNING):
        probabilities = model.predict_proba(table[["age", "site", "sex"]].assign(shoe_size=42))
    assert np.allclose(probabilities.sum(1), 1)
    assert "column 'shoe_size' (first of 1) was not in training and is ignored" in caplog.text
    assert "column 'photo' (first of 2) is not in the table; counted as missing" in caplog.text


def test_a_row_without_values_gets_the_class_prior_and_a_warning(model, caplog):
    rows = pd.DataFrame({"age": [np.nan, 50.0], "sex": [None, "f"], "notes": None})
    with caplog.at_level(logging.WARNING):
        probabilities = model.predict_proba(rows)
    assert np.allclose(probabilities[0], model.class_prior_)
    assert not np.allclose(probabilities[1], model.class_prior_)
    assert "1 rows have no values and get the class prior" in caplog.text
    assert {unit.state for unit in model.explain(rows).rows[0].units} == {"missing"}


def test_a_prediction_does_not_depend_on_the_other_rows(model, table):
    whole = model.predict_proba(table[:9])
    alone = np.concatenate([model.predict_proba(table[row : row + 1]) for row in range(9)])
    assert np.allclose(whole, alone, atol=1e-5)


def test_the_same_seed_gives_the_same_classifier_and_another_one_another(table):
    rows, labels = table[["age", "site", "notes"]][:60], table["diagnosis"][:60]
    first, second, other = (fit(rows, labels, epochs=1, random_state=seed).predict_proba(rows) for seed in (1, 1, 2))
    assert np.array_equal(first, second)
    assert not np.allclose(first, other)


def test_explanations_name_every_unit_with_its_value_and_score(model, table):
    explanation = model.explain(table[:12], "diagnosis", exact=True)
    frame = explanation.to_frame()
    assert len(explanation) == 12
    assert set(frame["column"]) == {"age", "site", "photo", "notes", "sex"}
    assert set(frame["state"]) == {"observed", "missing"}
    observed = frame[frame["state"] == "observed"]
    assert (observed["score"] >= 0).all()
    assert observed["used"].notna().all()
    assert frame[frame["state"] == "missing"]["score"].isna().all()
    row = table["notes"].notna().to_numpy()[:12].argmax()
    words = [unit.value for unit in explanation.rows[row].units if unit.column == "notes"]
    assert words[-2:] == ["day", str(row)]
    units = [len(row.units) for row in explanation.rows]
    assert np.allclose(frame["probability"], np.repeat(model.predict_proba(table[:12]).max(1), units), atol=1e-6)
    assert frame["prediction"].tolist() == np.repeat(model.predict(table[:12]), units).tolist()
    assert frame["label"].tolist() == np.repeat(table["diagnosis"][:12], units).tolist()


def test_a_model_saved_in_one_process_predicts_the_same_in_another(model, table, images, tmp_path):
    table.to_pickle(tmp_path / "table.pkl")  # safe to load: this test wrote it
    code = (
        "import sys, numpy as np, pandas as pd; from gauge import GaugeClassifier\n"
        "images, table, folder = sys.argv[1:]\n"
        "model = GaugeClassifier.load(folder, image_folder=images)\n"
        "np.save('predicted.npy', model.predict_proba(pd.read_pickle(table)))"
    )
    model.save(tmp_path / "model")
    again = GaugeClassifier.load(tmp_path / "model", image_folder=images)
    pd.testing.assert_frame_equal(again.explain(table[:2]).to_frame(), model.explain(table[:2]).to_frame())
    files = sorted(path.name for path in (tmp_path / "model").iterdir())
    assert files == ["README.md", "metrics.jsonl", "model.json", "model.safetensors"]
    python("-c", code, str(images), "table.pkl", "model", cwd=tmp_path)
    assert np.allclose(np.load(tmp_path / "predicted.npy"), model.predict_proba(table), atol=1e-6)


def test_saving_replaces_a_saved_model_and_no_other_file(model, tmp_path):
    for _ in range(2):
        model.save(tmp_path / "model")
    (tmp_path / "README.md").write_text("mine")
    for folder, said in ((tmp_path, "has a 'README.md' of something else"), (tmp_path / "README.md", "is a file")):
        with pytest.raises(ValueError, match=said):
            model.save(folder)
    assert (tmp_path / "README.md").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "model"]


def test_a_flipped_byte_and_a_changed_value_are_refused(model, tmp_path):
    for name in ("weights", "values"):
        model.save(tmp_path / name)
    weights, values = tmp_path / "weights" / "model.safetensors", tmp_path / "values" / "model.json"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    values.write_text(json.dumps(json.loads(values.read_text()) | {"class_weight": [0.2, 0.2, 0.6]}))
    for path in (weights, values):
        with pytest.raises(ValueError, match=f"{path.name} is damaged: its checksum does not match"):
            GaugeClassifier.load(path.parent)


def test_no_rows_get_no_predictions_and_rows_of_another_type_are_refused(model, table):
    assert model.predict(table[:0]).shape == (0,)
    assert len(model.explain(table[:0])) == 0
    others = {"dict": {"age": [1]}, "list of mappings": [{"age": 1}], "Series": table.iloc[0], "str": "x.csv"}
    for name, rows in others.items():
        with pytest.raises(ValueError, match=f"the rows are a {name}; give a DataFrame"):
            model.predict(rows)
    with pytest.raises(ValueError, match="there is no column with the labels 'nope'"):
        model.explain(table[:2], "nope")


def test_a_time_limit_ends_training_with_a_working_model(table):
    limited = {"experts": "network", "time_limit": 0.5, "epochs": 10_000}
    model = fit(table[["age", "site", "sex"]], table["diagnosis"], **limited)
    assert model.epochs_["backbone"] < 10_000
    assert any("the time limit ended 'backbone' of the network after" in note for note in model.fitted_.notes())
    assert model.predict(table[:3]).shape == (3,)
