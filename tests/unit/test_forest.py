"""Trees as arrays: they answer as the model that they came from, and native code never sees wrong ones."""

from dataclasses import replace

import lightgbm
import numpy as np
import pytest

from gauge.tabular.experts._forest import DTYPES, Forest
from gauge.tabular.experts._leaf_tables import LeafTables

OPTIONS = {"verbosity": -1, "num_threads": 1, "min_data_in_leaf": 3, "deterministic": True, "force_row_wise": True}


def cells(rows=300, seed=0):
    """Numbers with and without missing values and zeros, one that is never missing, and categories."""
    draw = np.random.default_rng(seed)
    given = np.c_[
        draw.normal(size=rows),
        np.where(draw.random(rows) < 0.4, 0.0, draw.normal(size=rows)),
        draw.normal(size=rows) * 1e-30,
        draw.integers(0, 70, rows),
        draw.integers(0, 3, rows),
    ]
    given[draw.random(given.shape) < 0.2] = np.nan
    return np.c_[given, draw.normal(size=rows)]


def fitted(objective, classes=1, rounds=12, **options):
    given = cells()
    signal = np.nan_to_num(given).sum(1) + 0.3 * np.nan_to_num(given[:, 3] % 7)
    target = signal if classes == 1 else np.digitize(signal, np.quantile(signal, np.linspace(0, 1, classes + 1)[1:-1]))
    data = lightgbm.Dataset(given, target, categorical_feature=[3, 4], params={"verbosity": -1} | options)
    shape = {"objective": objective, "num_class": classes if objective == "multiclass" else 1}
    return lightgbm.train(OPTIONS | shape | options, data, rounds)


MODELS = {
    "two classes": lambda: fitted("binary", 2),
    "five classes": lambda: fitted("multiclass", 5, cat_smooth=1.0, min_data_per_group=5),
    "a number": lambda: fitted("regression"),
    "zero counts as missing": lambda: fitted("binary", 2, zero_as_missing=True),
    "nothing counts as missing": lambda: fitted("binary", 2, use_missing=False),
    "trees of one leaf": lambda: fitted("multiclass", 5, min_data_in_leaf=290),
}


def hostile():
    """New rows with unseen categories, extreme numbers and whole columns missing."""
    given = cells(seed=1)
    given[:40, 3] = np.arange(40, 80)
    given[40:50, 3:5] = [[-1, 7], [1e6, 0.5], [2**31 - 1, -0.0], [31, 32], [63, 64]] * 2
    given[50:60] = np.nan
    given[60:70] = 0.0
    given[70:74, 0] = [1e300, -1e300, 1e-36, -1e-36]
    return given


@pytest.mark.parametrize("name", MODELS)
def test_the_arrays_answer_as_the_model_they_came_from(name):
    booster = MODELS[name]()
    forest = Forest.from_booster(booster)
    saved = Forest.load("a.", forest.tensors("a."), forest.metadata())
    for options in ({"raw_score": True}, {}):
        expected = booster.predict(hostile(), num_threads=1, **options)
        np.testing.assert_array_equal(saved.booster().predict(hostile(), num_threads=1, **options), expected)
    assert saved.text() == forest.text()


@pytest.mark.parametrize(
    "options",
    [{"objective": "poisson"}, {"linear_tree": True}, {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}],
)
def test_models_of_other_kinds_are_refused(options):
    booster = lightgbm.train(OPTIONS | options, lightgbm.Dataset(cells(), np.arange(300.0)), 2)
    with pytest.raises(ValueError, match="cannot be saved"):
        Forest.from_booster(booster)


def _at(name, index, value):
    def change(forest):
        array = getattr(forest, name).copy()
        array[index] = value
        return {name: array}

    return change


WRONG = {
    "reads a column": [_at("feature", 3, 6), _at("feature", 0, -1), _at("feature", -1, 2**31 - 1)],
    "later split or a leaf": [
        _at("left", 2, 0),
        _at("right", 0, 2**31 - 1),
        _at("left", 0, -(2**31)),
        _at("right", 1, -40),
    ],
    "child of one split": [_at("left", 0, -2), _at("right", 5, 7)],
    "whole rounds": [_at("leaves", 0, 0), _at("leaves", 1, -5), lambda forest: {"leaves": forest.leaves[:-1]}],
    "entries, the trees have": [
        _at("leaves", 0, 2**31 - 1),
        lambda forest: {"value": forest.value[:-1]},
        lambda forest: {"threshold": np.zeros(0)},
    ],
    "too large": [
        _at("value", 7, np.nan),
        _at("value", 0, np.inf),
        _at("threshold", 0, np.nan),
        _at("value", 0, 1e308),
    ],
    "missing has": [_at("missing", 0, 3)],
    "set_size does not count": [_at("set_size", 0, 2**31 - 1), _at("set_size", 1, -1)],
    "category is not": [_at("categories", 0, -1), _at("categories", 0, Forest.max_category + 1)],
    "do not rise": [_at("categories", 0, Forest.max_category)],
    "outputs": [lambda _: {"outputs": 10**9}, lambda _: {"outputs": 1}],
    "not complete": [lambda _: {"outputs": True}, lambda _: {"features": "6"}, lambda _: {"objective": None}],
    "features is": [lambda _: {"features": 10**12}, lambda _: {"features": -1}],
    "objective": [lambda _: {"objective": "binary"}, lambda _: {"objective": "custom\nnum_class=9"}],
    "is not a list of": [
        lambda forest: {"value": forest.value.astype(np.float32)},
        lambda forest: {"left": forest.left[:, None]},
        lambda forest: {"categories": forest.categories.astype(float)},
    ],
}


@pytest.mark.parametrize(("rule", "change"), [(rule, change) for rule, changes in WRONG.items() for change in changes])
def test_wrong_arrays_are_refused(rule, change):
    forest = Forest.from_booster(MODELS["five classes"]())
    assert forest.set_size[forest.set_size > 0][0] > 1
    changes = change(forest)
    tensors = forest.tensors("") | {name: each for name, each in changes.items() if name in DTYPES}
    metadata = forest.metadata() | {name: each for name, each in changes.items() if name not in DTYPES}
    with pytest.raises(ValueError, match=f"the trees .*{rule}"):
        Forest.load("", tensors, metadata)


def test_a_circle_of_splits_is_refused():
    forest = Forest.from_booster(fitted("binary", 2, rounds=1))
    left, right = forest.left.copy(), forest.right.copy()
    parent = int(np.flatnonzero((left > 0) | (right > 0))[-1])
    (left if left[parent] > 0 else right)[parent] = parent
    with pytest.raises(ValueError, match="later split"):
        replace(forest, left=left, right=right)


def test_sets_of_categories_are_bounded_before_they_are_built(monkeypatch):
    forest = Forest.from_booster(MODELS["five classes"]())
    monkeypatch.setattr("gauge.tabular.experts._forest.Forest.max_set_words", 2)
    with pytest.raises(ValueError, match="sets of categories are too large"):
        replace(forest)


def test_random_changes_are_refused_or_answer_with_finite_numbers():
    """A change that leaves valid trees is another model: native code reads it without harm."""
    forest, draw = Forest.from_booster(fitted("multiclass", 5, rounds=3)), np.random.default_rng(0)
    names, refused = list(forest.tensors("")), 0
    for _ in range(300):
        name = names[draw.integers(len(names))]
        array = getattr(forest, name).copy()
        array[draw.integers(len(array))] = draw.choice(np.array([0, 1, 2, 5, -1, 100])).astype(array.dtype)
        try:
            changed = replace(forest, **{name: array})
        except ValueError:
            refused += 1
            continue
        assert np.isfinite(changed.booster().predict(hostile(), num_threads=1)).all()
    assert refused > 50


ODD = [np.nan, 0.0, -0.0, 1e-40, -1e-40, -0.5, -1.0, 3.7, 19.0, 20.0, 255.0, 1e30, -1e30]


@pytest.mark.parametrize(
    ("classes", "options"),
    [
        *((classes, {}) for classes in (2, 3)),
        (4, {"num_leaves": 16}),
        (2, {"zero_as_missing": True}),
        (3, {"use_missing": False}),
        (3, {"num_leaves": 2}),
        (2, {"min_data_in_leaf": 400}),  # trees without splits
    ],
)
def test_tables_of_leaves_score_rows_as_lightgbm_does_for_any_value(classes, options):
    booster = fitted("binary" if classes == 2 else "multiclass", classes, **{"num_leaves": 15} | options)
    rows = np.concatenate([cells(), np.repeat(np.array(ODD)[:, None], 6, 1)]).astype(np.float32)
    tables = LeafTables.from_forest(Forest.from_booster(booster))
    assert tables is not None
    expected = np.asarray(booster.predict(rows, raw_score=True, num_threads=1)).reshape(len(rows), -1)
    np.testing.assert_allclose(tables.scores(rows), expected, rtol=0, atol=1e-12)
    assert tables.scores(rows[:0]).shape == (0, expected.shape[1])
