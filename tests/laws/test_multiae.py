"""MultiAE against its definition, written out for one subset and one sample at a time."""

from dataclasses import replace

import helpers
import pytest
import torch
import torch.nn.functional as F
from helpers import (
    CLASSES,
    DIM,
    SHAPES,
    assert_equal,
    count_calls,
    gradients,
    noise,
    weightless,
    with_hidden,
    zeros,
)
from torch import nn

from gauge import Batch, TrainSettings, fit
from gauge.encoders._vector import Vector
from gauge.masks import visible_under
from gauge.nn.likelihoods import Categorical, Laplace
from gauge.randomness import seeded
from gauge_lab.benchmarks.celeba import BENCHMARK as CELEBA
from gauge_lab.benchmarks.mst import BENCHMARK as MST
from gauge_lab.benchmarks.polymnist import BENCHMARK as POLYMNIST
from gauge_lab.methods.multiae import AutoEncoder, MultiAE
from gauge_lab.plans import last_stage
from gauge_lab.plans.multiae import pretraining
from gauge_lab.vectors import VectorEncoder

SUBSETS = ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2))
SIZES = {name: int(torch.tensor(shape).prod()) for name, shape in SHAPES.items()}


def encoder():
    """With all that must not move once it is frozen: BatchNorm and dropout."""
    with seeded(0, "vectors"):
        layers = {
            name: nn.Sequential(nn.Flatten(), nn.Linear(size, DIM), nn.BatchNorm1d(DIM), nn.Dropout(0.5))
            for name, size in SIZES.items()
        }
        return VectorEncoder({name: Vector(each, DIM) for name, each in layers.items()})


def auto_encoder(subsets_per_step=3):
    with seeded(0, "decoders"):
        decoders = {name: nn.Sequential(nn.Linear(DIM, SIZES[name]), nn.Unflatten(1, SHAPES[name])) for name in SHAPES}
        return AutoEncoder(encoder(), decoders, dict.fromkeys(SHAPES, Laplace()), subsets_per_step=subsets_per_step)


def multiae(subsets_per_step=None):
    start = auto_encoder()
    with seeded(0, "head"):
        return MultiAE(start.encoder, start.fuse, CLASSES, subsets_per_step=subsets_per_step)


def code(method, batch, row, members):
    """z of one sample from the members of a subset that are there, or from all that is there when none is."""
    there = [name for name in SHAPES if bool(batch.observed[name][row].any())]
    seen = [name for place, name in enumerate(SHAPES) if place in members and name in there] or there
    vectors = []
    for name in SHAPES:
        x, flags = batch.inputs[name][row], batch.observed[name][row]
        x = torch.where(flags.reshape(flags.shape + (1,) * (x.ndim - flags.ndim)), x, torch.zeros(()))
        vectors.append(method.encoder.encoders[name].layers(x[None])[0] if name in seen else torch.zeros(DIM))
    _, first, _, second = method.fuse
    return second(torch.relu(first(torch.cat(vectors))))


def test_pretraining_decodes_every_observed_value_from_every_subset(batch):
    method = auto_encoder(len(SUBSETS)).eval()
    expected = 0.0
    for members in SUBSETS:
        for name, flags in batch.observed.items():
            errors = []
            for row in range(len(batch)):
                difference = method.decoders[name](code(method, batch, row, members)[None])[0] - batch.inputs[name][row]
                errors += difference[flags[row].expand(SHAPES[name])].square().tolist()
            expected += sum(errors) / len(errors) / len(SUBSETS)
    assert method.loss(batch)["reconstruction"].item() == pytest.approx(expected, rel=1e-5)


def test_text_costs_the_mean_over_observed_texts_and_places():
    text = F.one_hot(torch.arange(12).reshape(3, 4) % 5, 5).float()
    observed = {"text": torch.tensor([True, False, True]), "number": torch.tensor([True, True, False])}
    batch = Batch({"text": text, "number": noise(3, 2)}, observed)
    layers = {"text": nn.Sequential(nn.Flatten(), nn.Linear(20, 4)), "number": nn.Linear(2, 4)}
    decoders = {"text": nn.Sequential(nn.Linear(4, 20), nn.Unflatten(1, (4, 5))), "number": nn.Linear(4, 2)}
    likelihoods = {"text": Categorical(), "number": Laplace()}
    vectors = VectorEncoder({name: Vector(each, 4) for name, each in layers.items()})
    method = AutoEncoder(vectors, decoders, likelihoods, subsets_per_step=3)
    found, seen, costs = method.loss(batch)["reconstruction"], vectors(batch)[0], []
    errors = torch.zeros(())
    for members in ([0], [1], [0, 1]):
        visible = visible_under(batch.any_observed(), torch.tensor([[place in members for place in range(2)]]))[0]
        codes = method.fuse(seen * visible[..., None])
        for row in (0, 2):
            logits = decoders["text"](codes)[row]
            costs += [F.cross_entropy(logits[place], text[row, place].argmax()) for place in range(4)]
        errors = errors + (decoders["number"](codes)[:2] - batch.inputs["number"][:2]).square().mean() / 3
    torch.testing.assert_close(found, torch.stack(costs).mean() + errors)


def test_what_is_missing_does_not_move_the_pretraining(batch):
    method = auto_encoder().eval()
    found = [gradients(method, method.loss(with_hidden(batch, filling))["reconstruction"]) for filling in (0.0, "nan")]
    assert_equal(*found)


@pytest.mark.parametrize("subsets_per_step", [None, len(SUBSETS)])
def test_loss_is_the_mean_over_subsets_of_the_cross_entropy_of_their_codes(batch, subsets_per_step):
    method, costs = multiae(subsets_per_step), []
    for members in SUBSETS if subsets_per_step else SUBSETS[-1:]:
        logits = torch.stack([method.head(code(method, batch, row, members)) for row in range(len(batch))])
        costs.append(F.cross_entropy(logits, batch.labels))
    torch.testing.assert_close(method.train().loss(batch)["task"], torch.stack(costs).mean())


def test_prediction_is_that_of_the_code_of_what_is_observed(batch):
    method = multiae(2)
    logits = torch.stack([method.head(code(method, batch, row, (0, 1, 2))) for row in range(len(batch))])
    torch.testing.assert_close(method.predict(batch).logits, logits)


def test_encoders_stay_as_they_were_pretrained_bit_for_bit(train):
    method = multiae(2)
    before = {name: values.clone() for name, values in method.state_dict().items()}
    fit(method, train, settings=TrainSettings(epochs=2, batch_size=16))
    after = method.train().state_dict()
    frozen = [name for name in before if name.startswith("encoder.")]
    assert_equal({name: before[name] for name in frozen}, {name: after[name] for name in frozen})
    assert all(not torch.equal(before[name], after[name]) for name in before if name not in frozen)
    assert method.fuse.training
    assert not any(part.training for part in method.encoder.modules())


def test_encoders_run_once_a_step(batch):
    for method in (auto_encoder(3), multiae(3)):
        rows = count_calls(*[each.layers for each in method.encoder.encoders.values()])
        method.train().loss(batch)
        assert rows == [len(batch)] * len(SHAPES)


def test_both_variants_stand_on_one_pretraining():
    plain, dagger = (last_stage(POLYMNIST, "multiae", name, 2) for name in ("multiae", "multiae-dagger"))
    assert plain.needs[0].key("") == dagger.needs[0].key("") == pretraining(POLYMNIST, seed=2).key("")
    assert plain.key("") != dagger.key("")
    wider = replace(POLYMNIST, imputer_options={**POLYMNIST.imputer_options, "channels": (8, 8, 8)})
    assert pretraining(wider, seed=2).key("") != plain.needs[0].key("")


def parameters(module):
    return sum(parameter.numel() for parameter in module.parameters())


def test_polymnist_has_the_published_size_and_decodes_pixels():
    stage, data = last_stage(POLYMNIST, "multiae", "multiae", 0), zeros(POLYMNIST)
    start, method = weightless(stage.needs[0], data), weightless(stage, data)
    encoders, decoder, code = parameters(start.encoder), start.decoders["m0"], parameters(start.fuse)
    assert encoders == 5 * (93_248 + 2048 * 512 + 512)
    assert parameters(decoder) == 1_143_747
    assert code == (2560 * 512 + 512) + (512 * 512 + 512)
    assert parameters(method) == encoders + code + 5_130
    assert isinstance(decoder[-1], nn.Sigmoid)


def test_mst_and_celeba_decode_text_as_text():
    data = zeros(MST, 2)
    start = pretraining(MST, 0).build(data, [])
    assert [type(start.likelihoods[name]) for name in ("mnist", "svhn", "text")] == [Laplace, Laplace, Categorical]
    assert torch.isfinite(start.loss(data.batch(torch.arange(2)))["reconstruction"])
    start = weightless(pretraining(CELEBA, 0), zeros(CELEBA))
    assert start.decoders["text"](torch.zeros(2, 32, device="meta")).shape == (2, 256, 71)
    assert start.decoders["img"](torch.zeros(2, 32, device="meta")).shape == (2, 3, 64, 64)
    assert isinstance(start.likelihoods["text"], Categorical)


def test_helpers_have_gaps_to_show(batch):
    """The laws above would say little otherwise."""
    assert not batch.any_observed().all()
    assert not helpers.dataset("train", 40).observed["image"].all()
