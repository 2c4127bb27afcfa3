"""The prototype term of the any-subset backbone, from its definition."""

import helpers
import pytest
import torch
from helpers import CLASSES, assert_equal, dataset, gradients, interrupt_after

from gauge import TrainSettings, fit

METRICS = ("cosine", "euclidean")


@pytest.fixture(params=METRICS)
def method(request):
    return helpers.any_subset(distance=request.param)


def with_prototypes(method, epochs=3):
    method.prototypes.copy_(helpers.noise(*method.prototypes.shape, seed=8))
    method.epochs.fill_(epochs)
    return method


def seen_by(method):
    """A list that grows by the features of every pass."""
    passes, represent = [], method.represent

    def watched(units, visible):
        logits, features = represent(units, visible)
        passes.append(features.detach())
        return logits, features

    method.represent = watched
    return passes


@pytest.mark.parametrize("epochs", [0, 1, 2])
def test_the_term_is_exactly_zero_with_zero_gradients_in_the_first_three_epochs(method, batch, epochs):
    for prototypes in (torch.zeros_like(method.prototypes), helpers.noise(*method.prototypes.shape)):
        with_prototypes(method, epochs).prototypes.copy_(prototypes)
        terms = method.train().loss(batch)
        assert terms["prototype"].item() == 0
        found = gradients(method, terms["prototype"])
        assert "projection.weight" in found
        assert all(bool((gradient == 0).all()) for gradient in found.values())


def test_afterwards_it_is_the_cross_entropy_of_similarities_to_the_prototypes(method, batch):
    passes = seen_by(with_prototypes(method))
    found = method.loss(batch)["prototype"]
    (features,) = passes
    prototypes, expected = method.prototypes.double(), []
    for row, feature in enumerate(features.double()):
        if method.distance == "cosine":
            assert feature.norm().item() == pytest.approx(1)
            scores = torch.stack([feature @ prototype for prototype in prototypes])
        else:
            scores = torch.stack([-((feature - prototype) ** 2).sum() for prototype in prototypes])
        label = batch.labels[row % len(batch)]
        expected.append(-torch.log(torch.exp(scores / 0.1) / torch.exp(scores / 0.1).sum())[label])
    assert len(expected) == 3 * len(batch)
    torch.testing.assert_close(found, torch.stack(expected).mean().float())


def test_its_gradients_reach_projection_backbone_and_encoders_but_no_prototype(method, batch):
    found = gradients(with_prototypes(method), method.loss(batch)["prototype"])
    assert not method.prototypes.requires_grad
    assert "classifier.head.weight" not in found
    for name in ("projection.weight", "classifier.cls_token", "encoder.norms.signal.weight"):
        assert (found[name] != 0).any()


def test_prototypes_are_the_class_means_of_all_features_of_the_epoch(method, train):
    passes, labels = seen_by(method), []
    method.train()
    for batch in train.batches(16):
        method.loss(batch)
        labels.append(batch.labels.repeat(3))
    assert not method.prototypes.any()
    method.end_epoch()
    features, labels = torch.cat(passes), torch.cat(labels)
    for label in range(CLASSES):
        torch.testing.assert_close(method.prototypes[label], features[labels == label].mean(0))
    assert int(method.epochs) == 1
    assert not method.sums.any()
    assert not method.counts.any()


def test_a_resumed_run_ends_bit_for_bit_where_the_whole_one_does(method, tmp_path):
    settings = TrainSettings(epochs=6, batch_size=16, learning_rate=3e-3, masks="any-subset", seed=4)
    train = dataset("train", rows=40)

    stopped = helpers.any_subset(distance=method.distance)
    with pytest.raises(InterruptedError):
        fit(stopped, train, settings=settings, folder=tmp_path, on_epoch=interrupt_after(4))
    resumed = helpers.any_subset(distance=method.distance)
    progress = fit(resumed, train, settings=settings, folder=tmp_path)
    fit(method, train, settings=settings)
    assert int(method.epochs) == 6
    assert method.prototypes.abs().sum() > 0
    assert_equal(resumed.state_dict(), method.state_dict())
    losses = [epoch["losses"]["prototype"] for epoch in progress.history]
    assert losses[:3] == [0, 0, 0]
    assert min(losses[3:]) > 0
