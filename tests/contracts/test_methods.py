"""Every method and variant, however it is registered, keeps the contract that training and evaluation rely on."""

from dataclasses import replace

import pytest
import torch
from helpers import rows_of

from gauge import registry
from gauge.data import Dataset
from gauge.experiments.benchmarks.polymnist5k import BENCHMARK, VIEWS
from gauge.masks import AnySubset
from gauge.randomness import sample_keys, seeded
from gauge.training.loop import fit
from gauge.training.settings import TrainSettings

ROWS = [
    (method, variant) for method in registry.names("methods") for variant in registry.module("methods", method).VARIANTS
]
SMALL = replace(BENCHMARK, dim=16, imputer_options={"latent": 4, "channels": (2, 4, 4), "hidden": 8})


@pytest.fixture(scope="module")
def train() -> Dataset:
    draw = torch.Generator().manual_seed(0)
    views = {name: torch.randint(256, (24, 3, 28, 28), dtype=torch.uint8, generator=draw) for name in VIEWS}
    return Dataset("train", views, torch.arange(24) % 10)


def build(stage, train):
    with seeded(3, stage.name):
        module = stage.build(train, *[build(need, train) for need in stage.needs])
    if hasattr(module, "prepare"):
        module.prepare(train)
    return module


@pytest.fixture(params=ROWS, ids=":".join)
def method(request, train):
    name, variant = request.param
    stage = registry.module("methods", name).plan(SMALL, variant=variant, seed=0)
    return build(stage, train).eval()


@pytest.fixture
def batch(train):
    index = torch.arange(8)
    key = sample_keys(index, 0)
    return train.batch(index, keep=AnySubset().keep(train.layout, key), key=key)


def test_loss_is_finite_and_trains_what_is_not_frozen(method, batch):
    if not hasattr(method, "loss"):
        assert not any(parameter.requires_grad for parameter in method.parameters())
        return
    loss = sum(method.train().loss(batch).values())
    loss.backward()
    assert torch.isfinite(loss)
    gradients = [parameter.grad for parameter in method.parameters() if parameter.grad is not None]
    assert any(bool((gradient != 0).any()) for gradient in gradients)
    assert all(bool(torch.isfinite(gradient).all()) for gradient in gradients)


def test_predict_is_the_same_in_every_mode_and_leaves_no_graph(method, batch):
    plain = method.predict(batch).logits
    assert plain.shape == (len(batch), SMALL.num_classes)
    assert not plain.requires_grad
    with torch.no_grad():
        torch.testing.assert_close(method.predict(batch).logits, plain)
    with torch.inference_mode():
        torch.testing.assert_close(method.predict(batch).logits, plain)


def test_unobserved_values_never_change_the_logits(method, batch):
    noise = {name: torch.full_like(values, torch.nan) for name, values in batch.inputs.items()}
    torch.testing.assert_close(method.predict(batch.filled(noise)).logits, method.predict(batch).logits)


def test_order_of_the_batch_does_not_matter(method, batch):
    order = torch.tensor([3, 1, 7, 0, 2, 6, 5, 4])
    torch.testing.assert_close(
        method.predict(rows_of(batch, order)).logits, method.predict(batch).logits[order], atol=1e-5, rtol=1e-4
    )


def test_a_sample_does_not_depend_on_the_others_unless_the_method_says_so(method, batch):
    if getattr(method, "looks_across_batch", False):
        return
    alone = torch.cat([method.predict(rows_of(batch, torch.tensor([row]))).logits for row in range(3)])
    torch.testing.assert_close(alone, method.predict(batch).logits[:3], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["m3care", "muse"])
@pytest.mark.parametrize("size", [1, 23], ids=["batches of one", "one left over"])
def test_methods_that_look_across_the_batch_refuse_a_lone_sample_before_training(name, size, train):
    method = build(registry.module("methods", name).plan(SMALL, variant=name, seed=0), train)
    before = {key: tensor.clone() for key, tensor in method.state_dict().items()}
    with pytest.raises(ValueError, match=f"24 samples in batches of {size} leave one alone; set another batch_size"):
        fit(method, train, settings=TrainSettings(epochs=1, batch_size=size))
    assert all(torch.equal(tensor, before[key]) for key, tensor in method.state_dict().items())


def test_saved_state_brings_the_same_predictions_back(request, method, batch, train):
    name, variant = request.node.callspec.params["method"]
    stage = registry.module("methods", name).plan(SMALL, variant=variant, seed=0)
    before = method.predict(batch).logits
    state = {
        key: tensor + 0.01 if tensor.is_floating_point() else tensor for key, tensor in method.state_dict().items()
    }
    method.load_state_dict(state)
    assert not torch.equal(method.predict(batch).logits, before)
    other = build(stage, train).eval()
    other.load_state_dict(state)
    assert torch.equal(other.predict(batch).logits, method.predict(batch).logits)


def test_a_method_has_a_variant_of_its_own_name_and_every_variant_a_note():
    for name in registry.names("methods"):
        variants = registry.module("methods", name).VARIANTS
        assert name in variants
        assert all(variant.note for variant in variants.values())


def test_all_variants_of_a_seed_stand_on_the_same_backbone_and_imputer(train):
    stages = [registry.module("methods", "gauge").plan(SMALL, variant=name) for name in ("v1", "v2", "gauge")]
    keys = [[need.key(train.fingerprint) for need in stage.needs] for stage in stages]
    assert keys[0] == keys[1] == keys[2]
    assert len({stage.key(train.fingerprint) for stage in stages}) == 3
