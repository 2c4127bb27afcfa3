"""Presets: what each fits, what goes before it, bags in every place a single expert has, and time limits that are kept."""

import time

import numpy as np
import pandas as pd
import pytest
from helpers import unchecked

from gauge import GaugeClassifier, export
from gauge.tabular.experts._bag import Bag
from gauge.tabular.preparation import PRESETS

QUICK = {"random_state": 0, "verbose": False, "device": "cpu"}


def table(rows=120, seed=0):
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame(draw.normal(size=(rows, 3)), columns=["x", "weak", "noise"])
    frame["hue"] = draw.choice(["red", "blue"], rows)
    labels = np.where(frame["x"] + 0.5 * frame["weak"] + draw.normal(size=rows) > 0, "up", "down")
    return frame.mask(draw.random(frame.shape) < 0.1), labels


def fit(*given, **options):
    with unchecked():
        return GaugeClassifier(**QUICK | options).fit(*given)


@pytest.fixture(scope="module")
def best():
    return fit(*table(), preset="best", validation=0.5, epochs=1, batch_size=64)


def test_fast_has_no_network_and_named_experts_go_before_a_preset():
    assert fit(*table(), preset="fast", encoders={}).experts_ == ["trees", "linear"], "as the command line asks for it"
    assert fit(*table(60), preset="fast", experts=["network"], epochs=1).experts_ == ["network"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "quick"}, "there is no preset 'quick'"),
        (
            {"preset": "fast", "epochs": 3},
            "preset='fast' fits no network, so epochs=3 has no effect; leave one of them",
        ),
        ({"preset": "fast", "size": "large"}, "preset='fast' fits no network, so size='large' has no effect"),
    ],
)
def test_a_preset_that_contradicts_other_parameters_is_refused(options, message):
    with unchecked(), pytest.raises(ValueError, match=message):
        GaugeClassifier(**options).fit(*table(60))


def test_best_is_a_bag_of_networks_and_trees_that_answers_with_their_mean(best):
    seeds, experts = PRESETS["best"].seeds, best.ensemble_.experts
    assert len(experts["network"].members) == 2 * seeds  # with half of the rows held out there are two folds
    assert len(experts["trees"].members) == seeds
    assert not isinstance(experts["linear"], Bag)
    rows = best.fitted_.read(table(20, seed=1)[0])[1]
    for name in ("network", "trees"):
        members = [np.exp(member.predict(rows)) for member in experts[name].members]
        assert np.allclose(np.exp(experts[name].predict(rows)), np.mean(members, 0))
        assert not np.allclose(members[0], members[1])


def test_a_bag_is_saved_loaded_and_explained_like_a_single_expert(best, tmp_path):
    rows = table(20, seed=1)[0]
    best.save(tmp_path)
    again = GaugeClassifier.load(tmp_path)
    assert np.array_equal(again.predict_proba(rows), best.predict_proba(rows))
    assert again.explain(rows[:2]).to_frame()["gate"].notna().any()
    with pytest.raises(ValueError, match=r"a .pt2 file holds one network, and this classifier has 4; export to ONNX"):
        export(again, tmp_path / "model.pt2", experts=["network"])


@pytest.mark.usefixtures("best")  # libraries are imported by then
def test_a_time_limit_is_kept_and_what_was_left_out_is_said_and_saved(monkeypatch, tmp_path):
    monkeypatch.setattr(time, "monotonic", time.process_time)  # other processes take no time from this one
    started = time.process_time()
    model = fit(*table(), preset="best", epochs=10_000, time_limit=3.0)
    assert time.process_time() - started < 3.3
    assert "4 of 5 folds of 'network'" in model.left_out_
    model.save(tmp_path)
    again = GaugeClassifier.load(tmp_path)
    assert again.left_out_ == model.left_out_
    assert "4 of 5 folds of 'network'" in again.fitted_.facts()["Left out for the time limit"]
