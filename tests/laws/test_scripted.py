"""A traced network answers as the network does, for any number of samples; one that cannot be traced answers itself."""

import pytest
import torch
from helpers import dataset, plus, unchecked

from gauge import Gating
from gauge.imputers.mean import Mean
from gauge.training.scripted import MAX_SAMPLES, Scripted


def assert_answers(fast, count, seed=0):
    """The answers to samples with missing values are those of the network."""
    batch = dataset("train", count, seed).batch(torch.arange(count))
    with unchecked(), torch.inference_mode():
        own = fast.network.decide(fast.network.read(batch)).logits
        torch.testing.assert_close(fast.logits(batch), own, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("gating", [Gating(granularity="none"), Gating()], ids=["ungated", "gated"])
def test_a_traced_network_answers_as_the_network_for_any_number_of_samples(gating):
    fast = Scripted.of(plus(gating=gating))
    for seed, count in enumerate((3, 1, 8, 9, MAX_SAMPLES, MAX_SAMPLES + 1)):
        assert_answers(fast, count, seed)
    (traced,) = fast.traces.values()
    assert traced is not None


def test_a_network_that_looks_at_values_before_it_computes_is_not_traced(monkeypatch):
    head = (model := plus()).gauge.classifier.head
    linear = head.forward
    monkeypatch.setattr(
        head, "forward", lambda features: linear(features) * float(features[0, 0])
    )  # a constant in a trace
    fast = Scripted.of(model)
    for seed in range(2):
        assert_answers(fast, 1, seed)
    assert list(fast.traces.values()) == [None]


def test_a_network_that_computes_for_a_number_of_samples_alone_is_not_traced(monkeypatch):
    head = (model := plus()).gauge.classifier.head
    linear = head.forward
    monkeypatch.setattr(head, "forward", lambda features: linear(features) / len(features))  # a constant in a trace
    fast = Scripted.of(model)
    for seed, count in enumerate((8, 5)):
        assert_answers(fast, count, seed)
    assert list(fast.traces.values()) == [None]


def test_a_network_with_an_imputer_is_not_traced(train):
    assert Scripted.of(plus(Mean.from_dataset(train))) is None
