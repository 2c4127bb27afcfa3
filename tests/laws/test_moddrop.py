"""ModDrop: what it drops in training, and that nothing else differs from the shared network."""

import helpers
import pytest
import torch
import torch.nn.functional as F
from helpers import SHAPES, count_calls, gradients, with_hidden

from gauge import Dataset
from gauge_lab.benchmarks import celeba, mst, polymnist
from gauge_lab.methods.moddrop import RATE, ModDrop, keep_some
from gauge_lab.plans import last_stage

MANY = torch.arange(40_000)


def moddrop(rate=RATE):
    return ModDrop(helpers.unit_encoder(), helpers.network(), rate=rate)


def share(kept, row):
    return float((kept == torch.tensor(row)).all(1).float().mean())


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("rate", [0.0, 0.5, 0.9, 1.0])
def test_a_modality_stays_with_its_probability_and_one_always_does(count, rate):
    kept = keep_some(MANY, torch.ones(len(MANY), count, dtype=torch.bool), rate)
    assert kept.any(1).all()
    for modality in range(count):
        assert kept[:, modality].float().mean() == pytest.approx(1 - rate + rate**count / count, abs=0.01)


def test_two_modalities_at_one_half_are_alone_three_times_out_of_eight_each():
    kept = keep_some(MANY, torch.ones(len(MANY), 2, dtype=torch.bool), 0.5)
    assert share(kept, [True, False]) == pytest.approx(0.375, abs=0.01)
    assert share(kept, [False, True]) == pytest.approx(0.375, abs=0.01)
    assert share(kept, [True, True]) == pytest.approx(0.25, abs=0.01)


def test_what_is_not_there_never_stays_and_one_of_the_rest_does():
    there = torch.tensor([True, False, True]).expand(len(MANY), -1)
    kept = keep_some(MANY, there, 0.5)
    assert not kept[:, 1].any()
    assert kept.any(1).all()
    assert share(kept, [True, False, False]) == pytest.approx(0.375, abs=0.01)
    alone = torch.tensor([[False, True, False]])
    assert keep_some(torch.tensor([7]), alone, 1.0).tolist() == alone.tolist()


def test_a_sample_loses_the_same_modalities_in_any_batch():
    there = torch.ones(50, 3, dtype=torch.bool)
    order = torch.arange(49, -1, -1)
    assert torch.equal(keep_some(order, there, 0.5), keep_some(torch.arange(50), there, 0.5)[order])


def test_the_loss_is_the_cross_entropy_of_samples_without_what_was_dropped(batch):
    method = moddrop()
    kept = keep_some(batch.key, batch.any_observed(), RATE)
    assert not torch.equal(kept, batch.any_observed())
    observed = {
        name: flags & kept[:, place].reshape(-1, *[1] * (flags.ndim - 1))
        for place, (name, flags) in enumerate(batch.observed.items())
    }
    dropped = type(batch)(batch.inputs, observed, batch.labels, batch.index, batch.key)
    by_hand = []
    for row in range(len(batch)):
        units = method.encoder(helpers.rows_of(dropped, torch.tensor([row])))
        tokens = torch.where(units.observed[..., None], units.content, 0) + units.embedding
        by_hand.append(F.cross_entropy(method.classifier(tokens), batch.labels[row : row + 1]))
    torch.testing.assert_close(method.loss(batch)["task"], torch.stack(by_hand).mean())


def test_nothing_is_dropped_at_rate_0_nor_in_predictions(batch):
    method = moddrop()
    expected = method.classifier(method.encoder(batch).tokens)
    torch.testing.assert_close(method.predict(batch).logits, expected)
    torch.testing.assert_close(moddrop(0.0).loss(batch)["task"], F.cross_entropy(expected, batch.labels))


@pytest.mark.parametrize("filling", ["nan", "noise"])
def test_what_is_missing_reaches_neither_loss_nor_gradient(batch, filling):
    method = moddrop()
    found = gradients(method, method.loss(with_hidden(batch, filling))["task"])
    helpers.assert_equal(found, gradients(method, method.loss(batch)["task"]))


def test_a_step_encodes_every_modality_once(batch):
    method = moddrop()
    calls = count_calls(*method.encoder.encoders.values())
    method.loss(batch)
    assert calls == [len(batch)] * len(SHAPES)


def test_a_rate_that_is_no_probability_is_refused():
    with pytest.raises(
        ValueError, match="rate 1.5 is no probability; give the share of modalities to drop, from 0 to 1"
    ):
        moddrop(1.5)


@pytest.mark.parametrize(
    ("benchmark", "size"),
    [(polymnist.BENCHMARK, 950_602), (mst.BENCHMARK, 732_826), (celeba.BENCHMARK, 34_712_386)],
    ids=["polymnist", "mst", "celeba"],
)
def test_it_has_the_published_size(benchmark, size):
    nothing = Dataset("train", {"x": torch.zeros(1, 1)}, torch.zeros(1).long())
    method = last_stage(benchmark, "moddrop", "moddrop", 0).build(nothing, [])
    assert sum(parameter.numel() for parameter in method.parameters()) == size
