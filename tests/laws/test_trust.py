"""Learned trust: a probability for each unit, taught by what training knows, blind to it in predictions."""

from dataclasses import replace

import helpers
import pytest
import torch
from helpers import CLASSES, SHAPES, gradients, plus

from gauge import Dataset, TrainSettings, fit
from gauge.masks import Corruption, parse_protocol
from gauge.plus.combination import Combination
from gauge.plus.trust import TrustHead, rightness
from gauge.values import Truth
from gauge_lab.audit import audit
from gauge_lab.methods._distilled import Distilled

SWAPS = Corruption(swapped=0.3)


def trusting(**options):
    return plus(gating="trust", corrupt=SWAPS, **options)


@pytest.fixture(params=[{}, {"whole": False}, {"heads": "none"}], ids=["plain", "fine only", "no heads"])
def method(request):
    return trusting(**request.param)


@pytest.fixture
def known(train):
    """A training batch of which a third is swapped and half is hidden, with its truth."""
    index = torch.arange(12)
    keep = parse_protocol("up-to=1").keep(train.feature_counts, index)
    return train.batch(index, keep=keep, corrupt=SWAPS)


def sure(method, value=50.0):
    """The method with the same trust in all units, whatever they are: 1, or 0 if the value is negative."""
    head = method.trust
    with torch.no_grad():
        head.answer.weight.zero_()
        head.answer.bias.fill_(value)
    return method


def test_trust_is_a_probability_and_gates_every_unit_that_is_seen(method, batch):
    prediction = method.predict(batch)
    trust = prediction.trust
    assert trust.shape == prediction.gates.shape == prediction.evidence.scores.shape
    assert (trust < 1).all()
    seen = method.read(batch).seen
    assert (trust[seen] > 0).all()
    assert (trust[~seen] == 0).all()
    assert torch.equal(prediction.gates, trust)


def test_flags_of_corrupted_values_never_reach_a_prediction(method, known):
    other = replace(known, truth=Truth(*[{name: ~flags for name, flags in known.truth.wrong.items()}] * 3))
    without = method.predict(replace(known, truth=None))
    for batch in (known, other):
        assert torch.equal(method.predict(batch).logits, without.logits)
        assert torch.equal(method.predict(batch).trust, without.trust)
    assert not torch.equal(method.loss(known)["trust"], method.loss(other)["trust"])


def test_full_trust_equals_gauge_plus_without_trust(batch):
    method, plain = sure(trusting()), plus()
    plain.load_state_dict({name: method.state_dict()[name] for name in plain.state_dict()})
    torch.testing.assert_close(method.predict(batch).logits, plain.predict(batch).logits)


def test_the_vote_of_a_head_counts_as_far_as_what_it_reads_is_trusted(batch):
    method = sure(trusting(), -50.0)
    network = method.gauge.decide(method.read(batch)).logits.log_softmax(-1)
    torch.testing.assert_close(method.predict(batch).logits.log_softmax(-1), network, atol=1e-5, rtol=1e-5)
    combine, logits = Combination(votes=2, modalities=1), helpers.noise(4, 2, 3)
    present, share, trust = torch.ones(4, 2).bool(), torch.ones(4, 1), torch.tensor([[1.0, 0.25]]).expand(4, 2)
    mixed = 0.25 * logits[:, 1].softmax(-1) + 0.75 / 3
    torch.testing.assert_close(combine(logits, present, share, trust), logits[:, 0].log_softmax(-1) + mixed.log())


def test_the_trust_term_teaches_the_trust_head_alone_and_the_task_never_teaches_it(method, known):
    terms = method.train().loss(known)
    taught = {name for name, each in gradients(method, terms["trust"]).items() if each.abs().sum() > 0}
    assert taught
    assert all("gate." in name for name in taught)
    task = gradients(method, method.loss(known)["task"])
    assert not any("gate." in name for name, each in task.items() if each.abs().sum() > 0)


def test_swapped_modalities_are_wrong_and_a_table_is_as_right_as_its_cells(known):
    encoder = plus().encoder
    right, sure_of = rightness(encoder, known)
    observed = known.observed["image"]
    assert torch.equal(right[:, 0][observed], (~known.truth.wrong["image"][observed]).float())
    assert torch.equal(sure_of[:, :5], observed[:, None].expand(-1, 5))
    cells, sound = known.observed["table"], known.observed["table"] & ~known.truth.wrong["table"]
    there = cells.any(1)
    torch.testing.assert_close(right[there, 11], (sound.sum(1) / cells.sum(1))[there])


def test_calibration_makes_trust_as_high_as_units_are_right():
    head, right = TrustHead(8, heads=2), (torch.rand(4000, generator=torch.Generator().manual_seed(0)) < 0.6).float()
    overconfident = torch.where(right.roll(1, 0) > 0, 0.99, 0.9)
    head.calibrate(overconfident, right)
    trust = torch.sigmoid(head.scale * torch.logit(overconfident) + head.shift)
    assert trust.mean() == pytest.approx(0.6, abs=0.03)
    head.reset()
    assert (head.scale, head.shift) == (1, 0)


def views(split, rows, seed):
    """Three modalities that each show the class plainly, so that a swapped one contradicts the other two."""
    labels = torch.arange(rows) % CLASSES
    shift = 3 * (labels.float() - 1)
    inputs = {
        name: 0.5 * helpers.noise(rows, *shape, seed=seed + place) + shift.reshape(rows, *[1] * len(shape))
        for place, (name, shape) in enumerate(SHAPES.items())
    }
    return Dataset(split, inputs, labels)


@pytest.fixture(scope="module")
def trained():
    with helpers.unchecked():
        method, train = trusting(whole=False), views("train", 250, 0)
        settings = TrainSettings(epochs=12, batch_size=50, learning_rate=5e-3, corrupt="swapped=0.3", patience=None)
        fit(method, train, settings=settings)
        method.prepare(train, views("val", 150, 50))
    return method


def test_training_learns_which_modality_contradicts_the_others(trained):
    found = audit(trained, views("test", 300, 90), "swapped=0.3")
    assert found.separation_modalities["trust"] > 0.8
    assert found.separation_observed["trust"] > found.separation_observed["gate"]
    assert found.calibration["observed"]["ece"] < 0.1
    assert 0.1 < found.observed_wrong < 0.3
    assert found.threshold is None
    for value, points in found.curves["observed"].items():
        assert points == sorted(points)
        assert points[-1] == 1
        area = sum(points) / 50 - (points[0] + points[-1]) / 100
        assert area == pytest.approx(found.separation_modalities[value], abs=0.03)


def test_a_student_learns_from_its_targets_alone(known):
    answers = torch.eye(CLASSES)[torch.arange(60) % CLASSES]
    method = Distilled(plus(), answers)
    other = replace(known, labels=(known.labels + 1) % CLASSES)
    assert torch.equal(method.loss(known)["task"], method.loss(other)["task"])
    told = plus().loss(replace(known, labels=known.index % CLASSES))
    torch.testing.assert_close(method.loss(known)["task"], told["task"])
