"""Laws of methods that answer together: validation data decide who answers, and by how much."""

import logging

import pytest
import torch
import torch.nn.functional as F
from helpers import CLASSES, dataset

from gauge import Dataset, Prediction
from gauge.methods._answers import validation_rows
from gauge.methods._stacking import Stacking
from gauge.model.combination import Combination
from gauge.types import Method


class Shift(Method):
    """Answers by the signal, or by what belongs to another sample; it never sees the table."""

    def __init__(self, *, knows: bool) -> None:
        super().__init__()
        self.knows = knows

    def predict(self, batch):
        signal = batch.blanked().inputs["signal"].mean(1)
        signal = signal if self.knows else signal.roll(1)
        return Prediction(-(signal[:, None] - torch.arange(CLASSES) + 1).square())


@pytest.fixture(scope="module")
def val() -> Dataset:
    return dataset("val", 120, seed=5)


def test_a_member_that_knows_nothing_is_left_out_and_named(val, caplog):
    stack = Stacking({"wrong": Shift(knows=False), "right": Shift(knows=True)}, 3, CLASSES)
    with caplog.at_level(logging.INFO):
        stack.prepare(dataset("train", 120), val)
    assert stack.used.tolist() == [False, True]
    assert "answers: right (validation loss" in caplog.text
    assert "not used: wrong" in caplog.text


def test_together_they_are_no_worse_on_validation_data_than_the_best_alone(val):
    members = {"one": Shift(knows=True), "other": Shift(knows=False)}
    stack = Stacking(members, 3, CLASSES)
    stack.prepare(dataset("train", 120), val)
    batch = val.batch(torch.arange(120))
    losses = [float(F.cross_entropy(each.predict(batch).logits, batch.labels)) for each in (stack, members["one"])]
    assert losses[0] <= losses[1] + 0.05


def test_members_stay_as_they_are_and_the_choice_is_saved(val):
    stack = Stacking({"wrong": Shift(knows=False), "right": Shift(knows=True)}, 3, CLASSES)
    stack.prepare(dataset("train", 120), val)
    assert not stack.is_trainable
    copy = Stacking({"wrong": Shift(knows=False), "right": Shift(knows=True)}, 3, CLASSES)
    copy.load_state_dict(stack.state_dict())
    batch = val.batch(torch.arange(20))
    assert torch.equal(copy.predict(batch).logits, stack.predict(batch).logits)


def test_validation_rows_are_drawn_from_all_and_no_more_than_there_are_labels(val):
    train = dataset("train", 60).without_labels(torch.arange(60) >= 20)
    rows = validation_rows(train, val)
    assert len(rows) == len(rows.unique()) == 20
    assert int(rows.max()) >= 60, "the first rows may all be of one class"


def test_class_shares_that_differ_in_validation_data_are_learned():
    labels = (torch.arange(400) % 10 == 0).long()
    signal = torch.randn(400, generator=torch.Generator().manual_seed(0)) + 2 * labels
    logits = torch.stack([-signal, signal - 2], 1)[:, None]  # right if both classes are as frequent
    flags = torch.ones(400, 1, dtype=torch.bool), torch.ones(400, 1)
    losses = []
    for classes in (0, 2):
        combination = Combination(1, 1, classes)
        combination.learn(logits, *flags, labels, rows=400)
        losses.append(float(F.cross_entropy(combination(logits, *flags), labels)))
    assert losses[1] < losses[0] - 0.02
    assert combination.shift is not None
    assert float(combination.shift[1] - combination.shift[0]) < -1
