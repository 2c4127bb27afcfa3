"""Ensembles: the mean probability of models that differ by their seed, and what they teach."""

import pytest
import torch
from helpers import SETTINGS, dataset, enlarged, plus

from gauge.data import Dataset
from gauge.training.stages import Stage, StageStore
from gauge_lab.benchmarks import BENCHMARKS
from gauge_lab.methods.ensemble import Ensemble
from gauge_lab.plans import last_stage
from gauge_lab.plans._ensemble import SEEDS, ensemble_stage
from gauge_lab.plans.ensemble import ROWS


@pytest.fixture(scope="module")
def members():
    return [plus(), enlarged(plus()), enlarged(plus(heads="none"))]


def test_the_answer_is_the_mean_probability(members, batch):
    expected = torch.stack([member.predict(batch).logits.softmax(-1) for member in members]).mean(0)
    assert not torch.allclose(expected, members[0].predict(batch).logits.softmax(-1), atol=1e-2)
    logits = Ensemble(members).predict(batch).logits
    torch.testing.assert_close(logits.exp(), expected)


def make_plus(train: Dataset):
    return plus()


def test_members_are_trained_with_other_seeds_and_keep_their_weights():
    settings = SETTINGS.model_copy(update={"epochs": 1, "selection": (), "seed": 3})
    epochs = []
    store = StageStore(dataset("train", 40), dataset("val", 30, seed=50), None, lambda name, epoch: epochs.append(name))
    stage = ensemble_stage(Stage("plus-s3", make_plus, {}, settings), 3)
    assert [need.settings.seed for need in stage.needs] == [3, 3 + SEEDS, 3 + 2 * SEEDS]
    module = store.trained(stage).module
    assert epochs == ["plus-s3", "plus-s3-1", "plus-s3-2"]
    weights = [member.gauge.classifier.head.weight for member in module.members]
    assert not any(torch.equal(weights[0], other) for other in weights[1:])
    alone = store.trained(stage.needs[0]).module
    assert torch.equal(weights[0], alone.gauge.classifier.head.weight)


@pytest.mark.parametrize("variant", ROWS)
def test_rows_answer_for_copies_of_images_where_training_changes_them(variant):
    plan, row = ROWS[variant]
    for benchmark, copies in (("leaf99", True), ("polymnist", False)):
        configured = BENCHMARKS.get(benchmark)
        stage = last_stage(configured, "ensemble", variant, 2)
        together = stage.needs[0] if copies else stage
        assert (stage.name.endswith("-tta"), stage.settings.epochs) == (copies, 0)
        assert together.needs[0].key("data") == plan.stage(configured, row, 2).key("data")
        assert len(together.needs) == 3
