"""Classifiers of cells: what they read, what they answer without a cell, and that they are their library's models."""

import lightgbm
import numpy as np
import pytest
import torch
from helpers import noise
from sklearn.linear_model import LogisticRegression

from gauge import Dataset
from gauge.masks import AnyCells, Complete
from gauge_lab.benchmarks import leaf99, polymnist5k
from gauge_lab.methods.boosted_cells import OPTIONS, BoostedCells
from gauge_lab.methods.logistic_cells import LogisticCells
from gauge_lab.plans import last_stage, plan_of

TABLES = {"table": (3, 1, 1, 2)}
METHODS = pytest.mark.parametrize("method", [LogisticCells, BoostedCells])


def table(rows: int, classes: int = 3, seed: int = 0) -> Dataset:
    """The label is known from the first category, nearly so from the first number; cells are missing here and there."""
    labels = torch.arange(rows) % classes
    draws = noise(rows, 4, seed=seed)
    cells = torch.stack([labels % 3, labels + 0.3 * draws[:, 1], draws[:, 2], (draws[:, 3] > 0).float()], 1)
    inputs = {"image": noise(rows, 1, 8, 8, seed=seed), "table": cells.float()}
    return Dataset("train", inputs, labels, {"table": noise(rows, 4, seed=seed + 1) > -1})


@METHODS
def test_a_sample_without_a_cell_gets_the_class_prior(method):
    data = table(90)
    uneven = data.take(torch.arange(90)[(data.labels == 0) | (torch.arange(90) < 30)])
    fitted = method(TABLES, 3, masks=AnyCells())
    fitted.prepare(uneven)
    keep = {"image": torch.ones(4, dtype=torch.bool), "table": torch.zeros(4, 4, dtype=torch.bool)}
    logits = fitted.predict(uneven.batch(torch.arange(4), keep=keep)).logits
    counts = uneven.labels.bincount() + 1
    torch.testing.assert_close(logits.softmax(1), (counts / counts.sum()).expand(4, 3))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("masks", [AnyCells(), Complete()], ids=str)
def test_the_trees_answer_as_lightgbm_does(classes, masks, monkeypatch):
    boosters, train = [], lightgbm.train
    monkeypatch.setattr(
        lightgbm, "train", lambda *args, **named: boosters.append(train(*args, **named)) or boosters[-1]
    )
    fitted = BoostedCells(TABLES, classes, masks=masks)
    fitted.prepare(table(300, classes), table(60, classes, seed=7))
    features = fitted.features(table(200, classes, seed=3).batch(torch.arange(200)))
    expected = boosters[0].predict(features.numpy(), raw_score=True)
    expected = np.stack([np.zeros_like(expected), expected], 1) if classes == 2 else expected
    np.testing.assert_allclose(fitted.scores(features), expected, atol=1e-5)
    assert boosters[0].params.items() >= OPTIONS.items()


def test_the_regression_is_that_of_scikit_learn():
    data = table(150)
    fitted = LogisticCells(TABLES, 3, masks=Complete())
    fitted.prepare(data)
    features = fitted.features(data.batch(torch.arange(150)))
    known = ~features.isnan().all(1)
    inputs = fitted._inputs(features)[known].double().numpy()
    model = LogisticRegression(C=1.0, max_iter=300).fit(inputs, data.labels[known].numpy())
    expected = torch.from_numpy(model.decision_function(inputs))
    torch.testing.assert_close(fitted.scores(features)[known].double(), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["logistic_cells", "boosted_cells"])
def test_cells_are_hidden_as_in_the_training_of_gauge_or_left_as_they_are(name):
    hidden, as_is = (last_stage(leaf99.BENCHMARK, name, variant, 2) for variant in (name, f"{name}-as-is"))
    assert hidden.arguments["masks"] == leaf99.BENCHMARK.settings.finetune.masks
    assert as_is.arguments["masks"] == Complete()
    assert hidden.arguments["tables"] == {"table": (1,) * 192}
    assert (hidden.settings.epochs, hidden.settings.seed) == (0, 2)
    reason = "it reads the cells of tables, and no modality is a table"
    assert plan_of(name).unsupported(polymnist5k.BENCHMARK) == reason
