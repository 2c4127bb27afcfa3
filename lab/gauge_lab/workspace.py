"""A workspace: a folder of trained stages and results; what is still valid in it is not computed again."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import torch

from gauge.data import Dataset
from gauge.masks import Protocol, parse_protocol
from gauge.training import checkpoint, source
from gauge.training.device import pick_device
from gauge.training.inference import predict_split
from gauge.training.stages import OnEpoch, Stage, StageStore, silent
from gauge.types import Method
from gauge_lab.benchmarks import Benchmark
from gauge_lab.experiment import Experiment
from gauge_lab.results import Result, evaluate, result_name


@cache
def evaluation_code() -> str:
    """The hash of the code that evaluates trained stages."""
    return source.digest(source.code(evaluate, predict_split))


@dataclass(frozen=True)
class Job:
    """One experiment with all that follows from it: benchmark, stages, splits and storage."""

    experiment: Experiment
    benchmark: Benchmark
    stage: Stage
    store: StageStore
    test: Dataset

    @cached_property
    def key(self) -> str:
        return self.store.key(self.stage)

    @property
    def model_path(self) -> Path:
        path = self.store.path(self.stage)
        assert path is not None
        return path

    def checked(self, protocols: Sequence[str | Protocol] = ()) -> tuple[Protocol, ...]:
        """The protocols, by default the benchmark's. One that does not fit the data is an error, as it is in the settings of
        a stage."""
        chosen = tuple(parse_protocol(str(protocol)) for protocol in protocols or self.benchmark.protocols)
        settings = [stage.settings for stage in self.stage.all()]
        for protocol in {*chosen, *(used for one in settings for used in (one.masks, *one.selection))}:
            protocol.keep(self.test.feature_counts, torch.zeros(1, dtype=torch.long))
        return chosen


@dataclass
class Workspace:
    """Where experiments run. With `reuse`, stages are used although the code that trained them has changed."""

    folder: Path
    device: torch.device | str | None = None
    on_epoch: OnEpoch = silent
    reuse: bool = False
    _splits: dict[tuple[str, str, str, str | None], Dataset] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.device = pick_device(self.device)
        self.folder = Path(self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def job(self, experiment: Experiment) -> Job:
        benchmark = experiment.configured()
        train, val, test = (self.split(benchmark, name, experiment.data) for name in ("train", "val", "test"))
        imputer = self.split(benchmark, "imputer", experiment.data) if benchmark.imputer_reads_more else None
        store = StageStore(train, val, self.folder / "stages", self.on_epoch, self.reuse, imputer)
        return Job(experiment, benchmark, experiment.stage(benchmark), store, test)

    def split(self, benchmark: Benchmark, split: str, data: str | None = None) -> Dataset:
        """A split of a benchmark on the device; it is read once."""
        key = (benchmark.name, benchmark.division("train" if split == "imputer" else split), split, data)
        if key not in self._splits:
            assert self.device is not None
            self._splits[key] = benchmark.load(split, Path(data) if data else None).to(self.device)
        return self._splits[key]

    def method(self, job: Job) -> tuple[Method, dict[str, Any]]:
        """The trained method, and the record of its training."""
        trained = job.store.trained(job.stage)
        path = job.model_path.parent / "experiment.json"
        checkpoint.write_text(path, job.experiment.model_dump_json(indent=2, exclude_unset=True) + "\n")
        assert isinstance(trained.module, Method)
        training = trained.metadata["trained"] | ({"stale": True} if trained.stale else {})
        return trained.module, {**trained.metadata, "trained": training}

    def run(self, experiment: Experiment, protocols: Sequence[str] = ()) -> list[tuple[Result, Path]]:
        """The results of the experiment under each protocol (by default the benchmark's), computed or loaded."""
        job = self.job(experiment)
        chosen = job.checked(protocols)
        results = {result.protocol: (result, path) for result, path in self.finished(job, protocols)}
        waiting = [protocol for protocol in chosen if str(protocol) not in results]
        if waiting:
            method, metadata = self.method(job)
            # `steps` and `sum_of_rates` are those until the epoch that was kept
            names = ("config", "settings", "epochs", "best", "steps", "sum_of_rates", "scalars", "train_seconds")
            details = {name: metadata.get(name) for name in (*names, "train_rows")}
            details |= {"stage": job.key, "evaluation": evaluation_code()}
            metric, trained = job.benchmark.metric, metadata["trained"]
            for protocol in waiting:
                result, predictions = evaluate(
                    method, job.test, protocol, experiment=experiment, metric=metric, details=details, trained=trained
                )
                results[str(protocol)] = result, result.save(self.folder / "results", predictions)
        return [results[str(protocol)] for protocol in chosen]

    def finished(self, job: Job, protocols: Sequence[str] = ()) -> list[tuple[Result, Path]]:
        """The results of the job that exist and belong to exactly this stage, code and test split."""
        metadata = job.store.metadata(job.stage)
        if metadata is None:
            return []
        names = [result_name(job.experiment, str(protocol), job.key) for protocol in job.checked(protocols)]
        paths = [path for path in (self.folder / "results" / name for name in names) if path.exists()]
        expected = (job.key, evaluation_code(), metadata["trained"]["code"], job.test.fingerprint)
        return [(result, path) for path in paths if _origin(result := Result.load(path)) == expected]


def _origin(result: Result) -> tuple[Any, ...]:
    config = result.config
    return config.get("stage"), config.get("evaluation"), result.trained.get("code"), result.data["fingerprint"]
