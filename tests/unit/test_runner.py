"""Stages run in an order in which each finds what it stands on, each once, with few labels too."""

import time
from pathlib import Path

import pytest
import torch
from helpers import unchecked

from gauge.registry import load_plugin
from gauge.training import checkpoint
from gauge.types import UnsupportedError
from gauge_lab.benchmarks import Overrides
from gauge_lab.benchmarks.readers.labels import labelled_rows
from gauge_lab.experiment import Experiment
from gauge_lab.runner import Runner, TimeIsUpError
from gauge_lab.workspace import Workspace

DIGITS = Path(__file__).parents[1] / "digits.py"
QUICK = {stage: {"epochs": 1} for stage in ("imputer", "backbone", "finetune")}


def experiments(*variants, seeds=(0,)):
    return [
        Experiment(benchmark="polymnist5k", variant=variant, seed=seed, overrides=QUICK)
        for variant in variants
        for seed in seeds
    ]


def test_a_runner_stops_at_its_deadline_and_loses_no_epoch(tmp_path):
    load_plugin(DIGITS)
    chosen = [Experiment(benchmark="digits", variant="v1", overrides=Overrides(imputer={"epochs": 3}))]
    heard = []
    runner = Runner(tmp_path, "cpu", deadline=time.time() - 1, on_epoch=lambda stage, epoch: heard.append(stage))
    with pytest.raises(TimeIsUpError):
        runner.run(chosen, ("complete",))
    assert len(heard) == 1
    assert list(tmp_path.glob("stages/*/last.safetensors"))


def test_a_method_that_cannot_serve_the_benchmark_does_not_stop_the_others(tmp_path, monkeypatch):
    def run(workspace, experiment, protocols):
        if experiment.variant == "v1":
            raise UnsupportedError("it needs an image")
        return [experiment.variant]

    monkeypatch.setattr(Workspace, "run", run)
    runner = Runner(tmp_path, "cpu")
    with unchecked():
        assert runner.run(experiments("v1", "v2")) == [[], ["v2"]]
    assert runner.refused == {"gauge:v1": "it needs an image"}
    with pytest.raises(ValueError, match="gauge:v1: it needs an image"):
        Runner(tmp_path, "cpu").run(experiments("v1"))


def test_predictions_that_are_not_finite_are_no_row_of_a_table(tmp_path):
    """The weights of a trained stage break between two runs; the error reaches the user."""
    load_plugin(DIGITS)
    untrained = {stage: {"epochs": 0} for stage in QUICK}
    experiment = Experiment(benchmark="digits", variant="masked", overrides=untrained)
    workspace = Workspace(tmp_path, "cpu")
    job = workspace.job(experiment)
    tensors = job.store.trained(job.stage).module.state_dict()
    broken = {
        name: torch.full_like(each, torch.nan) if each.is_floating_point() else each for name, each in tensors.items()
    }
    metadata = checkpoint.load(job.model_path)[1]
    checkpoint.save(job.model_path, broken, metadata)
    with pytest.raises(ValueError, match="not finite"):
        Runner(tmp_path, "cpu").run([experiment], ("complete",))


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
