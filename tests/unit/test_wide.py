"""Tables with many columns or classes: columns that say nothing are left out, and trees stay within a budget."""

import numpy as np
import pandas as pd
import pytest
from helpers import unchecked
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from gauge import GaugeClassifier
from gauge.tabular.experts import trees
from gauge.tabular.experts._logistic import fit_lasso, fit_logistic

OPTIONS = {"trust": False, "random_state": 0, "n_jobs": 1, "verbose": False}
INFORMATIVE = 4


def wide(rows, columns, classes, seed=0):
    """Numbers of which the first few tell the class."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(rows, columns))
    scores = 2 * x[:, :INFORMATIVE] @ np.random.default_rng(0).normal(size=(INFORMATIVE, classes))
    return x, (scores + draw.gumbel(size=scores.shape)).argmax(1)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_lasso_keeps_few_columns_and_beats_every_ridge_where_few_matter(classes):
    x, y = wide(150, 200, classes)
    new, truth = wide(500, 200, classes, seed=1)
    known = {"classes": classes, "tolerance": 1e-4}

    def loss(coefficients, offsets):
        scores = new @ coefficients.T + offsets
        return log_loss(truth, np.exp(scores) / np.exp(scores).sum(1, keepdims=True))

    lasso = fit_lasso(x, y, np.ones(len(y)), penalty=0.3, **known)
    ridges = [fit_logistic(x, y, np.ones(len(y)), penalty=penalty, **known) for penalty in (0.003, 0.03, 0.3, 3.0)]
    norms = np.linalg.norm(lasso[0], axis=0)
    assert set(range(INFORMATIVE)) & set(np.argsort(norms)[-INFORMATIVE:])
    assert np.count_nonzero(norms > 0.01 * norms.max()) < 100
    assert loss(*lasso) < min(loss(*each) for each in ridges)


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


def test_trees_of_many_classes_are_no_more_than_their_budget(monkeypatch):
    x, y = wide(200, 5, 6)
    frame, counts = pd.DataFrame(x).add_prefix("c"), []
    monkeypatch.setattr(trees, "DEFAULT_ROUNDS", 5)
    for budget in (trees.MAX_TREES, 5 * 6):
        monkeypatch.setattr(trees, "MAX_TREES", budget)
        with unchecked():
            model = GaugeClassifier(experts="trees", **OPTIONS).fit(frame, y)
        counts.append(len(model.ensemble_.experts["trees"].forest.leaves))
    assert counts[1] <= 5 * 6 < counts[0]
