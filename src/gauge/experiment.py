"""Runs experiments: every stage trained once, filed under the hash of all it depends on, and taken from there after."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gauge import checkpoint, registry
from gauge.benchmarks import Benchmark
from gauge.config import Experiment
from gauge.data import Dataset
from gauge.evaluation import Result, evaluate, result_name
from gauge.masks import parse_protocol
from gauge.randomness import seeded
from gauge.stages import Stage
from gauge.training import LAST, Epoch, Progress, fit, seconds_per_step, seconds_per_validation

DETAILS = (
    "config",
    "settings",
    "epochs",
    "best",
    "train_seconds",
    "train_rows",
)  # what a result tells of its trained stage

FEW_STEPS = 1000  # not worth a look at what they cost


def plan(experiment: Experiment) -> tuple[Benchmark, Stage]:
    """The benchmark with the experiment's settings, and the stage that the experiment asks for."""
    benchmark = registry.get("benchmarks", experiment.benchmark).with_settings(experiment.overrides)
    benchmark = benchmark.for_seed(experiment.seed)
    method = registry.module("methods", experiment.method)
    return benchmark, method.plan(benchmark, variant=experiment.variant, seed=experiment.seed)


def unsupported(experiment: Experiment) -> str | None:
    """Why the experiment's method cannot serve its benchmark, if it cannot."""
    benchmark = registry.get("benchmarks", experiment.benchmark).with_settings(experiment.overrides)
    asked = getattr(registry.module("methods", experiment.method), "unsupported", None)
    return asked(benchmark) if asked else None


class Workspace:
    """A folder of trained stages and results; what is in it is not computed again.

    `on_epoch(stage name, epoch)` hears of progress.
    """

    def __init__(
        self,
        folder: Path,
        device: torch.device | str | None = None,
        on_epoch: Callable[[str, Epoch], None] = lambda stage, epoch: None,
    ) -> None:
        self.folder = Path(folder)
        self.device = pick_device(device)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.on_epoch = on_epoch
        self._splits: dict[tuple[str, int, str, str | None], Dataset] = {}

    def split(self, benchmark: Benchmark, split: str, data: str | None = None) -> Dataset:
        """A split of a benchmark, on the device, read once."""
        key = (benchmark.name, benchmark.fold, split, data)
        if key not in self._splits:
            self._splits[key] = benchmark.load(split, Path(data) if data else None).to(self.device)
        return self._splits[key]

    def train(self, stage: Stage, train: Dataset, val: Dataset) -> None:
        """Make sure that the stage is trained and kept."""
        if not self.model_path(stage, train, val).exists():
            self.trained(stage, train, val)

    def trained(self, stage: Stage, train: Dataset, val: Dataset) -> Any:
        """The stage's module, trained now or at some earlier time; a fresh copy at every call."""
        needs = [self.trained(need, train, val) for need in stage.needs]
        module = _built(stage, train, needs)
        if not hasattr(module, "loss") and not hasattr(module, "prepare"):  # nothing to train
            return module.to(self.device) if isinstance(module, nn.Module) else module
        path = self.model_path(stage, train, val)
        if path.exists():
            checkpoint.load_into(module, checkpoint.load(path)[0], path)
            return module.to(self.device).eval()
        progress = Progress()
        if hasattr(module, "loss"):
            on_epoch = self.on_epoch
            progress = fit(
                module,
                train,
                val,
                settings=stage.settings,
                folder=path.parent,
                on_epoch=lambda epoch: on_epoch(stage.name, epoch),
            )
        if hasattr(module, "prepare"):
            module.to(self.device).eval().prepare(train)
        about = {"stage": stage.name, "config": json.loads(json.dumps(dict(stage.config), default=str))}
        about |= {
            "settings": stage.settings.model_dump(mode="json"),
            "epochs": progress.epoch,
            "best": progress.best_epoch,
            "train_seconds": round(sum(epoch["seconds"] for epoch in progress.history), 1),
            "train_rows": len(train),
        }
        checkpoint.save(path, module.state_dict(), about)
        (path.parent / LAST).unlink(missing_ok=True)
        return module

    def cost(self, experiments: Sequence[Experiment]) -> dict[str, float]:
        """Seconds that each stage still to be trained takes at most, from a few steps of each kind; none for few steps."""
        left: dict[str, tuple[Stage, Dataset, Dataset]] = {}
        for experiment in experiments:
            benchmark, last = plan(experiment)
            train, val = (self.split(benchmark, name, experiment.data) for name in ("train", "val"))
            for stage in last.all():
                if stage.settings.epochs and not self.model_path(stage, train, val).exists():
                    fold = f" fold {benchmark.fold}" if benchmark.folds > 1 else ""
                    left[stage.name + fold] = (stage, train, val)
        if sum(stage.settings.epochs * _steps(stage, train) for stage, train, _ in left.values()) < FEW_STEPS:
            return {}
        measured: dict[str, float] = {}  # an epoch of each kind
        for stage, train, val in left.values():
            if _kind(stage) not in measured:
                measured[_kind(stage)] = _seconds_per_epoch(stage, train, val)
        return {name: stage.settings.epochs * measured[_kind(stage)] for name, (stage, _, _) in left.items()}

    def model_path(self, stage: Stage, train: Dataset, val: Dataset) -> Path:
        """Where the trained stage is kept."""
        return self.folder / "stages" / f"{stage.name}-{_key(stage, train, val)}" / "model.safetensors"

    def model_folder(self, experiment: Experiment) -> Path:
        """Where the experiment's method is kept, trained or not."""
        benchmark, stage = plan(experiment)
        train, val = (self.split(benchmark, name, experiment.data) for name in ("train", "val"))
        return self.model_path(stage, train, val).parent

    def method(self, experiment: Experiment) -> Any:
        """The experiment's method, trained."""
        benchmark, stage = plan(experiment)
        method = self.trained(stage, *(self.split(benchmark, name, experiment.data) for name in ("train", "val")))
        path = self.model_folder(experiment) / "experiment.json"
        checkpoint.write_text(path, experiment.model_dump_json(indent=2) + "\n")
        return method

    def run(self, experiment: Experiment, protocols: tuple[str, ...] = ()) -> list[tuple[Result, Path]]:
        """The experiment's results under each protocol (the benchmark's own when none is given), computed or found."""
        benchmark, stage = plan(experiment)
        train, val, test = (self.split(benchmark, name, experiment.data) for name in ("train", "val", "test"))
        protocols = self.checked(experiment, protocols)
        found = {result.protocol: (result, path) for result, path in self.finished(experiment, protocols)}
        method = None
        for protocol in protocols:
            if protocol not in found:
                method = method or self.method(experiment)
                about = checkpoint.about(self.model_path(stage, train, val))
                result, predictions = evaluate(
                    method,
                    test,
                    protocol,
                    experiment=experiment,
                    metric=benchmark.metric,
                    details={"stage": _key(stage, train, val), **{name: about[name] for name in DETAILS}},
                )
                found[protocol] = result, result.save(self.folder / "results", predictions)
        return [found[protocol] for protocol in protocols]

    def finished(self, experiment: Experiment, protocols: tuple[str, ...] = ()) -> list[tuple[Result, Path]]:
        """Those of the experiment's results that are there and belong to this very stage and test split."""
        benchmark, stage = plan(experiment)
        train, val, test = (self.split(benchmark, name, experiment.data) for name in ("train", "val", "test"))
        key = _key(stage, train, val)
        names = [result_name(experiment, protocol, key) for protocol in self.checked(experiment, protocols)]
        paths = [path for path in (self.folder / "results" / name for name in names) if path.exists()]
        return [
            (result, path)
            for result, path in ((Result.load(path), path) for path in paths)
            if result.config.get("stage") == key and result.data["fingerprint"] == test.fingerprint
        ]

    def checked(self, experiment: Experiment, protocols: tuple[str, ...]) -> tuple[str, ...]:
        """The protocols (the benchmark's own when none is given); one that makes no sense for this data is an error, also
        one that a stage trains or selects under."""
        benchmark, stage = plan(experiment)
        layout = self.split(benchmark, "test", experiment.data).layout
        protocols = tuple(str(parse_protocol(text)) for text in protocols or benchmark.protocols)
        for text in {*protocols, *_protocols(stage)}:
            parse_protocol(text).keep(layout, torch.zeros(1, dtype=torch.long))
        return protocols


def _built(stage: Stage, train: Dataset, needs: Sequence[Any]) -> Any:
    with seeded(stage.settings.seed, "build", stage.name):
        return stage.build(train, *needs)


def _kind(stage: Stage) -> str:
    """What the time of an epoch depends on."""
    return stage.settings.model_copy(update={"seed": 0}).model_dump_json() + str(stage.config)


def _steps(stage: Stage, train: Dataset) -> int:
    return math.ceil(len(train) / stage.settings.batch_size)


def _seconds_per_epoch(stage: Stage, train: Dataset, val: Dataset) -> float:
    module = _fresh(stage, train)
    if not hasattr(module, "loss"):
        return 0.0
    steps = _steps(stage, train) * seconds_per_step(module, train, stage.settings)
    return steps + seconds_per_validation(module, val, stage.settings)


def _fresh(stage: Stage, train: Dataset) -> Any:
    """The stage's module with nothing trained, neither itself nor what it stands on."""
    return _built(stage, train, [_fresh(need, train) for need in stage.needs])


def pick_device(name: torch.device | str | None) -> torch.device:
    """The device of that name, a GPU when there is one and no name is given."""
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError as error:
        raise ValueError(f"there is no device {name!r}; use cpu, cuda or cuda:NUMBER") from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"{device} was asked for, but torch sees {torch.cuda.device_count()} GPUs; use cpu")
    return device


def _protocols(stage: Stage) -> set[str]:
    """Every protocol that a stage, or one it stands on, trains or selects under."""
    return {text for each in stage.all() for text in (each.settings.masks, *each.settings.selection)}


def _key(stage: Stage, train: Dataset, val: Dataset) -> str:
    return stage.key(f"{train.fingerprint} {val.fingerprint}")
