"""The weighted vote: GAUGE+ without its network, trained as GAUGE+ is and weighed as its answers are."""

from copy import deepcopy
from dataclasses import replace

import helpers
import pytest
import torch
from helpers import assert_equal, gradients, plus, with_hidden

from gauge import Dataset, TrainSettings, fit
from gauge.plus.combination import Combination
from gauge.plus.late_fusion import WeightedVote
from gauge_lab.benchmarks import BENCHMARKS
from gauge_lab.plans import last_stage

NAMES = list(helpers.SHAPES)
NONE = {"image": torch.zeros(6).bool(), "signal": torch.zeros(6).bool(), "table": torch.zeros(6, 5).bool()}


def vote(**options):
    """The encoders and heads of a GAUGE+."""
    whole = plus()
    return WeightedVote(whole.encoder, whole.heads, **options).eval()


def weighed(method):
    """The method with weights that differ between heads and with what is observed."""
    method.combination.offset.copy_(torch.tensor([0.3, -0.4, 0.1]))
    method.combination.slope.copy_(0.2 * helpers.noise(3, 3))
    return helpers.finished(method)


def only(batch, *names):
    """The batch with nothing observed but all of these modalities."""
    return replace(batch, observed=NONE | {name: ~NONE[name] for name in names})


@pytest.mark.parametrize("silent", [0, 1, 2])
def test_a_missing_modality_never_votes_and_never_teaches(batch, silent):
    method = weighed(vote())
    others = only(with_hidden(batch, 0.0), *(name for name in NAMES if name != NAMES[silent]))
    before, cost = method.predict(others).logits, method.loss(others)["task"]
    with torch.no_grad():
        method.heads[silent].weight.fill_(50.0)
        method.heads[silent].bias.copy_(torch.arange(3.0))
    assert torch.equal(method.predict(others).logits, before)
    assert torch.equal(method.loss(others)["task"], cost)


@pytest.mark.parametrize("name", NAMES)
def test_with_one_modality_the_answer_is_its_calibrated_head(batch, name):
    method, alone = weighed(vote()), only(with_hidden(batch, 0.0), name)
    index = NAMES.index(name)
    weight = (method.combination.offset[index] + method.combination.slope[index, index]).exp()
    logits = method.heads.logits(method.encoder(alone))[:, index]
    torch.testing.assert_close(method.predict(alone).logits.softmax(1), (weight * logits).softmax(1))


def test_heads_learn_alone_exactly_as_the_heads_of_gauge_plus(batch):
    whole, method = plus(), vote()
    assert torch.equal(method.loss(batch)["task"], whole.loss(batch)["heads"])
    own, others = (gradients(each, each.loss(batch)[term]) for each, term in ((method, "task"), (whole, "heads")))
    heads = {name: gradient for name, gradient in own.items() if name.startswith("heads")}
    assert len(heads) == 6
    assert_equal(heads, {name: others[name] for name in heads})


def test_the_heads_of_gauge_plus_alone_are_gauge_plus_whose_network_has_no_weight(train, batch):
    whole = plus()
    stage, trained = (
        last_stage(BENCHMARKS.get("polymnist5k"), "gauge_plus", name, 0)
        for name in ("gauge_plus-heads-only", "gauge_plus")
    )
    assert stage.settings.epochs == 0
    assert [need.key("data") for need in stage.needs] == [trained.key("data")]
    alone = weighed(stage.make(train, deepcopy(whole), **stage.arguments))
    before = alone.predict(batch).logits
    whole.combination.offset.copy_(torch.tensor([-torch.inf, *alone.combination.offset]))
    whole.combination.slope[1:].copy_(alone.combination.slope)
    torch.testing.assert_close(whole.predict(batch).logits, before)
    with torch.no_grad():
        whole.gauge.classifier.head.bias.copy_(torch.tensor([0.0, 5.0, -5.0]))
    torch.testing.assert_close(whole.predict(batch).logits, before)


def test_training_learns_and_validation_data_alone_decides_the_weights(train):
    val, method = helpers.dataset("val", rows=60, seed=50), vote()
    fit(method, train, settings=TrainSettings(epochs=12, batch_size=20, learning_rate=1e-2, masks="up-to=0.5"))
    method.eval().prepare(train)
    assert_equal(dict(method.combination.state_dict()), dict(vote().combination.state_dict()))
    method.prepare(train, val)
    answers = torch.cat([method.predict(batch).logits for batch in val.batches(20)])
    assert (answers.argmax(1) == val.labels).float().mean() > 0.8
    weights = {name: values.clone() for name, values in method.combination.state_dict().items()}
    assert weights["offset"].abs().max() > 0
    method.prepare(Dataset("train", train.inputs, train.labels.roll(1), train.observed), val)
    assert_equal(dict(method.combination.state_dict()), weights)
    method.prepare(train, Dataset("val", val.inputs, val.labels.roll(1), val.observed))
    assert not torch.allclose(method.combination.offset, weights["offset"], atol=1e-2)


def test_the_shares_of_the_classes_count_once_however_many_votes_there_are():
    """Answers that know nothing but that the second class is rare say just that together."""
    combine, rare = Combination(votes=3, modalities=3, classes=2), torch.tensor([0.9, 0.1])
    combine.count_classes(torch.cat([torch.zeros(8999), torch.ones(999)]).long())
    logits = rare.log().expand(2, 3, 2)
    present = torch.tensor([[True, False, False], [True, True, True]])
    torch.testing.assert_close(combine(logits, present, present.float()).softmax(-1), rare.expand(2, 2))
