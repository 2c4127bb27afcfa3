"""A table of another form than in training is read rightly or refused; no column counts as missing in silence."""

import logging
from enum import Enum

import numpy as np
import pandas as pd
import pytest
from helpers import unchecked

from gauge import GaugeClassifier
from gauge.tabular.table.inputs import beside_missing, class_numbers, class_weights

OPTIONS = {"experts": ["trees", "linear"], "trust": False, "random_state": 0, "verbose": False}
NETWORK = OPTIONS | {"experts": "network", "epochs": 1, "batch_size": 64}


class Ward(str, Enum):  # noqa: UP042 - the text of a StrEnum is its value, that of this one its name
    EAST = "east"
    WEST = "west"


@pytest.fixture(scope="module")
def frame():
    draw = np.random.default_rng(0)
    return pd.DataFrame({"age": draw.normal(size=60), "dose": draw.normal(size=60), "ward": draw.choice([*"ab"], 60)})


@pytest.fixture(scope="module")
def labels():
    return np.random.default_rng(1).integers(0, 2, 60)


@pytest.fixture(scope="module")
def model(frame, labels):
    with unchecked():
        return GaugeClassifier(**OPTIONS).fit(frame, labels)


def test_an_array_of_the_same_columns_is_read_by_position(model, frame, caplog):
    with caplog.at_level(logging.WARNING):
        answers = model.predict_proba(frame.to_numpy(object))
    assert np.array_equal(answers, model.predict_proba(frame))
    assert "columns are read by position" in caplog.text
    with pytest.raises(ValueError, match="X has 2 features, but GaugeClassifier is expecting 3 features"):
        model.predict(frame.to_numpy(object)[:, :2])


def test_a_frame_given_to_a_model_of_an_array_is_read_by_position(frame, labels, caplog):
    numbers = frame[["age", "dose"]]
    with unchecked():
        model = GaugeClassifier(**OPTIONS).fit(numbers.to_numpy(), labels)
    expected = model.predict_proba(numbers.to_numpy())
    with caplog.at_level(logging.WARNING):
        assert np.array_equal(model.predict_proba(numbers), expected)
    assert "fitted on an array without names; columns are read by position" in caplog.text
    with pytest.raises(ValueError, match="X has 3 features, but GaugeClassifier is expecting 2"):
        model.predict(frame)


def test_names_that_differ_in_spaces_around_them_are_those_of_training(model, frame, caplog):
    with caplog.at_level(logging.WARNING):
        answers = model.predict_proba(frame.rename(columns={"dose": " dose", "age": "age "}))
    np.testing.assert_array_equal(answers, model.predict_proba(frame))
    assert "column 'age ' (first of 2) is read as column 'age' of training" in caplog.text
    both = frame.rename(columns={"dose": " dose"}).assign(**{"dose ": 1.0})
    np.testing.assert_array_equal(model.predict_proba(both), model.predict_proba(frame.drop(columns="dose")))


def test_records_and_names_that_are_no_texts_are_refused_with_a_cure(frame, labels):
    classifier = GaugeClassifier(experts="linear", trust=False, verbose=False)
    with pytest.raises(ValueError, match=r"an array of records; give pd.DataFrame\(rows\)"):
        classifier.fit(frame.to_records(index=False), labels)
    with pytest.raises(ValueError, match=r"an array of records; give pd.DataFrame\(rows\)"):
        classifier.fit(frame.to_records(index=False), "ward")
    with pytest.raises(ValueError, match="the labels are 2; give a label for each row, or the name .* as a text, '2'"):
        classifier.fit(frame.set_axis([0, 1, 2], axis=1), 2)
    with pytest.raises(ValueError, match=r"in a pipeline by set_output\(transform='pandas'\) of the step before"):
        classifier.fit(frame.to_numpy(object), labels)


def test_a_polars_frame_keeps_its_names(model, frame, labels):
    polars = pytest.importorskip("polars")
    rows = polars.DataFrame({name: frame[name].tolist() for name in ("ward", "dose", "age")})
    assert np.array_equal(model.predict_proba(rows), model.predict_proba(frame))
    explained = model.explain(rows.with_columns(label=labels)[:2], "label", keep=["ward"])
    assert [row.ids for row in explained.rows] == [{"ward": ward} for ward in frame["ward"][:2]]
    with unchecked():
        again = GaugeClassifier(**OPTIONS).fit(rows.select("age", "dose", "ward"), labels)
    assert np.array_equal(again.predict_proba(frame), model.predict_proba(frame))


@pytest.mark.parametrize("lost", [["age", "dose"], ["age", "dose", "ward"]])
def test_a_table_with_less_than_half_of_the_columns_is_refused(model, frame, lost):
    renamed = frame.rename(columns={name: name.upper() for name in lost})
    with pytest.raises(
        ValueError,
        match=f"the table has {3 - len(lost)} of the model's 3 columns, it lacks 'age'; its columns are 'AGE'",
    ):
        model.predict(renamed)


def test_names_of_several_levels_are_refused_with_the_cure(frame, labels):
    levels = frame.set_axis(pd.MultiIndex.from_product([["a"], frame.columns]), axis=1)
    with pytest.raises(ValueError, match="the column names have 2 levels, e.g. .'a', 'age'.; give one level"):
        GaugeClassifier(**OPTIONS).fit(levels, labels)


def test_weights_that_are_not_finite_are_an_error_not_class_zero(frame, labels, tmp_path):
    with unchecked():
        model = GaugeClassifier(**NETWORK).fit(frame, labels)
    next(model.model_.parameters()).data.fill_(float("nan"))
    with pytest.raises(ValueError, match="the model predicts row 0 with NaN; its weights are not usable: fit it again"):
        model.predict(frame)
    model.save(tmp_path)
    with pytest.raises(ValueError, match="model.safetensors has values that are NaN or infinite, first in '"):
        GaugeClassifier.load(tmp_path)


def test_nullable_integers_come_back_as_integers_and_mixed_labels_are_refused(frame, labels):
    with unchecked():
        model = GaugeClassifier(**OPTIONS).fit(frame, pd.Series(labels, dtype="Int64"))
    assert model.classes_.dtype == np.int64
    assert model.predict(frame).dtype == np.int64
    for mixed in (["0", 1] * 30, pd.Series(["0", 1] * 30, dtype=object)):
        with pytest.raises(ValueError, match="labels are of one type, but 1 is a number and '0' is a text; make them"):
            GaugeClassifier(**OPTIONS).fit(frame, mixed)
    with pytest.raises(ValueError, match="1 is a number and True is a truth value"):
        GaugeClassifier(**OPTIONS).fit(frame, pd.Series([True, 1] * 30, dtype=object))


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        (["no", "yes", "yes ", "Yes"], "classes that differ only in spaces or capital letters ('Yes', 'yes', 'yes ')"),
        (
            ["no", "yes", "?", "-"],
            "a class '?', which counts as missing in other columns; blank these labels if they are unknown",
        ),
    ],
)
def test_classes_that_may_be_none_are_reported(labels, problem, caplog):
    with caplog.at_level(logging.WARNING):
        class_numbers(labels * 5)
    assert f"the target has {problem}" in caplog.text


@pytest.mark.parametrize(
    ("row", "cure"),
    [
        ({"age": 1.0}, r"are a dict; .* pd.DataFrame\(\[row\]\)"),
        (pd.Series({"age": 1.0}), r"are a Series; .* pd.DataFrame\(\[series\]\) of a row"),
        ([{"age": 1.0}], r"are a list of mappings; .* pd.DataFrame\(rows\)"),
    ],
)
def test_a_row_that_is_no_table_is_refused_with_what_makes_it_one(model, row, cure):
    with pytest.raises(ValueError, match=cure):
        model.predict(row)


def test_a_series_a_name_of_weights_and_a_misspelt_target_are_refused_with_what_to_give(frame, labels):
    fresh = GaugeClassifier(experts="linear", verbose=False)
    with pytest.raises(ValueError, match=r"rows are a Series; give a DataFrame, for example series.to_frame\(\) of a"):
        fresh.fit(frame["age"], labels)
    with pytest.raises(ValueError, match=r"sample_weight is 'age'; give a weight for each row, such as table\['age'\]"):
        fresh.fit(frame, labels, sample_weight="age")
    with pytest.raises(ValueError, match=r"there is no column 'diagnoses' with the labels; did you mean 'diagnosis'\?"):
        fresh.fit(frame.assign(diagnosis=labels), "diagnoses")


def test_a_target_that_is_an_identifier_a_text_or_a_quantity_is_refused_or_reported(caplog):
    with caplog.at_level(logging.WARNING):
        class_numbers([f"patient {row}" for row in range(15)])
        class_numbers(np.arange(300) // 10)
    assert "the target has 15 classes in 15 rows; is it an identifier?" in caplog.text
    assert "the target has 30 different numbers; if it is a quantity, divide it into classes (--classes" in caplog.text
    message = "the target has 60 classes in 60 rows, so it is an identifier or free text; choose another column"
    with pytest.raises(ValueError, match=message):
        class_numbers([f"it hurts on day {row}" for row in range(60)])
    message = "the target has 30 different numbers in 60 rows, so it is a quantity or an identifier; divide a quantity"
    with pytest.raises(ValueError, match=message):
        class_numbers(np.arange(60) // 2)
    assert len(class_numbers([f"species {row // 2}" for row in range(60)])[0]) == 30
    with pytest.raises(ValueError, match="Labels such as 0.5 are a quantity; divide them into classes .--classes 4"):
        class_numbers(np.arange(60) / 2)
    with pytest.raises(ValueError, match="Labels such as 1e[+]20 are a quantity"):
        class_numbers(beside_missing(pd.Series([1e20, 1.0] * 30)))


def test_balancing_leaves_probabilities_those_of_the_data_and_predictions_balanced(tmp_path):
    draw = np.random.default_rng(0)
    labels = (draw.random(600) < 0.1).astype(int)
    rows = pd.DataFrame({"x": labels + draw.normal(0, 1, 600)})
    with unchecked():
        model = GaugeClassifier(**OPTIONS, class_weight="balanced").fit(rows, labels)
    probabilities = model.predict_proba(rows)
    assert probabilities[:, 1].mean() == pytest.approx(labels.mean(), abs=0.05)
    assert model.predict(rows).mean() > 0.2
    explained = model.explain(rows[:9]).to_frame()
    assert explained["prediction"].tolist() == [str(label) for label in model.predict(rows[:9])]
    model.save(tmp_path)
    assert np.array_equal(GaugeClassifier.load(tmp_path).predict(rows), model.predict(rows))


def test_weights_of_classes_are_those_of_one_class_each_however_it_is_written():
    classes, labels = np.array([0, 1]), np.array([0, 1, 1])
    assert class_weights({True: 3, False: 1}, classes, labels) == [1, 3]
    assert class_weights({"1": 3}, classes, labels) == [1, 3]
    with pytest.raises(ValueError, match="class_weight: 0 is one of several classes, or one twice; give each once"):
        class_weights({0: 1, "0": 7}, classes, labels)
    with pytest.raises(ValueError, match="there is no class '2'; known: 0, 1"):
        class_weights({2: 3}, classes, labels)
    with pytest.raises(ValueError, match="class_weight: 1 is one of several classes"):  # of two that it may be
        class_weights({1: 3}, np.array(["1", "1.0"]), labels)


def test_an_enum_is_no_label_as_arrays_cut_its_text():
    with pytest.raises(ValueError, match="labels are texts, numbers or truth values, but .* is a Ward; make them"):
        class_numbers([Ward.EAST, Ward.WEST] * 5)


def test_the_mask_of_an_array_is_never_lost_in_silence(frame, labels):
    mask = np.arange(60) < 20
    target = np.ma.array(labels, mask=mask)
    model = GaugeClassifier(**OPTIONS | {"experts": "linear"}).fit(frame, target)
    assert model.n_rows_["train"] == 40
    assert model.classes_.dtype == np.int64
    rows = np.ma.array(np.arange(120).reshape(60, 2), mask=np.stack([mask, ~mask], 1))
    plain, frame = rows.astype(float).filled(np.nan), pd.DataFrame(rows, columns=["age", "dose"])
    assert np.array_equal(model.fit(frame, labels).predict_proba(rows), model.predict_proba(frame))
    masked = model.fit(rows, labels).predict_proba(rows)
    assert np.array_equal(masked, model.fit(plain, labels).predict_proba(plain))
    assert list(model.missing_rates_.values()) == [1 / 3, 2 / 3]


@pytest.mark.parametrize("missing", [np.nan, None, pd.NA, " "])
def test_labels_beside_missing_ones_keep_their_type(frame, labels, missing, caplog):
    target = pd.Series(labels, dtype=object)
    target[7], target[9] = missing, missing
    model = GaugeClassifier(**OPTIONS | {"experts": "linear"}).fit(frame.assign(target=target), "target")
    assert "2 rows have no label, first row 7; columns and trust are learned from them, too" in caplog.text
    assert model.classes_.tolist() == [0, 1]
    assert model.predict(frame).dtype == np.int64
    assert model.n_rows_["train"] == len(frame) - 2


@pytest.mark.parametrize(
    "pair",
    [
        (b"a", b"b"),
        ((1, 2), (3, 4)),
        (pd.Period("2020"), pd.Period("2021")),
        (pd.Timestamp("2020-01-01"), pd.Timestamp("2021-01-01")),
        (pd.Timedelta("1 day"), pd.Timedelta("2 days")),
    ],
)
def test_labels_that_are_neither_texts_nor_numbers_are_refused_before_training(frame, pair):
    labels = pd.Series([*pair] * 30)
    with pytest.raises(ValueError, match="labels are texts, numbers or truth values, but .* is a .*; make them texts"):
        GaugeClassifier(**OPTIONS).fit(frame, labels)
