"""Recorded predictions are those of the model, however a batch is cut into parts. CUDA graphs are in tests/gpu."""

from dataclasses import replace

import pytest
import torch
from helpers import gauge, plus, unchecked, with_hidden
from torch.fx.experimental import proxy_tensor

from gauge import Recorded
from gauge.imputers.mean import Mean


@pytest.fixture
def uncompiled(monkeypatch):
    """Everything but tracing and compiling, which take long."""
    monkeypatch.setattr(torch, "compile", lambda graph, **options: graph)
    monkeypatch.setattr(proxy_tensor, "make_fx", lambda call: lambda *tensors: call)


def assert_same(fast, own):
    for name in ("logits", "gates", "trust"):
        torch.testing.assert_close(getattr(fast, name), getattr(own, name))
    assert (fast.evidence is None) == (own.evidence is None)
    if own.evidence is not None:
        torch.testing.assert_close(fast.evidence.scores, own.evidence.scores)
        torch.testing.assert_close(fast.evidence.logits, own.evidence.logits)


@pytest.mark.parametrize(
    "model",
    [
        lambda train: gauge(),
        lambda train: gauge(Mean.from_dataset(train), granularity="modality"),
        lambda train: plus(gating="trust"),
    ],
    ids=["units", "modalities", "trust"],
)
def test_parts_of_every_size_give_the_prediction_of_the_model(model, train, batch, uncompiled):
    model = model(train).eval()
    own = model.predict(batch)
    for sizes in ((4,), (1, 3)):  # six samples: 4 and 2 of 4, or 3 and 3
        assert_same(Recorded(model, compile=True, sizes=sizes).predict(batch), own)


def test_weights_that_change_in_place_are_used(batch, uncompiled):
    model = gauge()
    fast = Recorded(model, compile=True, sizes=(6,))
    before = fast.predict(batch)
    with torch.no_grad():
        model.classifier.head.weight.mul_(2)
    assert not torch.allclose(fast.predict(batch).logits, before.logits)
    assert_same(fast.predict(batch), model.predict(batch))


@pytest.mark.parametrize("compile", [False, True])
def test_a_recorded_model_refuses_what_the_model_refuses(batch, uncompiled, compile):
    fast = Recorded(gauge(), compile=compile, sizes=(4,))
    observed = {name: torch.zeros_like(flags) for name, flags in batch.observed.items()}
    with pytest.raises(ValueError, match="nothing is observed in sample 10 "):
        fast.predict(replace(batch, observed=observed))
    spoiled = {**batch.inputs, "signal": torch.full_like(batch.inputs["signal"], torch.nan)}
    with pytest.raises(ValueError, match=r"inputs\['signal'\] holds 28 NaN or infinite values that are marked"):
        fast.predict(replace(batch, inputs=spoiled))
    assert_same(fast.predict(with_hidden(batch, "nan")), fast.model.predict(batch))


def test_without_a_gpu_a_recorded_model_predicts_as_the_model(batch):
    model = gauge()
    fast = Recorded(model)
    assert torch.equal(fast.predict(batch).logits, model.predict(batch).logits)
    assert not fast.calls
    half = Recorded(model, precision="bf16").predict(batch).logits
    assert 0 < (half.float() - model.predict(batch).logits).abs().max() < 0.1


@pytest.mark.parametrize("half", [False, True])
def test_a_traced_prediction_is_that_of_the_model(batch, monkeypatch, half):
    """The graph holds the scoring pass with its backward pass."""
    monkeypatch.setattr(torch, "compile", lambda graph, **options: graph)
    model = gauge().eval()
    with unchecked():
        other = Recorded(model, compile=True, precision="bf16" if half else "float32", sizes=(4,)).predict(batch)
    torch.testing.assert_close(other.gates, model.predict(batch).gates, atol=0.1 if half else 1e-5, rtol=0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated")  # where torch.compile imports it
def test_a_compiled_prediction_is_that_of_the_model(batch):
    model = gauge().eval()
    with unchecked():
        assert_same(Recorded(model, compile=True, sizes=(4,)).predict(batch), model.predict(batch))
