"""Every registered encoder, scorer, kind of column and benchmark keeps its contract; a new file is found by being there."""

import inspect
from dataclasses import is_dataclass, replace

import pytest
import torch
from helpers import DIM, incomplete_batch, network, unit_encoder, with_hidden

from gauge.masks import parse_protocols
from gauge.registry import COLUMNS, ENCODERS, IMPUTERS, KINDS, PRETRAINERS, SCORERS
from gauge.tabular.table.columns import Cell, Content
from gauge.training.metrics import METRICS
from gauge.types import Encoder, Imputer, Method, Pretrainer, Scorer
from gauge_lab.benchmarks import BENCHMARKS, StageSettings
from gauge_lab.registry import METHODS


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_component_is_described_in_one_line_that_fits_a_terminal(kind):
    for name in kind.names():
        assert 10 < len(kind.describe(name)) <= 130, name
        assert kind.get(name) is not None


def test_every_method_and_every_imputer_has_its_base_class():
    assert all(issubclass(METHODS.get(name), Method) for name in METHODS.names())
    assert all(issubclass(IMPUTERS.get(name), Imputer) for name in IMPUTERS.names())


@pytest.mark.parametrize(
    ("kind", "verb", "given"),
    [(Method, "predict", ["batch"]), (Imputer, "complete", ["batch"]), (Pretrainer, "release", [])],
)
def test_a_component_that_lacks_what_its_contract_asks_for_is_named(kind, verb, given):
    own = type("Mine", (kind,), {})()
    with pytest.raises(NotImplementedError, match=rf"Mine has no {verb}\({', '.join(given)}\)"):
        getattr(own, verb)(*[incomplete_batch() for _ in given])
    with pytest.raises(NotImplementedError, match=r"Mine has parameters to train but no loss\(batch\)"):
        own.loss(incomplete_batch())


@pytest.mark.parametrize("name", PRETRAINERS.names())
def test_a_pre_trainer_reads_neither_labels_nor_missing_values_and_releases_all_weights(name):
    kind = PRETRAINERS.get(name)
    pretrainer = kind(unit_encoder(), network(), tables={}).eval()
    assert isinstance(pretrainer, Pretrainer)
    batch = incomplete_batch()
    terms = pretrainer.loss(batch)
    other = pretrainer.loss(replace(with_hidden(batch, "nan"), labels=None))
    torch.testing.assert_close(other, terms)
    assert all(p.requires_grad for part in pretrainer.release() for p in part.parameters())


@pytest.mark.parametrize("name", ENCODERS.names())
def test_an_encoder_emits_the_units_it_says(name):
    kind = ENCODERS.get(name)
    encoder = kind(kind.example_shape, 16)
    assert isinstance(encoder, Encoder)
    x, observed = torch.rand(3, *kind.example_shape), torch.ones(3, dtype=torch.bool)
    units = encoder(x, observed)
    assert units.shape == (3, encoder.units, encoder.width)
    torch.testing.assert_close(encoder.eval()(x[:1], observed[:1]), encoder(x, observed)[:1])


@pytest.mark.parametrize("name", SCORERS.names())
def test_a_scorer_takes_every_option_and_leaves_no_graph(name):
    score = SCORERS.get(name)
    assert isinstance(score, Scorer)
    assert list(inspect.signature(score).parameters) == ["classifier", "tokens", "options"]
    tokens = torch.randn(4, 7, DIM, requires_grad=True)
    options = {"reference": torch.ones(7, DIM), "objective": "nll", "key": torch.arange(4)}
    for given in (options, {}):
        evidence = score(network(), tokens, **given)
        assert evidence.scores.shape == (4, 7)
        assert not evidence.scores.requires_grad
        assert not evidence.logits.requires_grad


@pytest.mark.parametrize("name", COLUMNS.names())
def test_a_kind_of_column_has_its_name_and_is_a_cell_or_a_content_that_json_can_hold(name):
    kind = COLUMNS.get(name)
    assert kind.kind == name
    assert issubclass(kind, Cell) != issubclass(kind, Content)
    assert is_dataclass(kind)
    assert 10 < len(COLUMNS.describe(name)) <= 130


@pytest.mark.parametrize("name", BENCHMARKS.names())
def test_a_benchmark_names_components_that_exist_and_protocols_that_parse(name):
    benchmark = BENCHMARKS.get(name)
    assert benchmark.name == name
    assert benchmark.imputer in IMPUTERS.names()
    assert {modality.encoder for modality in benchmark.modalities.values()} <= set(ENCODERS.names())
    assert isinstance(benchmark.settings, StageSettings)
    assert parse_protocols(*map(str, benchmark.protocols)) == benchmark.protocols
    assert METRICS[str(benchmark.metric)] == benchmark.metric == benchmark.settings.finetune.metric
    with pytest.raises(ValueError, match="has no split 'all'; use train, val, test or imputer"):
        benchmark.load("all")
