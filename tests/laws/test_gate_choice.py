"""Gates change the answer of a table's network where that pays on rows held out; otherwise they are evidence alone."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from helpers import dataset, enlarged, plus, unchecked

from gauge import Gating, GaugeClassifier
from gauge.masks import Complete, UpTo
from gauge.paper.explain import explain
from gauge.tabular.experts._gate_choice import choose_gates
from gauge.training.inference import predict_split


def gated(**options):
    """A network whose gates, nearly closed, change many answers."""
    model = enlarged(plus(gating=Gating(), **options)).eval()
    with torch.no_grad():
        model.gauge.gate.threshold.fill_(3.0)
        model.gauge.classifier.head.weight.mul_(5)
    return model


def ungated(model):
    model.applies_gates = False
    return model


def test_gates_that_are_evidence_alone_leave_the_ungated_answer_and_are_explained(batch):
    model, other = gated(heads="none"), ungated(gated(heads="none"))
    with_gates, without = model.predict(batch), other.predict(batch)
    assert without.gates is None
    assert without.evidence is None
    torch.testing.assert_close(without.logits, with_gates.evidence.logits)
    assert not torch.allclose(without.logits, with_gates.logits)
    explained = explain(other, batch)
    torch.testing.assert_close(explained.gates, with_gates.gates)
    torch.testing.assert_close(explained.logits, without.logits)


@pytest.mark.parametrize("answers", [True, False])
def test_the_pass_that_is_better_on_rows_held_out_answers(answers):
    model, val = gated(heads="none"), dataset("val", rows=60)
    right = model if answers else ungated(gated(heads="none"))
    labels = predict_split(right, val, Complete()).probabilities.argmax(1)
    losses = choose_gates(model, val, replace(val, labels=torch.from_numpy(labels)), UpTo(0.1))
    assert model.applies_gates == answers
    assert (losses["with"] < losses["without"]) == answers


def test_gates_that_are_no_better_are_evidence_and_the_heads_are_weighed_anew():
    model, val = gated(), dataset("val", rows=60)
    model.gauge.gate.requires_grad_(False).threshold.fill_(-100.0)  # all open: both passes are the same
    model.prepare(val, val)
    weights = model.combination.offset.clone()
    losses = choose_gates(model, val, val, UpTo(0.5))
    assert not model.applies_gates
    assert losses["with"] == pytest.approx(losses["without"], abs=1e-5)
    torch.testing.assert_close(model.combination.offset, weights, atol=1e-3, rtol=0)
    assert choose_gates(gated(), val, None, UpTo(0.5)) == {}


@pytest.fixture(scope="module")
def rows():
    draw = np.random.default_rng(0)
    table = pd.DataFrame(draw.normal(size=(120, 3)), columns=["age", "dose", "weight"])
    table["label"] = np.where(table["age"] + table["dose"] > 0, "ill", "well")
    return table.mask(draw.random(table.shape) < [0.2, 0.2, 0.2, 0])


@pytest.fixture(scope="module", params=["auto", True])
def model(rows, request):
    options = {"experts": ["network", "linear"], "epochs": 2, "trust": False, "random_state": 0, "verbose": False}
    with unchecked():
        return GaugeClassifier(gates=request.param, **options).fit(rows, "label")


def test_gates_that_were_asked_for_answer_and_others_say_what_they_brought(model):
    if model.gates is True:
        assert model.gates_answer_
        assert "gates" not in model.verdict_
    else:
        losses = model.fitted_.training.gate_losses
        assert ("gates change the answer" in model.verdict_) == model.gates_answer_
        assert ("gates are shown as evidence and do not change" in model.verdict_) != model.gates_answer_
        assert f"held out {losses['with']:.3f} with and {losses['without']:.3f} without them)" in model.verdict_


def test_what_explains_a_row_has_gates_and_the_probability_of_the_answer(model, rows):
    with unchecked():
        explained, probabilities = model.explain(rows[:20]), model.predict_proba(rows[:20])
    answers = [row.after[1] for row in explained.rows]
    np.testing.assert_allclose(answers, probabilities.max(1), atol=1e-12)
    units = [unit for row in explained.rows for unit in row.units if unit.state == "observed"]
    assert all(0 < unit.gate < 1 for unit in units)
    if not model.gates_answer_:
        assert [row.before for row in explained.rows] == [row.after for row in explained.rows]


def test_a_saved_classifier_answers_with_or_without_gates_as_before(model, rows, tmp_path):
    with unchecked():
        model.save(tmp_path / "model")
        loaded = GaugeClassifier.load(tmp_path / "model")
        np.testing.assert_array_equal(loaded.predict_proba(rows), model.predict_proba(rows))
    assert loaded.gates_answer_ == model.gates_answer_
    assert loaded.verdict_ == model.verdict_
