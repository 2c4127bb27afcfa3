"""Trees in an ONNX graph decide as LightGBM does: on thresholds, missing numbers, and categories that are known or not."""

from dataclasses import replace

import lightgbm
import numpy as np
import pytest

from gauge.data.graph import Graph
from gauge.tabular.experts._forest import Forest
from gauge.tabular.experts._forest_graph import export_forest

onnxruntime = pytest.importorskip("onnxruntime")
FEATURES = 5


def cells(rows: int, categories: int, seed: int, missing: float) -> np.ndarray:
    """Numbers, one of them with few values and never missing, and two columns of categories."""
    draw = np.random.default_rng(seed)
    values = draw.normal(size=(rows, FEATURES)).astype(np.float32)
    values[:, 3], values[:, 4] = draw.integers(0, categories, rows), draw.integers(0, 7, rows)
    values[draw.random(values.shape) < missing] = np.nan
    values[:, 2] = draw.normal(size=rows).round(1)
    return values


def fit(classes: int, categories: int) -> lightgbm.Booster:
    values = cells(600, categories, seed=0, missing=0.15)
    labels = (np.nan_to_num(values[:, 3]) % 3 + np.nan_to_num(values[:, 0]) > 1).astype(int)
    labels += (classes - 2) * (values[:, 2] > 0.5)
    options = {"objective": "binary"} if classes == 2 else {"objective": "multiclass", "num_class": classes}
    few = {"num_leaves": 15, "min_data_in_leaf": 3, "cat_smooth": 1, "min_data_per_group": 2}
    data = lightgbm.Dataset(values, labels, categorical_feature=[3, 4], params={"verbosity": -1})
    return lightgbm.train(options | few | {"verbosity": -1, "num_threads": 1}, data, 20)


def scores(forest: Forest, values: np.ndarray) -> np.ndarray:
    graph = Graph()
    given = graph.input("cells", np.float32, (FEATURES,))
    graph.output("scores", export_forest(forest, graph, graph.cast(given, np.float64)), np.float32, (forest.outputs,))
    session = onnxruntime.InferenceSession(graph.model().SerializeToString())
    return session.run(["scores"], {"cells": values})[0]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("categories", [2, 31, 200])
def test_trees_in_a_graph_give_the_scores_of_lightgbm(classes, categories):
    booster = fit(classes, categories)
    forest = Forest.from_booster(booster)
    assert (forest.set_size > 0).any()
    values = cells(2000, categories + 3, seed=1, missing=0.3)  # some categories were not in training
    values[:50] = np.nan
    thresholds = forest.threshold[(forest.set_size == 0) & (forest.feature == 0) & (np.abs(forest.threshold) > 1e-30)]
    below = np.nextafter(thresholds.astype(np.float32), np.float32(-np.inf))
    # at a threshold, as near as a float can be, and just below it
    for start, edge in ((100, thresholds), (200, below)):
        count = min(len(edge), 100)
        values[start : start + count, 0] = edge[:count]
    expected = booster.predict(values, raw_score=True).reshape(len(values), -1)
    np.testing.assert_allclose(scores(forest, values), expected, atol=1e-6, rtol=0)
    np.testing.assert_allclose(scores(forest, values[:1]), expected[:1], atol=1e-6, rtol=0)


def test_a_number_that_was_never_missing_is_read_as_zero_where_it_is():
    forest = Forest.from_booster(fit(2, 5))
    assert (forest.missing[(forest.set_size == 0) & (forest.feature == 2)] == 0).all()
    values = cells(200, 5, seed=2, missing=0.0)
    values[:, 2] = np.nan
    expected = forest.booster().predict(values, raw_score=True)
    np.testing.assert_allclose(scores(forest, values)[:, 0], expected, atol=1e-6, rtol=0)


def test_trees_that_read_zero_as_missing_are_refused():
    forest = Forest.from_booster(fit(2, 5))
    zero = replace(forest, missing=np.ones_like(forest.missing))
    with pytest.raises(ValueError, match="trees that read zero as missing cannot be exported"):
        scores(zero, cells(1, 5, seed=0, missing=0.0))
