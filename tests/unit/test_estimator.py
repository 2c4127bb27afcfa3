"""GaugeClassifier keeps scikit-learn's rules, takes any table with holes, and says what it trusted."""

import json
import logging
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from helpers import clinic, unchecked
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from gauge import GaugeClassifier
from gauge.tabular.fitting import choose_strategy

QUICK = {"epochs": 3, "random_state": 0, "verbose": False}
UNEQUAL = {
    "check_methods_sample_order_invariance": "float32 products of another order may differ in the seventh digit",
    "check_methods_subset_invariance": "float32 products of another size may differ in the seventh digit",
    "check_sample_weight_equivalence_on_dense_data": "batches and validation rows are drawn by row, so a row that is "
    "repeated is not a row that counts twice",
}


@parametrize_with_checks(
    [GaugeClassifier(epochs=8, strategy="mask", random_state=0, verbose=False)],
    expected_failed_checks=lambda estimator: UNEQUAL,
)
def test_it_keeps_the_rules_of_scikit_learn(estimator, check):
    with unchecked():
        check(estimator)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return tmp_path_factory.mktemp("clinic") / "pictures"


@pytest.fixture(scope="module")
def table(pictures):
    return clinic(pictures)


@pytest.fixture(scope="module")
def model(table, pictures):
    """Trained well enough to be right, on a table of everything."""
    return GaugeClassifier(epochs=30, strategy="mask", image_folder=pictures, random_state=0, verbose=False).fit(
        table, "diagnosis"
    )


@pytest.fixture(scope="module")
def imputing(table, pictures):
    return GaugeClassifier(strategy="impute", donors=40, image_folder=pictures, **QUICK).fit(table, "diagnosis")


def test_numbers_words_notes_and_pictures_with_holes_are_learned_from(model, table):
    kinds = {column.name: column.kind for column in model.schema_.columns}
    assert kinds == {"age": "number", "site": "category", "photo": "image", "notes": "text", "sex": "category"}
    assert model.score(table, table["diagnosis"]) > 0.8
    assert model.missing_rates_["photo"] == pytest.approx(0.3, abs=0.1)


def test_any_column_may_be_gone_at_predict_and_strange_ones_are_ignored(model, table, caplog):
    with caplog.at_level(logging.WARNING):
        found = model.predict_proba(table[["age", "site"]].assign(shoe_size=42))
    assert np.allclose(found.sum(1), 1)
    assert "column 'shoe_size' was not there in training" in caplog.text
    assert "column 'photo' is not there (3 such)" in caplog.text


def test_a_row_with_nothing_gets_the_class_prior_and_a_warning(model, table, caplog):
    with caplog.at_level(logging.WARNING):
        found = model.predict_proba(pd.DataFrame({"age": [np.nan, 50.0], "sex": [None, "f"]}))
    assert np.allclose(found[0], model.class_prior_)
    assert not np.allclose(found[1], model.class_prior_)
    assert "1 rows have no value at all and get the class prior" in caplog.text
    explained = model.explain(pd.DataFrame({"age": [np.nan, 50.0], "sex": [None, "f"]}))
    assert {unit.state for unit in explained.rows[0].units} == {"missing"}


def test_a_prediction_does_not_depend_on_the_other_rows(model, imputing, table):
    for classifier in (model, imputing):
        whole = classifier.predict_proba(table[:9])
        alone = np.concatenate([classifier.predict_proba(table[row : row + 1]) for row in range(9)])
        assert np.allclose(whole, alone, atol=1e-5)


def test_the_same_seed_gives_the_same_classifier_and_another_one_another(table, pictures):
    options = {"strategy": "mask", "image_folder": pictures, "epochs": 2, "verbose": False}
    first, second, other = (
        GaugeClassifier(**options, random_state=seed).fit(table, "diagnosis").predict_proba(table) for seed in (1, 1, 2)
    )
    assert np.array_equal(first, second)
    assert not np.allclose(first, other)


def test_explanations_name_every_unit_with_its_value_gate_and_attention(model, table):
    found = model.explain(table[:12], "diagnosis", exact=True)
    frame = found.to_frame()
    assert len(found) == 12
    assert set(frame["column"]) == {"age", "site", "photo", "notes", "sex"}
    seen = frame[frame["state"] == "observed"]
    assert seen["gate"].between(0, 1).all()
    assert set(frame["state"]) == {"observed", "missing"}
    assert frame[frame["state"] == "missing"]["gate"].isna().all()
    row = table["notes"].notna().to_numpy()[:12].argmax()
    words = [unit.value for unit in found.rows[row].units if unit.column == "notes"]
    assert words[-2:] == ["day", str(row)]
    assert found.rows[0].agreement is not None
    assert seen["effect"].notna().all()
    chances = model.predict_proba(table[:12])
    assert np.allclose([row.after[1] for row in found.rows], chances.max(1), atol=1e-6)
    assert [row.label for row in found.rows] == table["diagnosis"][:12].tolist()


def test_what_was_imputed_is_marked_and_comes_with_a_value(imputing, table):
    frame = imputing.explain(table[:30]).to_frame()
    imputed = frame[frame["state"] == "imputed"]
    assert set(imputed["column"]) == {"age", "site", "photo", "notes"}
    assert set(imputed[imputed["column"] == "site"]["value"]) <= {"arm", "leg", "back"}
    assert imputed[imputed["column"] == "age"]["value"].astype(float).between(0, 110).all()
    assert (imputed[imputed["column"] != "photo"]["value"] != "").all()


def test_an_explanation_is_a_page_a_fragment_and_a_slice(model, table, tmp_path):
    found = model.explain(table[:3])
    found.to_html(tmp_path / "evidence.html")
    page = (tmp_path / "evidence.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;melanoma&lt;/b&gt;" in page
    assert "<b>melanoma</b>" not in page
    assert len(found[1]) == 1
    assert found[1].rows[0] is found.rows[1]
    assert "<html" not in found[:2]._repr_html_()


def test_a_model_saved_in_one_process_predicts_the_same_in_another(model, imputing, table, pictures, tmp_path):
    table.to_pickle(tmp_path / "table.pkl")  # ours, not a stranger's
    for name, classifier in (("mask", model), ("impute", imputing)):
        classifier.save(tmp_path / name)
        code = (
            "import sys, numpy as np, pandas as pd; from gauge import GaugeClassifier\n"
            "model = GaugeClassifier.load(sys.argv[1], image_folder=sys.argv[2])\n"
            "np.save(sys.argv[3], model.predict_proba(pd.read_pickle(sys.argv[4])))"
        )
        arguments = [tmp_path / name, pictures, tmp_path / "found.npy", tmp_path / "table.pkl"]
        subprocess.run([sys.executable, "-c", code, *map(str, arguments)], check=True)
        assert np.allclose(np.load(tmp_path / "found.npy"), classifier.predict_proba(table), atol=1e-6)
        again = GaugeClassifier.load(tmp_path / name, image_folder=pictures)
        assert again.explain(table[:2]).to_frame().shape == classifier.explain(table[:2]).to_frame().shape
        assert sorted(path.name for path in (tmp_path / name).iterdir()) == [
            "README.md",
            "model.json",
            "model.safetensors",
        ]


def test_the_card_names_columns_classes_and_whose_rows_are_in_the_file(model, imputing, tmp_path):
    imputing.save(tmp_path / "a")
    model.save(tmp_path / "b")
    card = (tmp_path / "a" / "README.md").read_text(encoding="utf-8")
    assert "| photo | image |" in card
    assert "Training rows in the file: 40 (imputer masked_columns" in card
    assert "Training rows in the file: none" in (tmp_path / "b" / "README.md").read_text(encoding="utf-8")


def test_a_folder_that_is_no_model_is_refused(model, tmp_path):
    with pytest.raises(ValueError, match="is not a saved classifier .it has no model.json.; give a folder"):
        GaugeClassifier.load(tmp_path)
    model.save(tmp_path / "other")
    about = tmp_path / "other" / "model.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | {"format": "gauge-classifier-9"}))
    with pytest.raises(ValueError, match="has format 'gauge-classifier-9', this version reads"):
        GaugeClassifier.load(tmp_path / "other")
    about.write_text("{")
    with pytest.raises(ValueError, match="model.json is damaged"):
        GaugeClassifier.load(tmp_path / "other")
    model.save(tmp_path / "broken")
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="is damaged or not a checkpoint"):
        GaugeClassifier.load(tmp_path / "broken")


class Sevens:
    """An imputer of somebody's own."""

    def complete(self, batch):
        return batch.filled({name: values.new_full((), 7) for name, values in batch.inputs.items()})


def test_an_imputer_of_ones_own_is_taken_but_cannot_be_saved(table, tmp_path):
    numbers = table[["age", "site"]]
    model = GaugeClassifier(strategy="impute", imputer=Sevens(), **QUICK).fit(numbers, table["diagnosis"])
    assert model.predict(numbers).shape == (len(table),)
    with pytest.raises(ValueError, match="an imputer of your own .Sevens. cannot be saved"):
        model.save(tmp_path)


@pytest.mark.parametrize("imputer", ["nearest", "mean", "zero"])
def test_every_imputer_serves_a_table_and_survives_saving(table, tmp_path, imputer):
    numbers = table[["age", "site", "notes"]]
    model = GaugeClassifier(strategy="impute", imputer=imputer, **QUICK).fit(numbers, table["diagnosis"])
    model.save(tmp_path)
    assert np.array_equal(GaugeClassifier.load(tmp_path).predict_proba(numbers), model.predict_proba(numbers))


def test_auto_tries_both_ways_and_says_what_validation_said(table, capsys):
    options = QUICK | {"verbose": True}
    model = GaugeClassifier(**options).fit(table[["age", "site", "sex"]], table["diagnosis"])
    assert set(model.validation_scores_) == {"mask", "impute"}
    told = capsys.readouterr().err
    assert "number: age" in told
    assert "points for imputing" in told


def test_imputing_has_to_be_better_beyond_chance():
    assert choose_strategy({"mask": 0.9, "impute": 0.91}, 50) == "mask"
    assert choose_strategy({"mask": 0.7, "impute": 0.9}, 50) == "impute"
    assert choose_strategy({"mask": 1.0, "impute": 1.0}, 50) == "mask"
    assert choose_strategy({"impute": 0.1}, 50) == "impute"


def test_without_gates_it_predicts_and_has_nothing_to_explain(table):
    model = GaugeClassifier(strategy="mask", gates=False, **QUICK).fit(table[["age", "site"]], table["diagnosis"])
    assert model.predict(table[["age", "site"]]).shape == (len(table),)
    with pytest.raises(ValueError, match="fitted with gates=False and has no gates to explain"):
        model.explain(table[:2])


def test_balancing_classes_finds_more_of_the_rare_one():
    draw = np.random.default_rng(0)
    labels = (draw.random(400) < 0.08).astype(int)
    values = pd.DataFrame({"x": labels + draw.normal(0, 0.8, 400), "z": draw.normal(0, 1, 400)})
    found = {
        weight: GaugeClassifier(strategy="mask", class_weight=weight, epochs=10, random_state=0, verbose=False)
        .fit(values, labels)
        .predict(values)
        for weight in (None, "balanced")
    }
    assert found["balanced"][labels == 1].mean() > found[None][labels == 1].mean()


def test_rows_of_weight_zero_are_not_learned_from(table):
    numbers, labels = table[["age", "site"]], table["diagnosis"].to_numpy()
    weight = (labels != "wart").astype(float)
    model = GaugeClassifier(strategy="mask", **QUICK).fit(numbers, labels, sample_weight=weight)
    assert model.class_prior_[list(model.classes_).index("wart")] == 0
    assert sum(model.n_rows_.values()) - int((numbers.isna().all(axis=1) & (weight == 0)).sum()) == int(weight.sum())


def test_no_rows_get_no_answers_and_rows_of_another_kind_are_told(model, table):
    assert model.predict(table[:0]).shape == (0,)
    assert len(model.explain(table[:0])) == 0
    for rows, what in (
        ({"age": [1]}, "dict"),
        ([{"age": 1}], "list of mappings"),
        (table.iloc[0], "Series"),
        ("x.csv", "str"),
    ):
        with pytest.raises(ValueError, match=f"the rows came as a {what}; give a DataFrame"):
            model.predict(rows)
    with pytest.raises(ValueError, match="there is no column with the labels 'nope'"):
        model.explain(table[:2], "nope")


def test_options_are_checked_before_training_and_survive_saving(table, model, tmp_path):
    wrong = {
        "time_limit": "10m",
        "epochs": 0,
        "missing_rate": 30.0,
        "columns": ["age"],
        "donors": 0,
        "class_weight": "all",
    }
    for name, value in wrong.items():
        with unchecked(), pytest.raises(ValueError, match=f"The '{name}' parameter of GaugeClassifier must be"):
            GaugeClassifier(**{name: value}).fit(table, "diagnosis")
    model.save(tmp_path)
    again = GaugeClassifier.load(tmp_path)
    assert (again.epochs, again.random_state, again.strategy) == (30, 0, "mask")
    assert again.verdict_ == model.verdict_
    assert "always saying" in model.verdict_
    assert (tmp_path / "model.safetensors").stat().st_mode == (tmp_path / "model.json").stat().st_mode


def test_labels_in_another_order_than_the_table_are_told(table, caplog):
    shuffled = table["diagnosis"].iloc[::-1]
    with caplog.at_level(logging.WARNING):
        fit(table[["age", "site"]], shuffled, strategy="mask")
    assert "the index of y has another order" in caplog.text


def test_it_serves_cross_validation_and_a_search_over_its_options(table):
    numbers = table[["age", "site"]]
    scores = cross_val_score(GaugeClassifier(strategy="mask", **QUICK), numbers, table["diagnosis"], cv=2)
    assert np.isfinite(scores).all()
    search = GridSearchCV(GaugeClassifier(strategy="mask", **QUICK), {"missing_rate": [0.2, 0.8]}, cv=2)
    assert search.fit(numbers, table["diagnosis"]).best_params_["missing_rate"] in (0.2, 0.8)


def test_a_time_limit_ends_training_with_a_working_model(table):
    model = GaugeClassifier(time_limit=2.0, epochs=10_000, random_state=0, verbose=False)
    model.fit(table[["age", "site", "sex"]], table["diagnosis"])
    assert model.epochs_["backbone"] < 10_000
    assert "the time limit ended 'backbone' after" in model.verdict_
    assert model.predict(table[:3]).shape == (3,)


def test_training_that_was_stopped_continues_to_the_same_model(table, tmp_path):
    numbers, labels = table[["age", "site"]], table["diagnosis"]
    whole = GaugeClassifier(strategy="mask", **QUICK).fit(numbers, labels).predict_proba(numbers)

    class StopError(Exception):
        pass

    class Stopping(GaugeClassifier):
        """Stops after the second epoch."""

        def _progress(self):
            from contextlib import nullcontext

            def heard(stage, epoch):
                if epoch.number == 2:
                    raise StopError

            return nullcontext(heard)

    with pytest.raises(StopError):
        Stopping(strategy="mask", **QUICK).fit(numbers, labels, folder=tmp_path)
    again = GaugeClassifier(strategy="mask", **QUICK).fit(numbers, labels, folder=tmp_path)
    assert np.array_equal(again.predict_proba(numbers), whole)


def fit(frame, labels, **options):
    return GaugeClassifier(**QUICK, **options).fit(frame, labels)


@pytest.mark.parametrize("labels", [["p"] * 79 + ["q"], ["p"] * 40 + ["q"] * 39 + ["r"]])
def test_a_class_with_a_single_row_is_trained_on_and_never_validated_with(labels):
    numbers = pd.DataFrame({"x": np.random.default_rng(0).normal(size=80)})
    model = fit(numbers, labels, strategy="mask", metric="auc")
    assert model.predict_proba(numbers).shape == (80, len(set(labels)))


def test_bad_input_answers_with_the_place_and_the_cure(table):
    numbers = table[["age", "site"]]
    with pytest.raises(ValueError, match="there is no column 'label' with the labels; the table has"):
        fit(table, "label")
    with pytest.raises(ValueError, match="all labels are 'x': one class is nothing to tell apart"):
        fit(numbers, ["x"] * len(numbers))
    with pytest.raises(ValueError, match="the label of row 3 is missing .1 such.; leave these rows out"):
        fit(numbers, table["diagnosis"].where(table.index != 3).astype(object))
    with pytest.raises(ValueError, match="the table has column 'age' twice; rename or drop one"):
        fit(pd.concat([numbers, numbers["age"]], axis=1), table["diagnosis"])
    with pytest.raises(ValueError, match="the table has no rows"):
        fit(numbers[:0], [])
    with pytest.raises(ValueError, match="the table has 160 rows but there are 2 labels"):
        fit(numbers, ["a", "b"])
    with unchecked(), pytest.raises(ValueError, match="there is no strategy 'maks'; did you mean 'mask'"):
        fit(numbers, table["diagnosis"], strategy="maks")
    with pytest.raises(ValueError, match="there is no size 'huge'"):
        fit(numbers, table["diagnosis"], size="huge")
    with pytest.raises(ValueError, match="there is no imputer 'tip'; known: iterative, masked_columns"):
        fit(numbers, table["diagnosis"], imputer="tip")
    with pytest.raises(ValueError, match="no row has a value and a weight above zero"):
        fit(numbers, table["diagnosis"], columns={"age": "image", "site": "ignore"})
