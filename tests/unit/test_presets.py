"""Presets: what each fits, what goes before it, and time limits that are kept."""

import time

import numpy as np
import pandas as pd
import pytest
from helpers import BLOCK_TORCH, clinic, python, unchecked

from gauge import GaugeClassifier

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


def test_fast_has_no_network_and_named_experts_go_before_a_preset():
    assert fit(*table(), preset="fast", encoders={}).experts_ == ["trees", "linear"], "as the command line asks for it"
    assert fit(*table(60), preset="fast", experts=["network"], epochs=1).experts_ == ["network"]


def test_a_fast_classifier_and_its_commands_never_import_torch(tmp_path):
    rows = clinic(tmp_path, 80).assign(day=pd.date_range("2024-01-01", periods=80).astype(str))
    rows.to_csv(tmp_path / "rows.csv", index=False)
    code = """
import pandas as pd
from gauge import GaugeClassifier
from gauge.cli.main import app

rows = pd.read_csv("rows.csv")
GaugeClassifier(preset="fast", image_folder=".", random_state=0).fit(rows, "diagnosis").save("model")
model = GaugeClassifier.load("model", image_folder=".")
model.predict_set(rows), model.advise(rows[:3]), model.audit(rows), model.drift(rows), model.importance(rows[:20])
for command in (
    "fit rows.csv --target diagnosis --preset fast --out other",
    "predict model rows.csv --out predictions.csv",
    "evaluate model rows.csv --protocol gamma=0.2 --out page.html",
    "explain model rows.csv --exact --out page.html",
):
    app(command.split(), standalone_mode=False)
"""
    code = BLOCK_TORCH.replace('"safetensors", ', "") + code
    python("-c", code, cwd=tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "quick"}, "there is no preset 'quick'"),
        ({"preset": "fast", "epochs": 3}, "preset='fast' fits no network, so epochs=3 has no effect; leave one of"),
        ({"preset": "fast", "size": "large"}, "preset='fast' fits no network, so size='large' has no effect"),
    ],
)
def test_a_preset_that_contradicts_other_parameters_is_refused(options, message):
    with unchecked(), pytest.raises(ValueError, match=message):
        GaugeClassifier(**options).fit(*table(60))


def test_a_time_limit_is_kept_and_what_was_left_out_is_said_and_saved(monkeypatch, tmp_path):
    monkeypatch.setattr(time, "monotonic", time.process_time)  # other processes take no time from this one
    started = time.process_time()
    fit(*table(), epochs=10_000, time_limit=3.0)
    assert time.process_time() - started < 3.3
    model = fit(*table(), time_limit=0.01)
    assert "expert 'network'" in model.left_out_
    model.save(tmp_path)
    again = GaugeClassifier.load(tmp_path)
    assert again.left_out_ == model.left_out_
    assert "expert 'network'" in again.fitted_.facts()["Left out for the time limit"]
