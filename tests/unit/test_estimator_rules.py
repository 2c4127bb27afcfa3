"""GaugeClassifier keeps scikit-learn's rules, and refuses bad options and bad input with a cure."""

import logging
import re
from inspect import signature

import numpy as np
import pandas as pd
import pytest
from helpers import clinic, unchecked
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from gauge import GaugeClassifier
from gauge.cli.fit import PARAMETERS
from gauge.cli.fit import fit as fit_command

FAST = {"batch_size": 64, "learning_rate": 0.01, "random_state": 0, "verbose": False}
UNEQUAL = {
    "check_sample_weight_equivalence_on_dense_data": "batches and validation rows are drawn by row, so a row that is "
    "repeated is not a row that counts twice"
}


@parametrize_with_checks([GaugeClassifier(epochs=1, **FAST)], expected_failed_checks=lambda estimator: UNEQUAL)
def test_it_keeps_the_rules_of_scikit_learn(estimator, check, monkeypatch):
    if check.func.__name__ in ("check_methods_sample_order_invariance", "check_methods_subset_invariance"):
        # float32 products of another order or size may differ in the seventh digit
        for name in ("assert_allclose", "assert_allclose_dense_sparse"):
            close = getattr(estimator_checks, name)
            monkeypatch.setattr(estimator_checks, name, lambda *a, close=close, **b: close(*a, **b | {"atol": 1e-5}))
    with unchecked():
        check(estimator)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return clinic(tmp_path_factory.mktemp("clinic"))


@pytest.fixture(scope="module")
def numbers(table):
    return table[["age", "site"]]


def fit(frame, labels, sample_weight=None, **options):
    with unchecked():
        return GaugeClassifier(**FAST | {"epochs": 1} | options).fit(frame, labels, sample_weight=sample_weight)


def test_rows_of_weight_zero_are_not_learned_from(numbers, table, caplog):
    labels = table["diagnosis"].to_numpy()
    weight = (labels != "wart").astype(float)
    model = fit(numbers, labels, weight)
    assert "no row of class 'wart' has a value and a weight above zero, so it is not learned" in caplog.text
    assert caplog.text.count("no row of class") == 1
    assert model.class_prior_[list(model.classes_).index("wart")] == 0
    learned, empty = model.n_rows_["train"], model.n_rows_["empty"]
    assert learned + empty == int(weight.sum())
    same = fit(numbers.assign(age=numbers["age"].where(weight > 0, 1e6)), labels, weight)
    assert same.schema_ == model.schema_  # no scale either
    assert np.array_equal(same.predict_proba(numbers), model.predict_proba(numbers))
    with pytest.raises(ValueError, match="all rows with a label have a weight of zero; give one of them more"):
        fit(numbers, labels, 0 * weight)
    with pytest.raises(ValueError, match=r"sample_weight has shape \[2\]; give one weight for each row, \[160\]"):
        fit(numbers, labels, [1, 2])
    with pytest.raises(ValueError, match="Negative values"):
        fit(numbers, labels, -weight)


@pytest.mark.parametrize("weight", [3, 30])
def test_probabilities_of_noise_are_the_weighted_shares_of_the_classes(weight):
    """Weights of experts came from rows held out that all counted alike, which undid what each expert had learned."""
    draw = np.random.default_rng(0)
    rows, labels = pd.DataFrame(draw.normal(size=(1000, 3)), columns=list("abc")), draw.random(1000) < 0.1
    weights = np.where(labels, weight, 1.0)
    with unchecked():
        model = GaugeClassifier(preset="fast", trust=False, random_state=0, verbose=False)
        model.fit(rows, labels, sample_weight=weights)
    share = weights[labels].sum() / weights.sum()
    assert model.predict_proba(rows)[:, 1].mean() == pytest.approx(share, abs=0.05)


def test_log_probabilities_are_those_of_predict_proba_and_finite_for_a_class_without_weight(numbers, table):
    labels = table["diagnosis"].to_numpy()
    model = fit(numbers, labels, (labels != "wart").astype(float), experts="linear", trust=False)
    rows = pd.concat([numbers[:9], numbers[:1].assign(age=None, site=None)])
    logs, probabilities = model.predict_log_proba(rows), model.predict_proba(rows)
    assert probabilities.min() == 0
    assert np.isfinite(logs).all()
    np.testing.assert_allclose(np.exp(logs), probabilities, atol=1e-300)


def test_only_the_ratios_of_weights_matter(numbers, table):
    weight = np.random.default_rng(0).uniform(0.5, 2, len(numbers))
    options = {"experts": ["trees", "linear"], "trust": False}
    one, other = (fit(numbers, table["diagnosis"], each, **options) for each in (weight, weight / 2**10))
    assert np.array_equal(one.predict_proba(numbers), other.predict_proba(numbers))


WRONG_OPTIONS = {
    "columns": (["age"], "a mapping or None"),
    "missing_rate": (30.0, "a number from 0 to 1 or None"),
    "class_weight": ("all", "'balanced', a mapping or None"),
    "validation": (1.0, "a number between 0 and 1"),
    "epochs": (0, "a positive integer or None"),
    "image_size": (0.5, "an integer of at least 16"),
    "learning_rate": (float("nan"), "a positive number"),
    "time_limit": ("10m", "a positive number or None"),
}


@pytest.mark.parametrize("name", WRONG_OPTIONS)
def test_options_are_checked_before_training(table, name):
    value, rule = WRONG_OPTIONS[name]
    message = f"The '{name}' parameter of GaugeClassifier must be {rule}, got {value!r}"
    with pytest.raises(ValueError, match=re.escape(message)):
        fit(table, "diagnosis", **{name: value})


def test_labels_in_another_order_than_the_table_are_reported(numbers, table, caplog):
    with caplog.at_level(logging.WARNING):
        fit(numbers, table["diagnosis"].iloc[::-1])
    assert "y and the table have the same index in different orders" in caplog.text


def test_it_serves_cross_validation_and_a_search_over_its_options(numbers, table):
    estimator = GaugeClassifier(epochs=1, experts="network", trust=False, **FAST)
    with unchecked():
        assert np.isfinite(cross_val_score(estimator, numbers, table["diagnosis"], cv=2)).all()
        search = GridSearchCV(estimator, {"missing_rate": [0.2, 0.8]}, cv=2)
        assert search.fit(numbers, table["diagnosis"]).best_params_["missing_rate"] in (0.2, 0.8)


def test_bad_input_is_refused_with_the_position_and_the_cure(numbers, table):
    labels = table["diagnosis"]
    with pytest.raises(ValueError, match="there is no column 'label' with the labels; the table has"):
        fit(table, "label")
    with pytest.raises(ValueError, match="all labels are 'x', one class only; give rows of two or more"):
        fit(numbers, ["x"] * len(numbers))
    with pytest.raises(ValueError, match="all labels are missing; give rows that have one"):
        fit(numbers, [None] * len(numbers))
    with pytest.raises(ValueError, match="the table has column 'age' twice; rename or drop one"):
        fit(pd.concat([numbers, numbers["age"]], axis=1), labels)
    with pytest.raises(ValueError, match="the table has no rows"):
        fit(numbers[:0], [])
    with pytest.raises(ValueError, match="the table has 160 rows but there are 2 labels"):
        fit(numbers, ["a", "b"])
    with pytest.raises(ValueError, match="there is no metric 'acuracy'; did you mean 'accuracy'"):
        fit(numbers, labels, metric="acuracy")
    with pytest.raises(ValueError, match="there is no size 'huge'"):
        fit(numbers, labels, size="huge")
    with pytest.raises(ValueError, match="column 'age': none of its image files can be found, first 45.5.*row 3"):
        fit(numbers, labels, columns={"age": "image", "site": "ignore"})
    with pytest.raises(ValueError, match=r"no column can be used \('age': it is empty"):
        fit(numbers, labels, sample_weight=numbers["age"].isna() & numbers["site"].isna())


def test_gauge_fit_has_the_options_of_the_constructor_and_twelve_of_its_own():
    parameters = GaugeClassifier().get_params()
    assert len(parameters) <= 24
    options = {name for name in signature(fit_command).parameters if name not in ("context", "table")}
    own = {"target", "out", "classes", "groups", "time", "stream", "config", "force", "plugin"}
    own |= {"threshold", "positive"}
    assert options == own | set(parameters) - {"image_folder"}
    shared = set(PARAMETERS) - {"random_state"}  # the same command gives the same model
    assert {name: PARAMETERS[name].default for name in shared} == {name: parameters[name] for name in shared}
