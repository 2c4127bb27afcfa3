"""What training reports: progress without a terminal, TensorBoard, stages that end early or at chance level."""

import logging
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import SETTINGS, Wobbly, dataset

from gauge.training.loop import Epoch
from gauge.training.metrics import ACCURACY, AUC
from gauge.training.progress import lines, stage_progress
from gauge.training.stages import Stage, StageStore
from gauge.training.tensorboard import tensorboard_log

EPOCHS = [Epoch(number, 5, {"task": 1 / number}, 0.5 + number / 10, 0.1) for number in range(1, 6)]


def epoch(number, score=None):
    return Epoch(number, 100, {"task": 0.5}, score, seconds=1.0)


def test_a_line_after_the_first_and_last_epoch_and_every_30_seconds():
    shown, now = [], [0.0]
    on_epoch = lines(shown.append, clock=lambda: now[0])
    for number in range(1, 101):  # an epoch every second
        now[0] += 1
        on_epoch("backbone", epoch(number))
    assert [line.split(",")[0] for line in shown] == [
        f"backbone: epoch {number} of 100" for number in (1, 31, 61, 91, 100)
    ]
    on_epoch("mask", epoch(1, score=0.875))
    assert shown[-1] == "mask: epoch 1 of 100, validation 87.5 %"


def test_a_pipe_gets_lines(capsys):
    with stage_progress() as on_epoch:
        on_epoch("backbone", epoch(1))
    assert capsys.readouterr().err == "backbone: epoch 1 of 100, task 0.5\n"


class Writer:
    written: list = []  # noqa: RUF012

    def __init__(self, folder):
        self.folder = folder

    def add_scalar(self, name, value, step):
        self.written.append((self.folder, name, value, step))

    def close(self):
        self.written.append((self.folder, "closed"))


def test_tensorboard_gets_losses_and_scores_of_every_stage(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=Writer))
    monkeypatch.setattr(Writer, "written", [])
    with tensorboard_log(tmp_path) as on_epoch:
        on_epoch("v2", EPOCHS[1])
    run = str(tmp_path / "v2")
    expected = [(run, "loss/task", 0.5, 2), (run, "seconds", 0.1, 2), (run, "validation", 0.7, 2), (run, "closed")]
    assert Writer.written == expected


def test_without_tensorboard_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ValueError, match=r"not installed; install it with: pip install 'gauge-ml\[tensorboard\]'"):
        tensorboard_log(tmp_path).__enter__()


def make(train) -> Wobbly:
    return Wobbly(4)


def trained(**settings):
    stage = Stage("wobbly", make, {}, SETTINGS.model_copy(update=settings))
    return StageStore(dataset("train", 40), dataset("val", 300, seed=50), None).trained(stage)


def test_a_stage_that_ends_at_chance_level_is_reported(caplog):
    trained(epochs=1, learning_rate=1e-9)
    assert "wobbly ended at chance level: validation accuracy" in caplog.text
    assert "the class frequencies alone give 33.3 %; train for more epochs" in caplog.text


def test_a_stage_that_learns_is_not(caplog):
    trained(epochs=10, learning_rate=0.05)
    assert "chance level" not in caplog.text


def test_a_stage_that_ends_before_its_last_epoch_is_reported(caplog):
    with caplog.at_level(logging.INFO, "gauge"):
        trained(epochs=50, learning_rate=1e-9, patience=2)
    assert re.search(r"wobbly ended after \d of 50 epochs; epoch \d was the best", caplog.text)


def test_chance_is_the_score_of_the_class_frequencies():
    labels = np.array([0, 0, 0, 1])
    assert ACCURACY.chance(labels) == 0.75
    assert AUC.chance(labels) == 0.5
