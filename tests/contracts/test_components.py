"""Every registered encoder, scorer and benchmark keeps its contract; a new file is picked up by being there."""

import inspect

import pytest
import torch
from helpers import DIM, network

from gauge import registry
from gauge.masks import parse_protocol
from gauge.types import Encoder, Scorer


@pytest.mark.parametrize("kind", registry.KINDS)
def test_every_component_is_described_in_one_line_that_fits_a_terminal(kind):
    for name in registry.names(kind):
        assert 10 < len(registry.describe(kind, name)) <= 130, name
        assert registry.get(kind, name) is not None


@pytest.mark.parametrize("name", registry.names("encoders"))
def test_an_encoder_emits_the_units_it_says(name):
    kind = registry.get("encoders", name)
    encoder = kind(kind.example_shape, 16)
    assert isinstance(encoder, Encoder)
    x, observed = torch.rand(3, *kind.example_shape), torch.ones(3, dtype=torch.bool)
    units = encoder(x, observed)
    assert units.shape == (3, encoder.units, encoder.width)
    torch.testing.assert_close(encoder.eval()(x[:1], observed[:1]), encoder(x, observed)[:1])


@pytest.mark.parametrize("name", registry.names("scoring"))
def test_a_scorer_takes_every_option_and_leaves_no_graph(name):
    score = registry.get("scoring", name)
    assert isinstance(score, Scorer)
    assert list(inspect.signature(score).parameters) == ["classifier", "tokens", "reference", "objective", "key"]
    tokens = torch.randn(4, 7, DIM, requires_grad=True)
    evidence = score(network(), tokens, reference=torch.ones(7, DIM), objective="nll", key=torch.arange(4))
    assert evidence.scores.shape == (4, 7)
    assert not evidence.scores.requires_grad
    assert not evidence.logits.requires_grad


@pytest.mark.parametrize("name", registry.names("benchmarks"))
def test_a_benchmark_names_components_that_exist_and_protocols_that_parse(name):
    benchmark = registry.get("benchmarks", name)
    assert benchmark.name == name
    assert benchmark.imputer in registry.names("imputers")
    assert {modality.encoder for modality in benchmark.modalities.values()} <= set(registry.names("encoders"))
    assert {"imputer", "backbone", "finetune"} <= set(benchmark.settings)
    assert [str(parse_protocol(text)) for text in benchmark.protocols] == list(benchmark.protocols)
    with pytest.raises(ValueError, match="has no split 'all'; use train, val or test"):
        benchmark.load("all")
