"""The prototype term of the any-subset backbone, from its definition."""

import helpers
import pytest
import torch
import torch.nn.functional as F
from helpers import CLASSES, assert_equal, dataset, gradients

from gauge import AnySubset, Network, TrainSettings, Transformer, UnitEncoder, fit
from gauge.encoders.conv_grid import ConvGrid
from gauge_lab.benchmarks.polymnist5k import BENCHMARK
from gauge_lab.plans import last_stage, plan_of

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


def test_a_class_that_an_epoch_never_shows_keeps_its_prototype(method, train):
    before = with_prototypes(method).prototypes.clone()
    method.train().loss(train.batch(torch.arange(12) * 3))  # all of class 0
    method.end_epoch()
    assert not torch.equal(method.prototypes[0], before[0])
    assert torch.equal(method.prototypes[1:], before[1:])


def test_only_training_collects(method, batch):
    method.eval().loss(batch)
    method.predict(batch)
    assert not method.counts.any()
    method.train().loss(batch)
    assert int(method.counts.sum()) == 3 * len(batch)


def test_buffers_are_written_in_place(method, batch):
    """Recorded CUDA graphs hold on to their addresses."""
    places = {name: buffer.data_ptr() for name, buffer in method.named_buffers()}
    for _ in range(2):
        method.train().loss(batch)
        method.end_epoch()
    assert {name: buffer.data_ptr() for name, buffer in method.named_buffers()} == places


class StoppedError(Exception):
    pass


def test_a_resumed_run_ends_bit_for_bit_where_the_whole_one_does(method, tmp_path):
    settings = TrainSettings(epochs=6, batch_size=16, learning_rate=3e-3, masks="any-subset", seed=4)
    train = dataset("train", rows=40)

    def stop(epoch):
        if epoch.number == 4:
            raise StoppedError

    stopped = helpers.any_subset(distance=method.distance)
    with pytest.raises(StoppedError):
        fit(stopped, train, settings=settings, folder=tmp_path, on_epoch=stop)
    resumed = helpers.any_subset(distance=method.distance)
    progress = fit(resumed, train, settings=settings, folder=tmp_path)
    fit(method, train, settings=settings)
    assert int(method.epochs) == 6
    assert method.prototypes.abs().sum() > 0
    assert_equal(resumed.state_dict(), method.state_dict())
    losses = [epoch["losses"]["prototype"] for epoch in progress.history]
    assert losses[:3] == [0, 0, 0]
    assert min(losses[3:]) > 0


def test_training_draws_features_to_their_prototypes(train):
    method = helpers.any_subset()
    settings = TrainSettings(epochs=25, batch_size=16, learning_rate=3e-3, masks="any-subset", seed=1)
    losses = [epoch["losses"]["prototype"] for epoch in fit(method, train, settings=settings).history]
    assert losses[-1] < 0.8 * losses[3]


def test_the_term_survives_bf16_autocast(method, batch):
    expected = with_prototypes(method).loss(batch)["prototype"]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = method.loss(batch)["prototype"]
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=0.1, atol=0.1)


def test_predictions_are_those_of_the_visible_units(method, batch):
    units = method.encoder(batch)
    logits, features = method.represent(units, units.observed)
    assert torch.equal(method.predict(batch).logits, logits)
    assert torch.equal(logits, method.classifier(units.tokens, torch.where(with_cls(units.observed), 0.0, -1e9)))
    assert features.shape == (len(batch), 16)


def with_cls(visible):
    return F.pad(visible, (1, 0), value=True)[:, None, None]


def test_an_unknown_distance_is_answered_with_the_nearest():
    with helpers.unchecked(), pytest.raises(ValueError, match=r"no distance 'euclid'; did you mean 'euclidean'\?"):
        helpers.any_subset(distance="euclid")


def test_the_published_polymnist_backbone_has_958858_parameters():
    encoders = {f"m{view}": ConvGrid((3, 28, 28), 128, channels=(32, 64, 128)) for view in range(5)}
    classifier = Network(Transformer(128, heads=4, depth=2), 128, 10)
    method = AnySubset(UnitEncoder(encoders, 128), classifier, subsets_per_step=5, projection=64)
    assert sum(parameter.numel() for parameter in method.parameters()) == 958_858


def test_the_plan_names_distance_and_width_in_stage_and_cache():
    stages = [last_stage(BENCHMARK, "any_subset", variant, 2) for variant in plan_of("any_subset").variants]
    assert [stage.name for stage in stages] == ["backbone-s2", "backbone-euclidean-s2"]
    assert [stage.arguments["distance"] for stage in stages] == list(METRICS)
    assert {stage.arguments["projection"] for stage in stages} == {BENCHMARK.dim // 2}
    assert len({stage.key("data") for stage in stages}) == 2
