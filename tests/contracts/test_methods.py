"""Every method and variant, however it is registered, keeps the contract that training and evaluation rely on."""

from copy import deepcopy
from dataclasses import replace
from functools import cache

import pytest
import torch
from helpers import count_calls, gradients, rows_of, untrained
from small_benchmarks import OTHERS, SMALL, samples

from gauge.data import Dataset
from gauge.masks import AnyModalities, UpTo
from gauge.randomness import sample_keys, seeded
from gauge.training.loop import fit
from gauge.training.settings import TrainSettings
from gauge.training.source import plain
from gauge.training.stages import Stage, StageStore
from gauge.types import Method
from gauge.values import Batch
from gauge_lab.benchmarks import Benchmark
from gauge_lab.plans import last_stage, plan_of
from gauge_lab.plans.gauge import VARIANTS
from gauge_lab.registry import METHODS


def distinct(benchmark: Benchmark, *, gatings: bool = True) -> list[tuple[str, str]]:
    """One row of each distinct class (the function that makes it, on as many trained parts) and gating."""
    found: dict[tuple[str, ...], tuple[str, str]] = {}
    for method in METHODS.names():
        if plan_of(method).unsupported(benchmark) is None:
            for variant in plan_of(method).variants:
                stage = last_stage(benchmark, method, variant, 0)
                gating = str(plain(stage.arguments.get("gating"))) if gatings else ""
                found.setdefault((method, str(stage.make), str(len(stage.needs)), gating), (method, variant))
    return list(found.values())


ROWS = distinct(SMALL)
OTHER_ROWS = [(data, *row) for data, benchmark in OTHERS.items() for row in distinct(benchmark, gatings=False)]
TABLE_ROWS = [(OTHERS["one-table"], *row) for data, *row in OTHER_ROWS if data == "one-table"]
GRIDLESS = ("images-and-text", "one-table")
GRIDS = [variant for variant, chosen in VARIANTS.items() if chosen.grid]


@pytest.fixture(scope="module")
def train() -> Dataset:
    return samples(SMALL)


def build(stage: Stage, train: Dataset) -> Method:
    module = untrained(stage, train)
    module.prepare(train)
    return module


@pytest.fixture(scope="module", params=ROWS, ids=":".join)
def row(request, train):
    """A stage and its method, built once for all tests of the row."""
    stage = last_stage(SMALL, *request.param, 0)
    return stage, build(stage, train).eval()


@pytest.fixture
def method(row):
    return deepcopy(row[1])


@pytest.fixture
def batch(train):
    index = torch.arange(8)
    key = sample_keys(index, 0)
    return train.batch(index, keep=AnyModalities().keep(train.feature_counts, key), key=key)


def test_the_loss_is_finite_trains_what_is_not_frozen_and_runs_every_encoder_at_most_once(method, batch):
    if type(method).loss is Method.loss:
        assert not method.is_trainable
        pytest.skip("the method has nothing to train")
    names = [name for name, module in method.named_modules() if name.split(".")[-1:] == ["encoders"]]
    calls = [count_calls(encoder) for name in names for encoder in method.get_submodule(name).children()]
    loss = sum(method.train().loss(batch).values())
    assert all(len(rows) <= 1 for rows in calls)
    assert torch.isfinite(loss)
    found = gradients(method, loss)
    assert any(bool((gradient != 0).any()) for gradient in found.values())
    assert all(bool(torch.isfinite(gradient).all()) for gradient in found.values())


def test_predict_is_the_same_in_every_mode_and_leaves_no_graph(method, batch):
    plain = method.predict(batch).logits
    assert plain.shape == (len(batch), SMALL.num_classes)
    assert not plain.requires_grad
    with torch.no_grad():
        torch.testing.assert_close(method.predict(batch).logits, plain)
    with torch.inference_mode():
        torch.testing.assert_close(method.predict(batch).logits, plain)


def test_unobserved_values_and_labels_change_no_logits_and_unobserved_values_no_gradient(method, batch):
    hidden = batch.filled({name: torch.full_like(values, torch.nan) for name, values in batch.inputs.items()})
    expected = method.predict(batch).logits
    torch.testing.assert_close(method.predict(replace(hidden, labels=None)).logits, expected)
    if method.is_trainable:
        other = deepcopy(method)  # what a loss counts is counted twice
        first, second = (_gradients(each, given) for each, given in ((method, batch), (other, hidden)))
        torch.testing.assert_close(second, first)


def _gradients(method: Method, batch: Batch) -> dict[str, torch.Tensor]:
    with seeded(0, "dropout"):
        return gradients(method, sum(method.train().loss(batch).values()))


def test_order_of_the_batch_does_not_matter(method, batch):
    order = torch.tensor([3, 1, 7, 0, 2, 6, 5, 4])
    torch.testing.assert_close(
        method.predict(rows_of(batch, order)).logits, method.predict(batch).logits[order], atol=1e-5, rtol=1e-4
    )


def test_a_sample_does_not_depend_on_the_others_unless_the_method_says_so(method, batch):
    if method.looks_across_batch:
        pytest.skip("the method looks across the batch, and says so")
    alone = torch.cat([method.predict(rows_of(batch, torch.tensor([row]))).logits for row in range(3)])
    torch.testing.assert_close(alone, method.predict(batch).logits[:3], atol=1e-5, rtol=1e-4)


def short(stage: Stage) -> Stage:
    settings = stage.settings.model_copy(update={"epochs": 1, "selection": stage.settings.selection[:1]})
    return replace(stage, settings=settings, needs=tuple(map(short, stage.needs)))


@pytest.mark.parametrize("row", [*((SMALL, *row) for row in ROWS), *TABLE_ROWS], ids=lambda row: ":".join(row[1:]))
def test_fit_finishes_a_method_as_the_runner_does_and_an_unfinished_one_refuses_to_predict(row):
    """Also when its weights are loaded: those of a finished method finish another."""
    stage, (train, val) = short(last_stage(*row, 0)), (samples(row[0], rows) for rows in (24, 25))
    if type(stage.untrained(train)).prepare is Method.prepare:
        return
    store, batch = StageStore(train, val, None), val.batch(torch.arange(25))
    needs = [store.trained(need).module for need in stage.needs]
    method, other = (stage.build(train, deepcopy(needs)).eval() for _ in range(2))
    other.load_state_dict(method.state_dict())
    with pytest.raises(ValueError, match="is not finished, .* train it with gauge.fit, or call prepare"):
        other.predict(batch)
    fit(method, train, val, settings=stage.settings)
    other.load_state_dict(method.state_dict())
    expected = store.trained(stage).module.predict(batch).logits
    assert torch.equal(method.predict(batch).logits, expected)
    assert torch.equal(other.predict(batch).logits, expected)


@pytest.mark.parametrize("name", ["m3care", "muse"])
@pytest.mark.parametrize("size", [1, 23], ids=["batches of one", "one left over"])
def test_methods_that_look_across_the_batch_refuse_a_lone_sample_before_training(name, size, train):
    method = build(last_stage(SMALL, name, name, 0), train)
    before = {key: tensor.clone() for key, tensor in method.state_dict().items()}
    with pytest.raises(ValueError, match=f"24 samples in batches of {size} leave one alone; set another batch_size"):
        fit(method, train, settings=TrainSettings(epochs=1, batch_size=size))
    assert all(torch.equal(tensor, before[key]) for key, tensor in method.state_dict().items())


def test_saved_state_brings_the_same_predictions_back(row, method, batch, train):
    before = method.predict(batch).logits
    state = {key: x + 0.01 if x.is_floating_point() else x for key, x in method.state_dict().items()}
    method.load_state_dict(state)
    assert not torch.equal(method.predict(batch).logits, before)
    other = build(row[0], train).eval()
    other.load_state_dict(state)
    assert torch.equal(other.predict(batch).logits, method.predict(batch).logits)


@pytest.mark.parametrize(("data", "name", "variant"), OTHER_ROWS, ids=map(":".join, OTHER_ROWS))
def test_the_contract_holds_for_tables_text_many_views_and_single_modalities(data, name, variant):
    """Loss and logits are finite whatever is missing, cells or whole modalities, and missing values are never read."""
    train, batch = other_data(data)
    method = build(last_stage(OTHERS[data], name, variant, 0), train)
    if method.is_trainable:
        assert torch.isfinite(sum(method.train().loss(batch).values()))
    logits = method.eval().predict(batch).logits
    assert logits.shape == (len(batch), OTHERS[data].num_classes)
    assert torch.isfinite(logits).all()
    noise = {name: torch.full_like(values, torch.nan) for name, values in batch.inputs.items()}
    torch.testing.assert_close(method.predict(batch.filled(noise)).logits, logits)


@cache
def other_data(data: str) -> tuple[Dataset, Batch]:
    train, index = samples(OTHERS[data]), torch.arange(8)
    key = sample_keys(index, 0)
    return train, train.batch(index, keep=UpTo(1.0).keep(train.feature_counts, key), key=key)


@pytest.mark.parametrize("data", GRIDLESS)
def test_another_grid_is_refused_where_no_encoder_makes_one(data):
    for variant in GRIDS:
        stage = last_stage(OTHERS[data], "gauge", variant, 0)
        with pytest.raises(ValueError, match="none of the encoders of .* makes a grid of its images; use a grid enc"):
            untrained(stage, other_data(data)[0])


@pytest.mark.parametrize("data", OTHERS)
def test_other_data_misses_something_of_every_modality_unless_it_is_the_only_one(data):
    _, batch = other_data(data)
    missing = {name for name, flags in batch.observed.items() if not flags.all()}
    assert missing == (set() if data == "one-image" else set(batch.modalities))


def test_a_method_has_a_variant_of_its_own_name_and_every_variant_a_note():
    for name in METHODS.names():
        variants = plan_of(name).variants
        assert name in variants
        assert all(variant.note for variant in variants.values())


def test_all_variants_of_a_seed_stand_on_the_same_backbone_and_imputer(train):
    stages = [last_stage(SMALL, "gauge", name, 0) for name in ("v1", "v2", "gauge")]
    keys = [[need.key(train.fingerprint) for need in stage.needs] for stage in stages]
    assert keys[0] == keys[1] == keys[2]
    assert len({stage.key(train.fingerprint) for stage in stages}) == 3
