"""Few labels: the classifier learns from some samples, the imputer from all of them."""

import pytest
import torch

from gauge_lab.benchmarks import Overrides, polymnist5k
from gauge_lab.benchmarks.readers.labels import labelled_rows
from gauge_lab.experiment import Experiment
from gauge_lab.runner import _tasks
from gauge_lab.workspace import Workspace

FEW = {"labels": 50}


def job(tmp_path, seed=0, **overrides):
    return Workspace(tmp_path, "cpu").job(Experiment(benchmark="polymnist5k", seed=seed, overrides=overrides))


def keys(made):
    """The keys of imputer and backbone, and of the method on them."""
    named = {stage.name.partition("-")[0]: made.store.key(stage) for stage in made.stage.all()}
    return named["imputer"], named["backbone"], named["gauge"]


def test_labelled_rows_have_the_proportions_of_the_classes_and_follow_the_seed_alone():
    labels = torch.tensor([0] * 60 + [1] * 30 + [2] * 10)
    rows = labelled_rows(labels, 20, seed=3)
    assert torch.bincount(labels[rows]).tolist() == [12, 6, 2]
    assert torch.equal(rows, labelled_rows(labels, 20, seed=3))
    assert rows.sum() == 20
    assert not torch.equal(rows, labelled_rows(labels, 20, seed=4))


@pytest.mark.parametrize("count", [2, 99, 100, 500])
def test_a_number_of_labels_that_cannot_be_drawn_is_refused(count):
    labels = torch.tensor([0] * 60 + [1] * 30 + [2] * 10)
    with pytest.raises(ValueError, match=f"labels={count} of 100 training samples cannot be drawn .* each class"):
        labelled_rows(labels, count, seed=0)


def test_groups_keep_the_labels_of_all_their_samples():
    labels, groups = torch.tensor([0] * 60 + [1] * 40), torch.arange(100) // 5
    rows = labelled_rows(labels, 10, groups, seed=0)
    assert rows.sum() == 50
    assert all(rows[groups == group].unique().numel() == 1 for group in range(20))
    assert labels[rows].bincount().tolist() == [30, 20]
    with pytest.raises(ValueError, match="labels=20 of 20 groups of training samples cannot be drawn"):
        labelled_rows(labels, 20, groups, seed=0)


def test_the_others_are_read_without_their_labels(tmp_path):
    few = job(tmp_path, **FEW)
    assert few.store.imputer.labelled.sum() == 50
    with pytest.raises(ValueError, match="label_groups: polymnist5k has no groups of samples"):
        job(tmp_path, **FEW, label_groups=True)


def test_the_classifier_learns_from_the_labelled_samples_and_the_imputer_from_all(tmp_path):
    whole, few, other = job(tmp_path), job(tmp_path, **FEW), job(tmp_path, seed=1, **FEW)
    imputer = next(stage for stage in few.stage.all() if stage.name.startswith("imputer"))
    assert (len(few.store.train), len(few.store.rows(imputer)), len(few.store.rows(few.stage))) == (50, 3500, 50)
    assert (len(few.store.val), len(few.test)) == (500, 1000)
    assert keys(few)[0] == keys(whole)[0] == keys(other)[0], "one imputer serves all"
    assert len({keys(each)[1] for each in (whole, few, other)}) == 3
    assert len({keys(each)[2] for each in (whole, few, other)}) == 3


def test_the_imputer_can_be_restricted_to_the_labelled_samples(tmp_path):
    few = job(tmp_path, **FEW, imputer_split="train")
    imputer = next(stage for stage in few.stage.all() if stage.name.startswith("imputer"))
    assert len(few.store.rows(imputer)) == 50
    assert keys(few)[0] != keys(job(tmp_path, **FEW))[0]


def test_seeds_with_their_own_labels_share_the_imputer_and_nothing_else():
    overrides = Overrides(**FEW)
    experiments = [Experiment(benchmark="polymnist5k", seed=seed, overrides=overrides) for seed in range(4)]
    stages = [task.stage for task in _tasks(experiments) if task.stage]
    assert len(stages) == 1 + 4 + 4  # backbone 0 is trained for seed 0 and, on other samples, for seed 3


def test_the_imputer_split_is_the_training_split_unless_there_is_more():
    benchmark = polymnist5k.BENCHMARK
    assert not benchmark.imputer_reads_more
    assert benchmark.load("imputer") is benchmark.load("train")
    with pytest.raises(ValueError, match="has no split 'dev'; use train, val, test or imputer"):
        benchmark.load("dev")


def test_disjoint_folds_need_several_divisions():
    with pytest.raises(
        ValueError, match="folds: disjoint needs several divisions into splits, and polymnist5k has one"
    ):
        polymnist5k.BENCHMARK.with_overrides(Overrides(folds="disjoint"))
