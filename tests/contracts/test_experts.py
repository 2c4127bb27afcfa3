"""Every registered expert keeps its contract; a new file is picked up by being there."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from helpers import unchecked

from gauge import GaugeClassifier
from gauge.registry import EXPERTS
from gauge.tabular.experts import Expert, Saved

QUICK = {"epochs": 1, "max_categories": 6, "random_state": 0, "trust": False, "verbose": False, "device": "cpu"}


def rows_of(count, seed):
    """Numbers, categories, also rare ones, and texts, some of them missing, and the label that they tell."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=count)
    frame = pd.DataFrame({"x": x, "noise": draw.normal(size=count), "hue": np.where(x > 0, "red", "blue")})
    frame["notes"] = [f"{'well' if each > 0 else 'ill'} on day {day}" for day, each in enumerate(x)]
    frame["place"] = [f"place {each}" for each in draw.integers(0, 25, count)]
    return frame.mask(draw.random(frame.shape) < 0.2), np.where(x > 0, "up", "down")


@pytest.fixture(scope="module", params=EXPERTS.names())
def fitted(request):
    frame, labels = rows_of(80, seed=0)
    with unchecked():
        model = GaugeClassifier(experts=[request.param], columns={"notes": "text"}, **QUICK).fit(frame, labels)
    assert list(model.ensemble_.experts) == [request.param]
    assert model.schema_.table[-1].tells_rare_apart
    return model.fitted_


@pytest.fixture(scope="module")
def expert(fitted):
    (expert,) = fitted.ensemble.experts.values()
    return expert


@pytest.fixture(scope="module")
def rows(fitted):
    rows = fitted.read(rows_of(30, seed=1)[0])[1]
    return rows.take(np.flatnonzero(~rows.encoded.empty))


def test_an_expert_answers_with_log_probabilities_of_all_classes(expert, rows):
    assert isinstance(expert, Expert)
    answers = expert.predict(rows)
    assert answers.shape == (len(rows), 2)
    assert np.isfinite(answers).all()
    assert np.allclose(np.exp(answers).sum(1), 1)
    assert expert.predict(rows.take(np.arange(0))).shape == (0, 2)


def test_a_saved_expert_is_arrays_and_json_and_answers_bit_for_bit_the_same(expert, fitted, rows):
    saved = expert.save()
    assert all(isinstance(array, np.ndarray) for array in saved.tensors.values())
    again = type(expert).load(Saved(saved.tensors, json.loads(json.dumps(saved.metadata))), fitted.schema)
    assert np.array_equal(again.predict(rows), expert.predict(rows))


def test_the_values_behind_missing_cells_change_nothing(expert, rows):
    noise, inputs = np.random.default_rng(0), {}
    for name, values in rows.encoded.inputs.items():
        flags = rows.encoded.observed[name]
        observed = flags.reshape(*flags.shape, *[1] * (values.ndim - flags.ndim))
        inputs[name] = np.where(observed, values, noise.integers(0, 2, values.shape).astype(values.dtype))
    noisy = replace(rows, encoded=replace(rows.encoded, inputs=inputs))
    assert any(not np.array_equal(inputs[name], values) for name, values in rows.encoded.inputs.items())
    assert np.array_equal(expert.predict(noisy), expert.predict(rows))


def test_rows_in_any_order_and_number_get_the_same_answers(expert, rows):
    answers, order = expert.predict(rows), np.random.default_rng(0).permutation(len(rows))
    assert np.allclose(expert.predict(rows.take(order)), answers[order], atol=1e-5)
    assert np.allclose(expert.predict(rows.take(order[:3])), answers[order[:3]], atol=1e-5)
