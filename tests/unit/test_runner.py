"""Stages run in an order in which each finds what it stands on, each once, and stop in time."""

import time
from concurrent.futures import Future
from pathlib import Path

import pytest
import torch
from helpers import unchecked

from gauge.registry import load_plugin
from gauge.training import checkpoint
from gauge.training.stages import StageStore
from gauge.types import UnsupportedError
from gauge_lab import runner as runners
from gauge_lab.benchmarks import Overrides
from gauge_lab.experiment import Experiment
from gauge_lab.runner import Runner, TimeIsUpError, _run_in_order, _tasks
from gauge_lab.workspace import Workspace

DIGITS = Path(__file__).parents[1] / "digits.py"
QUICK = {stage: {"epochs": 1} for stage in ("imputer", "backbone", "finetune")}


def experiments(*variants, seeds=(0,)):
    return [
        Experiment(benchmark="polymnist5k", variant=variant, seed=seed, overrides=QUICK)
        for variant in variants
        for seed in seeds
    ]


def test_shared_stages_are_trained_once_and_before_what_needs_them():
    tasks = _tasks(experiments("v2", "gauge", seeds=(0, 1, 3)))
    stages = [task.stage for task in tasks if task.stage]
    assert (
        len(stages) == len(set(stages)) == 1 + 2 + 6
    )  # imputer, backbones 0 and 1 (seed 3 starts from 0), six methods
    assert sum(task.stage is None for task in tasks) == 6
    assert all(index > before for index, task in enumerate(tasks) for before in task.after)


def test_tasks_start_when_those_before_them_are_done():
    tasks, started = _tasks(experiments("v2", "gauge")), []

    def submit(task):
        started.append(tasks.index(task))
        done = Future()
        done.set_result(started[-1])
        return done

    assert _run_in_order(tasks, submit, at_once=2) == {index: index for index in range(len(tasks))}
    assert all(started.index(before) < started.index(index) for index, t in enumerate(tasks) for before in t.after)


def test_a_failure_is_raised_and_nothing_new_is_started():
    tasks, started = _tasks(experiments("v2", "gauge")), []

    def submit(task):
        started.append(task)
        failed = Future()
        failed.set_exception(ValueError("broken"))
        return failed

    with pytest.raises(ValueError, match="broken"):
        _run_in_order(tasks, submit, at_once=2)
    assert len(started) < len(tasks)


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


@pytest.mark.parametrize(
    "message", ["the prediction for sample 3 of test is not finite", "model.safetensors is damaged"]
)
def test_any_other_failure_ends_the_run_with_its_message(tmp_path, monkeypatch, message):
    started = []

    def run(workspace, experiment, protocols):
        started.append(experiment.variant)
        raise ValueError(message)

    monkeypatch.setattr(Workspace, "run", run)
    runner = Runner(tmp_path, "cpu")
    with pytest.raises(ValueError, match=message) as raised:
        runner.run(experiments("v1", "v2"))
    assert not isinstance(raised.value, UnsupportedError)
    assert started == ["v1"]
    assert not runner.refused


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


def test_a_worker_reports_a_failed_stage_and_leaves_an_unsupported_one_to_its_experiment(tmp_path, monkeypatch):
    monkeypatch.setattr(runners, "_workspace", Workspace(tmp_path, "cpu"), raising=False)
    task = _tasks(experiments("v1"))[0]
    for error in (UnsupportedError("it needs an image"), ValueError("it is damaged")):

        def trained(store, stage, error=error):
            raise error

        monkeypatch.setattr(StageStore, "trained", trained)
        if isinstance(error, UnsupportedError):
            assert runners._work(task, ()) is None
        else:
            with pytest.raises(ValueError, match="it is damaged"):
                runners._work(task, ())


def test_what_is_trained_is_evaluated_before_more_is_trained():
    tasks, started = _tasks(experiments("masked", seeds=(0, 1))), []

    def submit(task):
        started.append(task)
        done = Future()
        done.set_result(None)
        return done

    _run_in_order(tasks, submit, at_once=1)
    kinds = [task.stage is None for task in started]
    assert kinds == [False, False, True, False, False, True]
