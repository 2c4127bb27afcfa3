"""Runs experiments one after the other or in parallel: every stage once, as soon as those it needs are trained."""

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from gauge.registry import load_plugin, plugin_files
from gauge.training.device import device_of_job
from gauge.training.loop import Epoch
from gauge.training.stages import OnEpoch, silent
from gauge.types import UnsupportedError
from gauge_lab.experiment import Experiment
from gauge_lab.results import Result
from gauge_lab.workspace import Workspace

Results = list[tuple[Result, Path]]


class TimeIsUpError(Exception):
    """The time limit was reached; all finished epochs are saved."""


@dataclass(frozen=True)
class Runner:
    """How experiments run: folder, device, number of parallel jobs, and the deadline (as given by `time.time`)."""

    folder: Path
    device: str | None = None
    jobs: int = 1
    deadline: float | None = None
    on_epoch: OnEpoch = silent
    reuse: bool = False
    refused: dict[str, str] = field(default_factory=dict)

    def run(self, experiments: Sequence[Experiment], protocols: tuple[str, ...] = ()) -> list[Results]:
        """The results of every experiment, in order. Raises `TimeIsUpError` at the deadline. A method that does not support
        the benchmark has no results, and the reason is in `refused`; if no method supports it, an error is raised, as for
        any other failure."""
        if self.jobs == 1:
            workspace = self.workspace(self.on_epoch)
            outcomes = [_run(workspace, experiment, protocols) for experiment in experiments]
        else:
            tasks = _tasks(experiments)
            with self._pool() as submit:
                results = _run_in_order(tasks, lambda task: submit(_work, task, protocols), at_once=self.jobs)
            outcomes = [results[index] for index, task in enumerate(tasks) if task.stage is None]
        for experiment, outcome in zip(experiments, outcomes, strict=True):
            if isinstance(outcome, str):
                self.refused[str(experiment.row)] = outcome
        if outcomes and all(isinstance(outcome, str) for outcome in outcomes):
            raise UnsupportedError("; ".join(f"{row}: {reason}" for row, reason in self.refused.items()))
        return [[] if isinstance(outcome, str) else outcome for outcome in outcomes]

    def workspace(self, on_epoch: OnEpoch) -> Workspace:
        """A workspace that stops at the deadline."""

        def until_deadline(stage: str, epoch: Epoch) -> None:
            on_epoch(stage, epoch)
            if self.deadline is not None and time.time() > self.deadline:
                raise TimeIsUpError

        return Workspace(self.folder, self.device, until_deadline, self.reuse)

    @contextmanager
    def _pool(self) -> Iterator[Callable[..., Future]]:
        """Worker processes, each with its own data and device memory; they report their epochs through a queue."""
        context = multiprocessing.get_context("spawn")
        epochs = context.Queue()
        threads = max(1, torch.get_num_threads() // self.jobs)
        numbers = context.Queue()
        for number in range(self.jobs):
            numbers.put(number)
        worker = (replace(self, on_epoch=silent), tuple(plugin_files), threads, epochs, numbers)

        def listen() -> None:
            for stage, epoch in iter(epochs.get, None):
                self.on_epoch(stage, epoch)

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        try:
            with ProcessPoolExecutor(self.jobs, context, _start, worker) as pool:
                yield pool.submit
        finally:
            epochs.put(None)
            listener.join()


@dataclass(frozen=True)
class _Task:
    """A stage to train or, without one, an experiment to evaluate, after the tasks with the indices `after`."""

    experiment: Experiment
    stage: str | None
    after: tuple[int, ...]


def _tasks(experiments: Sequence[Experiment]) -> list[_Task]:
    tasks: list[_Task] = []
    indices: dict[str, int] = {}
    for experiment in experiments:
        benchmark = experiment.configured()
        last = experiment.stage(benchmark)
        data = {split: f"{experiment.data} {benchmark.division(split)}" for split in ("train", "imputer")}
        for stage in last.all():
            if stage.key(data) not in indices:
                after = tuple(indices[need.key(data)] for need in stage.needs)
                indices[stage.key(data)] = len(tasks)
                tasks.append(_Task(experiment, stage.identity, after))
        tasks.append(_Task(experiment, None, (indices[last.key(data)],)))
    return tasks


def _run_in_order(tasks: Sequence[_Task], submit: Callable[[_Task], Future], *, at_once: int) -> dict[int, Any]:
    """The results of all tasks. A task starts when those before it are done, and evaluations before anything else, so that
    results appear as soon as they can. After a failure nothing new is started."""
    results: dict[int, Any] = {}
    running: dict[Future, int] = {}
    waiting = list(range(len(tasks)))
    while len(results) < len(tasks):
        ready = [index for index in waiting if all(need in results for need in tasks[index].after)]
        ready.sort(key=lambda index: tasks[index].stage is not None)
        for index in ready[: at_once - len(running)]:
            running[submit(tasks[index])] = index
            waiting.remove(index)
        try:
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                results[running.pop(done)] = done.result()
        except BaseException:
            for future in running:
                future.cancel()
            raise
    return results


_workspace: Workspace  # of a worker process, so that data is read once


def _start(runner: Runner, plugins: Sequence[Path], threads: int, epochs: Any, numbers: Any) -> None:
    global _workspace
    runner = replace(runner, device=device_of_job(runner.device, numbers.get()))
    torch.set_num_threads(threads)
    for plugin in plugins:
        load_plugin(plugin)
    _workspace = runner.workspace(lambda stage, epoch: epochs.put((stage, epoch)))


def _run(workspace: Workspace, experiment: Experiment, protocols: tuple[str, ...]) -> Results | str:
    """The results, or the reason why the method cannot serve the benchmark."""
    try:
        return workspace.run(experiment, protocols)
    except UnsupportedError as error:
        return str(error)


def _work(task: _Task, protocols: tuple[str, ...]) -> Results | str | None:
    if task.stage is None:
        return _run(_workspace, task.experiment, protocols)
    job = _workspace.job(task.experiment)
    (stage,) = (stage for stage in job.stage.all() if stage.identity == task.stage)
    with suppress(UnsupportedError):  # the experiment that needs the stage reports it
        if job.store.metadata(stage) is None:
            job.store.trained(stage)
    return None
