"""GAUGE+: whole units are units like any other, heads answer for what is observed alone, and validation data weighs them."""

from dataclasses import replace

import helpers
import pytest
import torch
from helpers import DIM, assert_equal, plus

from gauge import Dataset, Gating, TrainSettings, fit
from gauge.encoders.flat_table import FlatTable
from gauge.masks import subsets
from gauge.plus.combination import Combination

GATED = Gating()


@pytest.fixture(params=[{}, {"gating": GATED}, {"whole": False}], ids=["plain", "gated", "fine only"])
def method(request):
    return plus(**request.param)


def test_a_whole_unit_is_the_last_of_its_modality_and_observed_where_any_of_it_is(batch):
    units = plus().encoder(batch)
    assert units.modality.tolist() == [0] * 5 + [1] + [2] * 6
    assert torch.equal(units.observed[:, 4], batch.observed["image"])
    assert torch.equal(units.observed[:, 6:11], batch.observed["table"])
    assert torch.equal(units.observed[:, 11], batch.observed["table"].any(1))


def test_the_whole_of_a_table_knows_a_missing_cell_from_one_that_is_zero():
    encoder = FlatTable((3,), DIM, cardinalities=(4, 1, 1))
    zero, one = torch.zeros(1, 3), torch.tensor([[1.0, 0.0, 0.0]])
    seen, hidden = torch.tensor([[True, True, True]]), torch.tensor([[False, True, True]])
    assert not torch.allclose(encoder(zero, seen), encoder(zero, hidden))
    assert not torch.allclose(encoder(zero, seen), encoder(one, seen))
    assert torch.equal(encoder(zero, hidden), encoder(one, hidden))


def test_heads_of_missing_modalities_say_nothing_in_loss_or_answer(batch):
    method = plus()
    only = replace(
        batch,
        observed={"image": torch.ones(6).bool(), "signal": torch.zeros(6).bool(), "table": torch.zeros(6, 5).bool()},
    )
    before, cost = method.predict(only).logits, method.loss(only)["heads"]
    with torch.no_grad():
        for head in list(method.heads)[1:]:
            head.weight.fill_(50.0)
            head.bias.copy_(torch.arange(3.0))
    assert torch.equal(method.predict(only).logits, before)
    assert torch.equal(method.loss(only)["heads"], cost)
    with torch.no_grad():
        method.heads[0].bias.copy_(torch.arange(3.0))
    assert not torch.allclose(method.predict(only).logits, before)


def test_detached_heads_learn_and_train_no_encoder(batch):
    for heads, moves in (("validated", True), ("joint", True), ("detached", False)):
        method = plus(heads=heads)
        method.loss(batch)["heads"].backward()
        assert all(parameter.grad is not None for parameter in method.heads.parameters())
        gradients = [parameter.grad for parameter in method.encoder.parameters()]
        assert any(gradient is not None and gradient.any() for gradient in gradients) is moves
    attached, detached = plus(), plus(heads="detached")
    assert torch.equal(attached.predict(batch).logits, detached.predict(batch).logits)


def test_heads_train_the_encoders_only_while_they_generalise(batch, train):
    """A head that knows nothing about validation samples leaves its encoder alone; the answer is the same."""
    method, joint = plus(), plus(heads="joint")
    method.head_gradients.follow(torch.tensor([1.0, 0.1, 1.0]), network=torch.tensor(0.1), entropy=1.0)
    assert torch.equal(method.loss(batch)["heads"], joint.loss(batch)["heads"])
    method.loss(batch)["heads"].backward()
    moved = {name for name, each in method.encoder.named_parameters() if each.grad is not None and each.grad.any()}
    assert moved
    assert all("signal" in name for name in moved)
    with torch.no_grad():
        for parameter in method.heads.parameters():
            parameter.zero_()
    shares = method.train().validate(train, train)
    assert method.training
    assert method.head_gradients.share.tolist() == [0, 0, 0] == list(shares.values())
    history = fit(method, train, train, settings=TrainSettings(epochs=1, batch_size=len(train))).history
    assert shares.items() <= history[0]["losses"].items()


def test_without_heads_the_logits_are_the_networks(batch):
    method = plus(heads="none")
    assert torch.equal(method.predict(batch).logits, method.gauge.predict(batch).logits)
    assert set(plus().loss(batch)) == {"task", "heads"}
    assert set(method.loss(batch)) == {"task"}


def opinions(rows, good):
    """Two answers about three classes; only the one numbered `good` knows anything. One modality, always there."""
    labels = torch.arange(rows) % 3
    logits = helpers.noise(rows, 2, 3)
    logits[torch.arange(rows), good, labels] += 3
    return logits, torch.ones(rows, 2, dtype=torch.bool), torch.ones(rows, 1), labels


@pytest.mark.parametrize("good", [0, 1])
def test_validation_data_decides_which_answer_counts(good):
    combine = Combination(votes=2, modalities=1)
    logits, present, share, labels = opinions(600, good)
    combine.learn(logits, present, share, labels, rows=600)
    weights = combine.weights(present, share)[0]
    assert (weights >= 0).all()
    assert weights[1 - good] < 0.1 * weights[good]
    accuracy = (combine(logits, present, share).argmax(1) == labels).float().mean()
    assert accuracy >= (logits[:, good].argmax(1) == labels).float().mean() - 0.01


def trained(train, val, **options):
    method = plus(**options)
    fit(method, train, settings=TrainSettings(epochs=12, batch_size=20, learning_rate=1e-2, masks="up-to=0.5"))
    method.prepare(train, val)
    return method


def test_training_learns_and_preparing_weighs_on_validation_data_alone(train):
    val = helpers.dataset("val", rows=60, seed=50)
    method = trained(train, val)
    answers = torch.cat([method.predict(batch).logits for batch in val.batches(20)])
    assert (answers.argmax(1) == val.labels).float().mean() > 0.8
    weights = {name: values.clone() for name, values in method.combination.state_dict().items()}
    assert weights["offset"].abs().max() > 0
    other = Dataset("val", val.inputs, val.labels.roll(1), val.observed)
    method.prepare(train, other)
    assert not torch.allclose(method.combination.offset, weights["offset"], atol=1e-2)
    method.prepare(Dataset("train", train.inputs, train.labels.roll(1), train.observed), val)
    assert_equal(dict(method.combination.state_dict()), weights)


def test_preparing_after_a_loop_of_ones_own_changes_no_statistics_and_works_in_half_precision(train):
    val = helpers.dataset("val", rows=60, seed=50)
    one, other = plus().train(), plus().eval()
    for method in (one, other):
        method.prepare(train, val)
        assert not method.training
    assert_equal(one.state_dict(), other.state_dict())
    half = plus().to(torch.bfloat16)
    batch = val.batch(torch.arange(6))
    inputs = {name: values.bfloat16() for name, values in batch.inputs.items()}
    assert half.predict(replace(batch, inputs=inputs)).logits.isfinite().all()


def test_a_step_encodes_once_and_the_network_sees_as_many_subsets_as_are_asked_for(batch):
    method = plus(subsets_per_step=3)
    encoded = helpers.count_calls(*method.encoder.encoders.values())
    classified = helpers.count_calls(method.gauge.classifier.head)
    method.loss(batch)
    assert encoded == [6] * 3
    assert classified == [18]
    assert len(subsets(3)) > 3
