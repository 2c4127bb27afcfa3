"""GaugeClassifier takes any table with missing values, explains what it trusted, and comes back from its saved folder."""

import json
import logging
import re
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from helpers import clinic, unchecked

from gauge import GaugeClassifier
from gauge.tabular.saved.files import checksum

FAST = {"batch_size": 64, "learning_rate": 0.01, "random_state": 0, "verbose": False}
QUICK = FAST | {"epochs": 2}
NETWORK = {"experts": "network", "trust": False, "epochs": 1}  # the expert that draws


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return tmp_path_factory.mktemp("clinic") / "images"


@pytest.fixture(scope="module")
def table(images):
    return clinic(images)


@pytest.fixture(scope="module")
def numbers(table):
    """The columns that train fast; every row has its label in `table`."""
    return table[["age", "site"]]


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


def test_explanations_name_every_unit_with_its_value_gate_and_attention(model, table):
    explanation = model.explain(table[:12], "diagnosis", exact=True)
    frame = explanation.to_frame()
    assert len(explanation) == 12
    assert set(frame["column"]) == {"age", "site", "photo", "notes", "sex"}
    assert set(frame["state"]) == {"observed", "missing"}
    observed = frame[frame["state"] == "observed"]
    assert observed["gate"].between(0, 1).all()
    assert observed["used"].notna().all()
    assert frame[frame["state"] == "missing"]["gate"].isna().all()
    row = table["notes"].notna().to_numpy()[:12].argmax()
    words = [unit.value for unit in explanation.rows[row].units if unit.column == "notes"]
    assert words[-2:] == ["day", str(row)]
    assert explanation.rows[0].agreement is not None
    units = [len(row.units) for row in explanation.rows]
    assert np.allclose(frame["probability"], np.repeat(model.predict_proba(table[:12]).max(1), units), atol=1e-6)
    assert frame["prediction"].tolist() == np.repeat(model.predict(table[:12]), units).tolist()
    assert frame["label"].tolist() == np.repeat(table["diagnosis"][:12], units).tolist()


def test_a_plot_has_a_bar_for_every_column(model, table):
    for explanation, label in ((model.explain(table[:1]), "effect on"), (model.explain(table[:4]), "mean size")):
        (axes,) = explanation.plot().axes
        assert [tick.get_text() for tick in axes.get_yticklabels()][::-1][0] in set(table)
        assert len(axes.patches) == 5
        assert axes.get_xlabel().startswith(label)


def test_an_explanation_is_a_page_a_fragment_and_a_slice(model, table, tmp_path):
    explanation = model.explain(table[:3])
    explanation.to_html(tmp_path / "evidence.html")
    page = (tmp_path / "evidence.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;melanoma&lt;/b&gt;" in page
    assert "<b>melanoma</b>" not in page
    assert len(explanation[1]) == 1
    assert explanation[1].rows[0] is explanation.rows[1]
    assert "<html" not in explanation[:2]._repr_html_()


def test_reprs_are_short_and_name_what_was_used(model, table):
    explanation = model.explain(table[:20])
    lines = repr(explanation).splitlines()
    assert lines[0] == "Explanation of 20 rows; to_frame(), to_html(path), plot(), [row]"
    assert re.fullmatch(r"  Row 0: \S+ \(\d+ %\); \w+ [+-]\d+(, \w+ [+-]\d+)*", lines[1])
    assert lines[-1] == "  ... and 15 more"
    assert len(explanation._repr_html_()) < 10_000
    assert "20 of 20 rows" in explanation._repr_html_()
    assert "<b>melanoma</b>" not in explanation._repr_html_()
    assert re.fullmatch(r"<GaugeClassifier\(.*\) fitted; columns: 5, classes: \d, rows: \d+>", flat(model))
    assert flat(GaugeClassifier(epochs=2)) == "GaugeClassifier(epochs=2)"


def flat(model):
    return re.sub(r"\s+", " ", repr(model))


def test_to_html_writes_the_page_whole_into_a_folder_that_did_not_exist(model, table, tmp_path):
    path = tmp_path / "new" / "folder" / "evidence.html"
    model.explain(table[:1]).to_html(path)
    page = path.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert page.endswith("</html>")
    assert [each.name for each in path.parent.iterdir()] == ["evidence.html"]


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
    arguments = [sys.executable, "-c", code, str(images), "table.pkl", "model"]
    subprocess.run(arguments, cwd=tmp_path, check=True)
    assert np.allclose(np.load(tmp_path / "predicted.npy"), model.predict_proba(table), atol=1e-6)


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


def test_files_that_do_not_belong_together_are_refused(numbers, table, tmp_path):
    for name, seed in (("first", 0), ("second", 1)):
        fit(numbers, table["diagnosis"], **NETWORK, random_state=seed).save(tmp_path / name)
    (tmp_path / "first" / "model.safetensors").write_bytes((tmp_path / "second" / "model.safetensors").read_bytes())
    with pytest.raises(ValueError, match="model.safetensors is damaged: its checksum does not match"):
        GaugeClassifier.load(tmp_path / "first")


def test_a_lengthened_file_is_refused_before_it_is_read(model, tmp_path):
    model.save(tmp_path)
    about, weights = tmp_path / "model.json", tmp_path / "model.safetensors"
    size = weights.stat().st_size
    with weights.open("r+b") as file:
        file.truncate(8 * 2**30)  # sparse
    started = time.process_time()
    with pytest.raises(ValueError, match=f"it has {8 * 2**30:,} bytes and had {size:,}; save the classifier again"):
        GaugeClassifier.load(tmp_path)
    forged = {name: value for name, value in json.loads(about.read_text()).items() if name != "sha256"}
    forged["files"][weights.name][0] = 8 * 2**30
    about.write_text(json.dumps(forged | {"sha256": checksum(forged)}))
    with pytest.raises(ValueError, match=r"model\.safetensors cannot be used: .*; fit the classifier again"):
        GaugeClassifier.load(tmp_path)
    assert time.process_time() - started < 1, "the checksum of 8 GB takes longer"


@pytest.mark.parametrize("content", ["{}", "[]", "7", "[" * 100_000, '{"format": "gauge-classifier-1"}', "\0"])
def test_a_damaged_description_is_one_clear_line(tmp_path, content):
    (tmp_path / "model.json").write_text(content)
    with pytest.raises(ValueError, match="model.json (is damaged|has format None)") as error:
        GaugeClassifier.load(tmp_path)
    assert "\n" not in str(error.value)


def test_the_card_names_columns_and_how_the_network_was_trained(model, tmp_path):
    model.save(tmp_path)
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "| photo | image |" in card
    assert f"- Network: {model.verdict_}" in card


def test_a_folder_that_is_no_model_is_refused(model, tmp_path):
    with pytest.raises(ValueError, match="is not a saved classifier .it has no model.json.; give a folder"):
        GaugeClassifier.load(tmp_path)
    model.save(tmp_path / "other")
    about = tmp_path / "other" / "model.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | {"format": "gauge-classifier-0"}))
    with pytest.raises(ValueError, match="has format 'gauge-classifier-0', this version reads"):
        GaugeClassifier.load(tmp_path / "other")
    about.write_text("{")
    with pytest.raises(ValueError, match="model.json is damaged"):
        GaugeClassifier.load(tmp_path / "other")
    model.save(tmp_path / "broken")
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="model.safetensors is damaged"):
        GaugeClassifier.load(tmp_path / "broken")


def test_columns_and_scores_are_printed(table, capsys):
    model = fit(table[["age", "site", "sex"]], table["diagnosis"], verbose=True)
    printed = capsys.readouterr().err
    assert "number: age" in printed
    assert model.verdict_ in printed
    assert re.match(r"the network alone, with values hidden: accuracy \d+\.\d %; always predicting", model.verdict_)


def test_without_gates_it_is_explained_by_effects_alone(numbers, table):
    model = fit(numbers, table["diagnosis"], gates=False, epochs=1)
    frame = model.explain(numbers[:4]).to_frame()
    assert frame["gate"].isna().all()
    assert frame.loc[frame["state"] == "observed", "used"].abs().max() > 0


def test_a_fit_that_was_interrupted_keeps_its_whole_curve(numbers, table, tmp_path):
    def stop(stage, epoch):
        if (stage, epoch.number) == ("mask", 1):
            raise KeyboardInterrupt

    model = GaugeClassifier(**QUICK | {"epochs": 5, "experts": "network", "trust": False})
    curves = []
    for name in ("whole", "halves"):
        with unchecked():
            if name == "halves":
                with pytest.raises(KeyboardInterrupt):
                    model.fit(numbers, table["diagnosis"], folder=tmp_path / name, on_epoch=stop)
            model.fit(numbers, table["diagnosis"], folder=tmp_path / name)
        curves.append([(each["stage"], each["epoch"], each["losses"]) for each in model.history_])
    assert curves[0] == curves[1]
    assert [(stage, number) for stage, number, _ in curves[0]] == [
        *(("backbone", number) for number in range(1, 6)),
        ("mask", 1),
        ("refit", 1),
    ]


def test_no_rows_get_no_predictions_and_rows_of_another_type_are_refused(model, table):
    assert model.predict(table[:0]).shape == (0,)
    assert len(model.explain(table[:0])) == 0
    others = {"dict": {"age": [1]}, "list of mappings": [{"age": 1}], "Series": table.iloc[0], "str": "x.csv"}
    for name, rows in others.items():
        with pytest.raises(ValueError, match=f"the rows are a {name}; give a DataFrame"):
            model.predict(rows)
    with pytest.raises(ValueError, match="there is no column with the labels 'nope'"):
        model.explain(table[:2], "nope")


def test_options_survive_saving(model, tmp_path):
    model.save(tmp_path)
    again = GaugeClassifier.load(tmp_path)
    assert (again.epochs, again.random_state) == (6, 0)
    assert again.verdict_ == model.verdict_
    assert "always predicting" in model.verdict_
    assert (tmp_path / "model.safetensors").stat().st_mode == (tmp_path / "model.json").stat().st_mode


def test_a_time_limit_ends_training_with_a_working_model(table):
    limited = {"experts": "network", "time_limit": 0.5, "epochs": 10_000}
    model = fit(table[["age", "site", "sex"]], table["diagnosis"], **limited)
    assert model.epochs_["backbone"] < 10_000
    assert "the time limit ended 'backbone' after" in model.verdict_
    assert model.predict(table[:3]).shape == (3,)


def test_training_that_was_stopped_continues_to_the_same_model(numbers, table, tmp_path):
    options, labels = QUICK | {"trust": False, "epochs": 3}, table["diagnosis"]
    whole = fit(numbers, labels, **options).predict_proba(numbers)

    class StopError(Exception):
        pass

    def stop(stage, epoch):
        if epoch.number == 2:
            raise StopError

    with pytest.raises(StopError):
        GaugeClassifier(**options).fit(numbers, labels, folder=tmp_path, on_epoch=stop)
    with unchecked():
        again = GaugeClassifier(**options).fit(numbers, labels, folder=tmp_path)
    assert np.array_equal(again.predict_proba(numbers), whole)
