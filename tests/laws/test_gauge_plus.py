"""GAUGE+: whole units are units like any other, heads answer for what is observed alone, and validation data weighs them."""

from dataclasses import replace

import helpers
import pytest
import torch
import torch.nn.functional as F
from helpers import DIM, assert_equal, gradients, plus, rows_of, with_hidden
from torch import Tensor

from gauge import Dataset, Gating, TrainSettings, UnitEncoder, fit
from gauge.encoders._with_whole import WithWhole
from gauge.encoders.conv_grid import ConvGrid
from gauge.encoders.deep_grid import DeepGrid
from gauge.encoders.flat_table import FlatTable
from gauge.masks import subsets
from gauge.paper.explain import explain, unit_names
from gauge.plus.combination import Combination
from gauge.plus.heads import HeadGradients, head_pooling, tempered_losses
from gauge.types import Encoder

GATED = Gating()


@pytest.fixture(params=["plain", "gated", "fine only", "imputed"])
def method(request, train):
    made = {
        "plain": lambda: plus(),
        "gated": lambda: plus(gating=GATED),
        "fine only": lambda: plus(whole=False),
        "imputed": lambda: plus(helpers.imputer("mean", train)),
    }
    return made[request.param]()


@pytest.mark.parametrize("side", [28, 32, 64])
def test_a_deep_grid_emits_as_many_units_as_a_shallow_one(side):
    deep = DeepGrid((3, side, side), DIM, channels=(4, 4, 4))
    units = deep(torch.rand(2, 3, side, side), torch.ones(2).bool())
    assert units.shape == (2, ConvGrid((3, side, side), DIM).units, DIM)


def test_a_whole_unit_is_the_last_of_its_modality_and_observed_where_any_of_it_is(batch):
    units = plus().encoder(batch)
    assert units.modality.tolist() == [0] * 5 + [1] + [2] * 6
    assert torch.equal(units.observed[:, 4], batch.observed["image"])
    assert torch.equal(units.observed[:, 6:11], batch.observed["table"])
    assert torch.equal(units.observed[:, 11], batch.observed["table"].any(1))


def test_a_whole_unit_is_named_scored_and_gated(batch):
    method = plus(gating=GATED)
    names = unit_names(method.encoder, {"table": ["age", "sex", "size", "site", "day"]})
    assert names["image"] == ["row 1, column 1", "row 1, column 2", "row 2, column 1", "row 2, column 2", "all"]
    assert names["table"] == ["age", "sex", "size", "site", "day", "all"]
    explanation = explain(method, batch)
    frame = explanation.to_frame(names)
    assert len(frame) == 6 * 12
    assert (frame.query("unit == 'all' and observed").score > 0).all()
    torch.testing.assert_close(explanation.logits, method.predict(batch).logits)


class Patches(Encoder):
    """The values of the patches of an image, one unit each."""

    stride = 4

    def __init__(self, side: int) -> None:
        super().__init__()
        self.units, self.width = (side // 4) ** 2, 16

    def forward(self, x: Tensor, observed: Tensor) -> Tensor:
        return F.unfold(x, 4, stride=4).transpose(1, 2)


def test_the_whole_of_a_large_grid_is_the_same_wherever_its_content_stands():
    for side, same in [(8, False), (16, True)]:
        encoder, x, observed = WithWhole(Patches(side)), torch.rand(3, 1, side, side), torch.ones(3).bool()
        moved = x.roll(4, dims=-1)
        whole, after = (encoder(each, observed)[:, -1] for each in (x, moved))
        assert torch.allclose(whole, after, atol=1e-6) == same


def test_the_whole_of_a_table_knows_a_missing_cell_from_one_that_is_zero():
    encoder = FlatTable((3,), DIM, cardinalities=(4, 1, 1))
    zero, one = torch.zeros(1, 3), torch.tensor([[1.0, 0.0, 0.0]])
    seen, hidden = torch.tensor([[True, True, True]]), torch.tensor([[False, True, True]])
    assert not torch.allclose(encoder(zero, seen), encoder(zero, hidden))
    assert not torch.allclose(encoder(zero, seen), encoder(one, seen))
    assert torch.equal(encoder(zero, hidden), encoder(one, hidden))


@pytest.mark.parametrize("filling", ["noise", "nan"])
def test_unobserved_values_never_change_logits_or_gradients(method, batch, filling):
    first, second = with_hidden(batch, 0.0), with_hidden(batch, filling)
    torch.testing.assert_close(method.predict(second).logits, method.predict(first).logits, rtol=0, atol=0)
    found = gradients(method, sum(method.loss(second).values()))
    assert all(gradient.isfinite().all() for gradient in found.values())
    assert_equal(found, gradients(method, sum(method.loss(first).values())))


def test_logits_of_a_sample_do_not_depend_on_its_batch(method, batch):
    together = method.predict(batch).logits
    for rows in (torch.tensor([4]), torch.tensor([5, 0, 2])):
        torch.testing.assert_close(method.predict(rows_of(batch, rows)).logits, together[rows], rtol=1e-4, atol=1e-6)


def test_every_weight_learns(method, batch):
    found = gradients(method, sum(method.train().loss(batch).values()))
    assert [name for name, _ in method.named_parameters() if name not in found] == []


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
    moved = {
        name for name, values in method.encoder.named_parameters() if values.grad is not None and values.grad.any()
    }
    assert moved
    assert all("signal" in name for name in moved)
    with torch.no_grad():
        for parameter in method.heads.parameters():
            parameter.zero_()
    method.train().validate(train, train)
    assert method.training
    assert method.head_gradients.share.tolist() == [0, 0, 0]


def test_a_head_trains_its_encoder_as_far_as_it_knows_what_the_network_knows():
    gradients = HeadGradients(4)
    gradients.follow(torch.tensor([1.0, 0.99, 0.6, torch.nan]), network=torch.tensor(0.2), entropy=1.0)
    assert torch.allclose(gradients.share, torch.tensor([0, 0, 0.5, 1]))
    gradients.follow(torch.tensor([0.9, 0.99, 0.6, 0.4]), network=torch.tensor(0.6), entropy=1.0)
    assert torch.allclose(gradients.share, torch.tensor([0.25, 0, 1, 1]))


def test_the_losses_of_heads_are_those_at_the_best_temperature():
    labels = torch.arange(40) % 3
    logits = helpers.noise(40, 2, 3) + torch.eye(3)[labels][:, None]
    present = torch.ones(40, 2, dtype=torch.bool)
    present[:, 1] = False
    sure, doubtful = (tempered_losses(logits * factor, labels, present) for factor in (16.0, 1.0))
    assert sure[1].isnan()
    assert torch.allclose(sure[0], doubtful[0])
    assert sure[0] < F.cross_entropy(16 * logits[:, 0], labels)


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
    combine = Combination(answers=2, modalities=1)
    logits, present, share, labels = opinions(600, good)
    combine.learn(logits, present, share, labels, rows=600)
    weights = combine.weights(present, share)[0]
    assert (weights >= 0).all()
    assert weights[1 - good] < 0.1 * weights[good]
    accuracy = (combine(logits, present, share).argmax(1) == labels).float().mean()
    assert accuracy >= (logits[:, good].argmax(1) == labels).float().mean() - 0.01


def test_a_few_samples_hardly_move_the_weights():
    combine = Combination(answers=2, modalities=1)
    logits, present, share, labels = opinions(3, 0)
    combine.learn(logits, present, share, labels, rows=3)
    assert combine.offset.abs().max() < 1.5
    assert combine.slope.abs().max() < 1.5


def test_weights_differ_between_subsets_where_the_answers_do():
    """The network is right where both modalities are there, and the head of the first where it is alone."""
    rows = 600
    labels = torch.arange(rows) % 3
    both = torch.arange(rows) % 2 == 0
    logits = helpers.noise(rows, 3, 3)
    logits[torch.arange(rows), torch.where(both, 0, 1), labels] += 3
    present = torch.stack([torch.ones(rows).bool(), torch.ones(rows).bool(), both], 1)
    share = present[:, 1:].float()
    combine = Combination(answers=3, modalities=2)
    combine.learn(logits, present, share, labels, rows=rows)
    together, alone = combine.weights(present, share)[:2]
    assert together[0] > 3 * together[1]
    assert alone[1] > 3 * alone[0]
    assert alone[2] == 0


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


def test_without_validation_data_all_answers_count_alike(train, batch):
    method = plus()
    method.prepare(train)
    present = torch.ones(6, 4).bool()
    assert torch.equal(method.combination.weights(present, torch.ones(6, 3)), torch.ones(6, 4))


def test_saved_state_brings_the_same_predictions_back(train, batch):
    method = trained(train, helpers.dataset("val", rows=30, seed=50))
    other = plus()
    assert not torch.allclose(other.predict(batch).logits, method.predict(batch).logits)
    other.load_state_dict(method.state_dict())
    assert torch.equal(other.predict(batch).logits, method.predict(batch).logits)


def test_a_step_encodes_once_and_the_network_sees_as_many_subsets_as_are_asked_for(batch):
    method = plus(subsets_per_step=3)
    encoded = helpers.count_calls(*method.encoder.encoders.values())
    classified = helpers.count_calls(method.gauge.classifier.head)
    method.loss(batch)
    assert encoded == [6] * 3
    assert classified == [18]
    assert len(subsets(3)) > 3


def test_the_head_of_the_only_modality_reads_its_whole_unit():
    encoder = UnitEncoder({"image": WithWhole(DeepGrid((1, 8, 8), DIM, channels=(4,)))}, DIM)
    assert head_pooling(encoder).tolist() == [[0, 0, 0, 0, 1]]
    assert head_pooling(plus().encoder).argmax(1).tolist() == [4, 5, 11]
