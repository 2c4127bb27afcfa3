"""Experiments, one after the other or side by side: every stage once, as soon as all that it stands on is trained."""

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from gauge.config import Experiment
from gauge.evaluation import Result
from gauge.experiment import Workspace, plan
from gauge.training import Epoch

Found = list[tuple[Result, Path]]
OnEpoch = Callable[[str, Epoch], None]


class TimeIsUpError(Exception):
    """The time limit was reached; all finished epochs are saved."""


@dataclass(frozen=True)
class Runner:
    """How experiments run: where, on what, how many at once, and until when (seconds since the epoch of `time.time`)."""

    folder: Path
    device: str | None = None
    jobs: int = 1
    deadline: float | None = None
    on_epoch: OnEpoch = field(default=lambda stage, epoch: None)

    def run(self, experiments: Sequence[Experiment], protocols: tuple[str, ...] = ()) -> list[Found]:
        """The results of every experiment, in order. Stops with `TimeIsUpError` when there is no time for more."""
        if self.jobs == 1:
            workspace = self.workspace(self.on_epoch)
            return [workspace.run(experiment, protocols) for experiment in experiments]
        tasks = _tasks(experiments)
        with self._pool() as submit:
            found = _run_in_order(
                tasks, lambda task: submit(_work, task.experiment, task.stage, protocols), at_once=self.jobs
            )
        return [found[place] for place, task in enumerate(tasks) if task.stage is None]

    def workspace(self, on_epoch: OnEpoch) -> Workspace:
        """A workspace that stops at the deadline."""

        def heard(stage: str, epoch: Epoch) -> None:
            on_epoch(stage, epoch)
            if self.deadline is not None and time.time() > self.deadline:
                raise TimeIsUpError

        return Workspace(self.folder, self.device, heard)

    @contextmanager
    def _pool(self) -> Iterator[Callable[..., Future]]:
        """Processes of their own: each has its data and device memory, and tells of its epochs through a queue."""
        context = multiprocessing.get_context("spawn")
        told = context.Queue()
        threads = max(1, torch.get_num_threads() // self.jobs)
        worker = (self.folder, self.device, self.deadline, threads, told)

        def listen() -> None:
            for stage, epoch in iter(told.get, None):
                self.on_epoch(stage, epoch)

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        try:
            with ProcessPoolExecutor(self.jobs, context, _start, worker) as pool:
                yield pool.submit
        finally:
            told.put(None)
            listener.join()


@dataclass(frozen=True)
class _Task:
    """A stage to train, or with None the experiment to evaluate; `after` are the places of tasks to be done first."""

    experiment: Experiment
    stage: str | None
    after: tuple[int, ...]


def _tasks(experiments: Sequence[Experiment]) -> list[_Task]:
    tasks: list[_Task] = []
    places: dict[str, int] = {}
    for experiment in experiments:
        benchmark, last = plan(experiment)
        data = f"{experiment.data} {benchmark.fold}"
        for stage in last.all():
            if stage.key(data) not in places:
                after = tuple(places[need.key(data)] for need in stage.needs)
                places[stage.key(data)] = len(tasks)
                tasks.append(_Task(experiment, stage.key(""), after))
        tasks.append(_Task(experiment, None, (places[last.key(data)],)))
    return tasks


def _run_in_order(tasks: Sequence[_Task], submit: Callable[[_Task], Future], *, at_once: int) -> dict[int, Any]:
    """What each task brought; a task starts when those before it are done, evaluations before anything else, so that results
    are there as soon as they can be. The first failure lets the others finish."""
    found: dict[int, Any] = {}
    under_way: dict[Future, int] = {}
    waiting = list(range(len(tasks)))
    failure: BaseException | None = None
    while waiting or under_way:
        if failure is None:
            ready = [place for place in waiting if all(need in found for need in tasks[place].after)]
            ready.sort(key=lambda place: tasks[place].stage is not None)
            for place in ready[: at_once - len(under_way)]:
                under_way[submit(tasks[place])] = place
                waiting.remove(place)
        if not under_way:
            break
        for done in wait(under_way, return_when=FIRST_COMPLETED).done:
            place = under_way.pop(done)
            failure = failure or (None if done.cancelled() else done.exception())
            if failure is None:
                found[place] = done.result()
        if failure is not None:
            for future in under_way:
                future.cancel()
    if failure is not None:
        raise failure
    return found


_workspace: Workspace  # of this worker process, so that data is read once


def _start(folder: Path, device: str | None, deadline: float | None, threads: int, told: Any) -> None:
    global _workspace
    torch.set_num_threads(threads)
    runner = Runner(folder, device, deadline=deadline)
    _workspace = runner.workspace(lambda stage, epoch: told.put((stage, epoch)))


def _work(experiment: Experiment, stage: str | None, protocols: tuple[str, ...]) -> Found | None:
    if stage is None:
        return _workspace.run(experiment, protocols)
    benchmark, last = plan(experiment)
    train, val = (_workspace.split(benchmark, name, experiment.data) for name in ("train", "val"))
    (chosen,) = (each for each in last.all() if each.key("") == stage)
    _workspace.train(chosen, train, val)
    return None
