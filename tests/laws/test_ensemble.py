"""Ensembles and test-time augmentation: the mean of trained models, and of answers for changed copies of images."""

from dataclasses import replace

import pytest
import torch
from helpers import SETTINGS, assert_equal, dataset, enlarged, plus

from gauge.data import Dataset
from gauge.training.stages import Stage, StageStore
from gauge_lab.benchmarks import BENCHMARKS, Overrides
from gauge_lab.methods.ensemble import Ensemble
from gauge_lab.methods.tta import COPIES, TTA, changed
from gauge_lab.plans import last_stage, plan_of
from gauge_lab.plans._ensemble import SEEDS, ensemble_stage
from gauge_lab.plans.ensemble import ROWS as ENSEMBLES
from gauge_lab.plans.tta import ROWS, over_copies

LEAVES = "leaves"  # it corrupts three cells of ten in training


def make_plus(train: Dataset):
    return plus()


@pytest.fixture
def epochs():
    return []


@pytest.fixture
def store(epochs):
    return StageStore(dataset("train", 40), dataset("val", 30, seed=50), None, lambda name, epoch: epochs.append(name))


@pytest.fixture(scope="module")
def members():
    return [plus(), enlarged(plus()), enlarged(plus(heads="none"))]


def test_an_ensemble_predicts_the_mean_probability(members, batch):
    expected = torch.stack([member.predict(batch).logits.softmax(-1) for member in members]).mean(0)
    assert not torch.allclose(expected, members[0].predict(batch).logits.softmax(-1), atol=1e-2)
    logits = Ensemble(members).predict(batch).logits
    torch.testing.assert_close(logits.exp(), expected)


def test_members_are_trained_with_other_seeds_and_keep_their_weights(store, epochs):
    settings = SETTINGS.model_copy(update={"epochs": 1, "selection": (), "seed": 3})
    stage = ensemble_stage(Stage("plus-s3", make_plus, {}, settings), 3)
    assert [need.settings.seed for need in stage.needs] == [3, 3 + SEEDS, 3 + 2 * SEEDS]
    module = store.trained(stage).module
    assert epochs == ["plus-s3", "plus-s3-1", "plus-s3-2"]
    weights = [member.gauge.classifier.head.weight for member in module.members]
    assert not any(torch.equal(weights[0], other) for other in weights[1:])
    alone = store.trained(stage.needs[0]).module
    assert torch.equal(weights[0], alone.gauge.classifier.head.weight)


@pytest.mark.parametrize("variant", ENSEMBLES)
def test_ensembles_predict_from_copies_of_images_where_training_changes_them(variant):
    plan, row = ENSEMBLES[variant]
    for benchmark, copies in (("leaf99", True), ("polymnist", False)):
        configured = BENCHMARKS.get(benchmark)
        stage = last_stage(configured, "ensemble", variant, 2)
        together = stage.needs[0] if copies else stage
        assert (stage.name.endswith("-tta"), stage.settings.epochs) == (copies, 0)
        assert together.needs[0].key("data") == plan.stage(configured, row, 2).key("data")
        assert len(together.needs) == 3


@pytest.fixture(scope="module")
def trained():
    return enlarged(plus())


def test_the_answer_is_the_mean_over_the_images_as_they_are_and_changed_copies(trained, batch):
    copies = [batch, *(changed(batch, LEAVES, number) for number in range(1, COPIES))]
    answers = torch.stack([trained.predict(copy).logits.log_softmax(-1) for copy in copies])
    seen = batch.observed["image"]
    assert (answers[1:] - answers[0])[:, seen].abs().amax((0, 2)).min() > 1e-3, "copies are answered otherwise"
    logits = TTA(trained, LEAVES).predict(batch).logits
    torch.testing.assert_close(logits, answers.mean(0))
    torch.testing.assert_close(logits[~seen], answers[0, ~seen])


def test_copies_change_observed_images_alone_each_otherwise(batch):
    copies = [changed(batch, LEAVES, number) for number in range(1, 5)]
    for copy in copies:
        assert_equal(dict(copy.observed), dict(batch.observed))
        for name in ("signal", "table"):
            assert torch.equal(copy.inputs[name], batch.inputs[name])
        assert torch.equal(copy.key, batch.key)
    images = torch.stack([copy.inputs["image"] for copy in copies])
    assert torch.equal((images == batch.inputs["image"]).flatten(2).all(2).all(0), ~batch.observed["image"])
    assert all(len(images[:, row].unique(dim=0)) > 1 for row in batch.observed["image"].nonzero()[:, 0])


def test_a_model_is_trained_once_and_keeps_its_weights(store, epochs):
    settings = SETTINGS.model_copy(update={"epochs": 1, "selection": (), "augment": LEAVES})
    first = Stage("plus-s0", make_plus, {}, settings)
    before = store.trained(first).module.state_dict()
    assert before["combination.offset"].abs().max() > 0, "its combination is learned"
    module = store.trained(over_copies(first)).module
    assert epochs == ["plus-s0"]
    assert module.augmentation == LEAVES
    assert_equal({name.removeprefix("trained."): values for name, values in module.state_dict().items()}, before)


@pytest.mark.parametrize(("benchmark", "settings"), [("leaf99", {}), ("polymnist", {"plus": {"augment": "digits"}})])
@pytest.mark.parametrize("variant", ROWS)
def test_rows_stand_on_the_trained_stages_of_the_rows_without_copies(benchmark, settings, variant):
    configured = BENCHMARKS.get(benchmark).with_overrides(Overrides.parse(settings, "test"))
    plan, row = ROWS[variant]
    trained = plan.stage(configured, row, 3)
    stage = last_stage(configured, "tta", variant, 3)
    assert stage.settings.epochs == 0
    assert [need.key("data") for need in stage.needs] == [trained.key("data")]
    assert stage.arguments == {"augmentation": trained.settings.augment}


def test_benchmarks_without_changed_images_are_refused_with_the_cure():
    unsupported = plan_of("tta").unsupported
    assert unsupported(BENCHMARKS.get("polymnist")) == (
        "its images are not augmented in training, see the setting plus.augment"
    )
    leaf99 = BENCHMARKS.get("leaf99")
    assert unsupported(leaf99) is None
    assert unsupported(replace(leaf99, modalities={"table": leaf99.modalities["table"]})) == "it has no images"
