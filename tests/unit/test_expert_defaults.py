"""Experts are as good with their defaults as those of other packages, on wide tables too."""

import lightgbm
import numpy as np
import pandas as pd
import pytest
import sklearn
from helpers import unchecked
from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from gauge import GaugeClassifier
from gauge.tabular.experts import linear, trees
from gauge.tabular.experts._logistic import fit_lasso, fit_logistic
from gauge.tabular.table.splits import Splits

MAX_DIFFERENCE = 0.002  # of the log loss
TABLES = {
    "breast_cancer": datasets.load_breast_cancer,
    "wine": datasets.load_wine,
    "iris": datasets.load_iris,
    "digits": lambda **options: datasets.load_digits(n_class=3, **options),
    "notes": None,
}


def table_of(name):
    if name == "notes":
        return with_notes()
    data = TABLES[name](as_frame=True)
    return data.data[:300], data.target.to_numpy()[:300]


def with_notes(rows=300):
    """Three classes that shift numbers, a category and the words of a text; 30 % of the cells are missing."""
    draw, words = np.random.default_rng(0), np.array([f"word{number}" for number in range(200)])
    labels = draw.integers(0, 3, rows)
    frame = pd.DataFrame(draw.normal(size=(rows, 3)) + labels[:, None] * [0.8, 0.3, 0.0], columns=["a", "b", "c"])
    frame["ward"] = np.where(draw.random(rows) < 0.6, labels, draw.integers(0, 3, rows)).astype(str)
    frame["notes"] = [
        " ".join([*draw.choice(words, 20), *draw.choice(words[10 * label :][:30], 6)]) for label in labels
    ]
    return frame.mask(draw.random(frame.shape) < 0.3), labels


def losses(name, expert, plain):
    """The mean log loss on the rows of three folds, each held out once: of the expert, and of a model of its library that
    `plain` fits to the same features."""
    frame, labels = table_of(name)
    own, default = [], []
    for train, test in Splits().folds(labels, 3, seed=0):
        model = GaugeClassifier(experts=expert, trust=False, random_state=0, n_jobs=1, verbose=False)
        fitted = model.fit(frame.iloc[train], labels[train]).fitted_
        one, rows = fitted.ensemble.experts[expert], fitted.read(frame)[1]
        other, features = plain(one, rows, train, labels)
        own.append(log_loss(labels[test], np.exp(one.predict(rows.take(test)))))
        default.append(log_loss(labels[test], other.predict_proba(features[test])))
    return np.mean(own), np.mean(default)


@pytest.mark.parametrize("name", TABLES)
def test_the_linear_expert_is_as_good_as_logistic_regression_with_its_penalty(name, monkeypatch):
    penalties = []

    def recorded(*given, penalty, **others):
        penalties.append(penalty)
        return fit_logistic(*given, penalty=penalty, **others)

    def plain(expert, rows, train, labels):
        features = expert.features(rows)
        return LogisticRegression(C=penalties[-1]).fit(features[train], labels[train]), features

    settings = [linear.Setting(penalty, recorded) for penalty in (0.03, 0.3, 3.0, 30.0)]
    monkeypatch.setattr(linear, "_settings", lambda task, features: settings)
    own, default = losses(name, "linear", plain)
    assert own < default + MAX_DIFFERENCE


@pytest.mark.parametrize("name", TABLES)
def test_trees_are_as_good_as_lightgbm_with_its_defaults(name):
    def plain(expert, rows, train, labels):
        return lightgbm.LGBMClassifier(verbose=-1, n_jobs=1).fit(rows.cells[train], labels[train]), rows.cells

    own, default = losses(name, "trees", plain)
    assert own < default + MAX_DIFFERENCE


def test_trees_that_learned_from_complete_rows_are_not_sure_of_rows_with_gaps():
    frame, labels = table_of("breast_cancer")
    new = frame[200:].mask(np.random.default_rng(0).random(frame[200:].shape) < 0.6)
    with unchecked():
        own = GaugeClassifier(experts="trees", **OPTIONS).fit(frame[:200], labels[:200]).predict_proba(new)
    plain = lightgbm.LGBMClassifier(verbose=-1, n_jobs=1).fit(frame[:200], labels[:200]).predict_proba(new)
    assert log_loss(labels[200:], own) < 0.6 * log_loss(labels[200:], plain)


def test_rows_are_learned_from_with_gaps_only_where_training_has_hardly_any():
    cells = np.random.default_rng(0).normal(size=(400, 3))
    cells[:80, 2] = np.nan
    copied, copies = trees._with_gaps(cells, seed=0)
    assert len(np.unique(copied)) == 200
    assert np.allclose(np.isnan(copies[:, :2]).mean(0), 0.5, atol=0.1)
    assert np.array_equal(copies[:, 2], cells[copied, 2], equal_nan=True)
    known = ~np.isnan(copies)
    assert np.array_equal(copies[known], cells[copied][known])
    assert len(trees._with_gaps(cells[:, 2:], seed=0)[0]) == 0


OPTIONS = {"trust": False, "random_state": 0, "n_jobs": 1, "verbose": False}
INFORMATIVE = 4


def wide(rows, columns, classes, seed=0):
    """Numbers of which the first few tell the class."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(rows, columns))
    scores = 2 * x[:, :INFORMATIVE] @ np.random.default_rng(0).normal(size=(INFORMATIVE, classes))
    return x, (scores + draw.gumbel(size=scores.shape)).argmax(1)


@pytest.mark.skipif(sklearn.__version__ < "1.8", reason="l1_ratio alone makes no lasso")
def test_the_lasso_for_two_classes_is_that_of_scikit_learn(monkeypatch):
    monkeypatch.setattr("gauge.tabular.experts._logistic.LASSO_STEPS", 60)
    x, y = wide(150, 30, 2)
    own = np.diff(fit_lasso(x, y, np.ones(len(y)), classes=2, penalty=0.3, tolerance=1e-6)[0], axis=0)[0]
    # the norm of two opposite coefficients is their difference over √2
    theirs = LogisticRegression(C=0.3 / 2**0.5, l1_ratio=1, solver="saga", tol=1e-6, max_iter=5000).fit(x, y).coef_[0]
    assert np.allclose(own, theirs, atol=0.02)


def test_the_linear_expert_leaves_noise_out_of_a_wide_table():
    x, y = wide(160, 150, 2)
    new, truth = wide(500, 150, 2, seed=1)
    frame, other = (pd.DataFrame(each).add_prefix("c") for each in (x, new))
    with unchecked():
        model = GaugeClassifier(experts="linear", **OPTIONS).fit(frame, y)
    plain = LogisticRegression().fit(x, y).predict_proba(new)[:, 1]
    assert roc_auc_score(truth, model.predict_proba(other)[:, 1]) > roc_auc_score(truth, plain) + 0.05
    expert = model.ensemble_.experts["linear"]
    assert np.mean(np.abs(expert.coefficients[1]) < 1e-3) > 0.5


def test_rows_held_out_do_not_choose_the_columns_that_trees_of_a_wide_table_read():
    x = np.random.default_rng(0).normal(size=(120, 1000))  # noise
    with unchecked():
        model = GaugeClassifier(experts="trees", **OPTIONS).fit(x, np.arange(120) % 2)
    assert model.leaderboard_["auc"].max() < 0.65
    used = np.unique(model.ensemble_.experts["trees"].forest.feature)
    assert len(used) <= trees.Trees.most_screened + 1
