"""Ensembles: the mean probability of models that differ by their seed, and what they teach."""

import pytest
import torch
from helpers import CLASSES, SETTINGS, dataset, enlarged, plus, rows_of, with_hidden

from gauge.data import Dataset
from gauge.training.stages import Stage, StageStore
from gauge.types import Method
from gauge.values import Prediction
from gauge_lab.benchmarks import BENCHMARKS, Overrides
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


def test_a_member_alone_is_answered_as_it_is(members, batch):
    logits = Ensemble(members[:1]).predict(batch).logits
    torch.testing.assert_close(logits, members[0].predict(batch).logits.log_softmax(-1))


def test_a_sample_is_answered_alone_as_in_any_batch_and_missing_values_never_enter(members, batch):
    method = Ensemble(members)
    together = method.predict(batch).logits
    alone = method.predict(rows_of(batch, torch.tensor([2]))).logits
    torch.testing.assert_close(alone, together[[2]], rtol=1e-4, atol=1e-5)
    assert torch.equal(method.predict(with_hidden(batch, "nan")).logits, method.predict(with_hidden(batch, 0.0)).logits)


class Neighbours(Method):
    looks_across_batch = True

    def predict(self, batch) -> Prediction:
        return Prediction(torch.zeros(len(batch), CLASSES))


def test_it_looks_across_the_batch_as_its_members_do(members):
    assert not Ensemble(members).looks_across_batch
    assert Ensemble([*members, Neighbours()]).looks_across_batch


def test_an_ensemble_of_nothing_is_refused():
    with pytest.raises(ValueError, match="an ensemble has no members; give at least one trained method"):
        Ensemble([])


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


def test_one_member_is_the_stage_itself():
    first = Stage("plus-s0", make_plus, {}, SETTINGS)
    assert ensemble_stage(first, 1) is first


@pytest.mark.parametrize(("method", "option"), [("ensemble", "members"), ("gauge_plus", "teachers")])
@pytest.mark.parametrize("number", [0, 1.5, "three"])
def test_a_number_of_members_that_is_none_is_refused(method, option, number):
    overrides = Overrides.parse({"method_options": {method: {option: number}}}, "test")
    configured = BENCHMARKS.get("polymnist5k").with_overrides(overrides)
    row = "ensemble" if method == "ensemble" else "gauge_plus-student"
    with pytest.raises(ValueError, match=r"cannot be trained .* times; give members or teachers as 1, 2, 3, \.\.\."):
        last_stage(configured, method, row, 0)


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


def test_the_number_of_members_is_an_option():
    overrides = Overrides.parse({"method_options": {"ensemble": {"members": 5}}}, "test")
    stage = last_stage(BENCHMARKS.get("polymnist").with_overrides(overrides), "ensemble", "ensemble", 0)
    assert len(stage.needs) == 5


def test_all_teachers_teach():
    overrides = Overrides.parse({"method_options": {"gauge_plus": {"teachers": 2}}}, "test")
    configured = BENCHMARKS.get("celeba_table").with_overrides(overrides)
    teacher = last_stage(configured, "gauge_plus", "gauge_plus-student", 0).needs[0]
    assert [need.settings.seed for need in teacher.needs] == [0, SEEDS]
