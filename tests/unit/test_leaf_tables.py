"""Trees that are read from tables of their leaves score as LightGBM does, for any value."""

import lightgbm
import numpy as np
import pytest

from gauge.tabular.experts._forest import Forest
from gauge.tabular.experts._leaf_tables import LeafTables

OPTIONS = {"num_leaves": 15, "min_data_in_leaf": 3, "verbosity": -1, "num_threads": 1}
ODD = [np.nan, 0.0, -0.0, 1e-40, -1e-40, -0.5, -1.0, 3.7, 19.0, 20.0, 255.0, 1e30, -1e30]


def fitted(classes, *, rounds=20, columns=5, options=None):
    """A booster of numbers and a category, column 1, with missing values in all columns but the last; and its rows."""
    draw = np.random.default_rng(0)
    cells = draw.normal(size=(400, columns)).astype(np.float32)
    cells[:, 1] = draw.integers(0, 20, 400)
    labels = (np.abs(cells[:, 0] * 2 + cells[:, 1] % 3 + cells[:, -1]).astype(int)) % classes
    cells[:, :-1][draw.random((400, columns - 1)) < 0.2] = np.nan
    goal = {"objective": "binary"} if classes == 2 else {"objective": "multiclass", "num_class": classes}
    data = lightgbm.Dataset(cells, labels, categorical_feature=[1], params={"verbosity": -1})
    return lightgbm.train({**OPTIONS, **goal, **(options or {})}, data, rounds), cells


def odd_rows(cells):
    """The rows, and some in which every column holds a value that training hardly saw."""
    return np.concatenate([cells, np.repeat(np.array(ODD, np.float32)[:, None], cells.shape[1], 1)])


@pytest.mark.parametrize(
    ("classes", "options"),
    [
        (2, {}),
        (3, {}),
        (4, {"num_leaves": 16}),
        (2, {"zero_as_missing": True}),
        (3, {"use_missing": False}),
        (3, {"num_leaves": 2}),
        (2, {"min_data_in_leaf": 400}),  # trees without splits
    ],
)
def test_tables_score_rows_as_lightgbm_does(classes, options):
    booster, cells = fitted(classes, options=options)
    rows = odd_rows(cells)
    tables = LeafTables.from_forest(Forest.from_booster(booster))
    assert tables is not None
    expected = np.asarray(booster.predict(rows, raw_score=True, num_threads=1)).reshape(len(rows), -1)
    np.testing.assert_allclose(tables.scores(rows), expected, rtol=0, atol=1e-12)
    assert tables.scores(rows[:0]).shape == (0, expected.shape[1])
