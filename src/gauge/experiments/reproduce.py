"""Which results of the manifest exist, what they cost, and whether the code that made them has changed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import mean

from gauge.experiments.benchmarks import BENCHMARKS, Overrides
from gauge.experiments.comparison import experiment_of
from gauge.experiments.experiment import Experiment, Row, distinct
from gauge.experiments.manifest import RUNS, Run
from gauge.experiments.plans import plan_of
from gauge.experiments.results import NOTHING, Result, read_results, training_speed
from gauge.registry import METHODS


def rows_of(chosen: Sequence[str]) -> list[Row]:
    """The rows of each `METHOD`, `METHOD:VARIANT` or `METHOD:all`; `all` are the rows of the paper's table."""
    rows = []
    for name in METHODS.names() if "all" in chosen else []:
        rows += [Row(name, variant) for variant in plan_of(name).rows]
    for row in (Row.parse(text) for text in chosen if text != "all"):
        variants = plan_of(row.method).variants if row.variant == "all" else [row.variant]
        rows += [Row(row.method, variant) for variant in variants]
    return list(dict.fromkeys(rows))


@dataclass(frozen=True)
class Status:
    """What is there of a run: results of how many that it has, the minutes and machines of their training, what is missing
    as (row, seed, protocol) and as experiments, and what these would take, if the benchmark has been measured."""

    expected: int
    missing: tuple[tuple[str, int, str], ...]
    waiting: tuple[Experiment, ...]
    minutes: float
    machines: tuple[str, ...]
    needs: str
    more: "Estimate | None"


@dataclass(frozen=True)
class Estimate:
    """How long all stages of a run's missing rows take on a machine that has trained rows of the benchmark, one by one."""

    minutes: float
    machine: str


def settings_of(run: Run, results: Path) -> Overrides:
    if not run.settings:
        return Overrides()
    path = results / run.settings
    if not path.is_file():
        raise ValueError(
            f"the settings {path} do not exist; run this in a checkout of the repository, or give --results"
        )
    return Overrides.load(path)


def experiments_of(run: Run, results: Path, data: str | None = None) -> list[Experiment]:
    """Everything that a run trains and evaluates; rows that its benchmark does not support are left out."""
    overrides = settings_of(run, results)
    made = [
        Experiment(
            benchmark=run.benchmark, method=row.method, variant=row.variant, seed=seed, data=data, overrides=overrides
        )
        for row in rows_of(run.rows)
        for seed in range(run.seeds)
    ]
    return distinct([experiment for experiment in made if experiment.unsupported() is None])


def status(name: str, results: Path, data: str | None = None) -> Status:
    """What is there of the run with that name."""
    run = RUNS[name]
    benchmark = BENCHMARKS.get(run.benchmark)
    protocols = run.protocols or tuple(map(str, benchmark.protocols))
    experiments = experiments_of(run, results, data)
    expected = [(str(each.row), each.seed, protocol) for each in experiments for protocol in protocols]
    existing = saved(name, results)
    found = {each.cell for each in existing}
    stages = {each.config["stage"]: each.config["train_seconds"] for each in existing}
    missing = tuple(each for each in expected if each not in found)
    rows = {(row, seed) for row, seed, _ in missing}
    waiting = tuple(each for each in experiments if (str(each.row), each.seed) in rows)
    return Status(
        len(expected),
        missing,
        waiting,
        sum(stages.values()) / 60,
        tuple(Counter(map(_machine, existing))),
        benchmark.files,
        _estimate(waiting, results),
    )


def _machine(result: Result) -> str:
    return result.hardware.get("gpu") or "CPU"


def _estimate(experiments: Sequence[Experiment], results: Path) -> Estimate | None:
    """By the mean speed of all rows of the benchmark on the machine that has trained most of them."""
    measured = _measured(experiments[0].benchmark, results) if experiments else []
    if not measured:
        return None
    machine, _ = Counter(map(_machine, measured)).most_common(1)[0]
    there = [each for each in measured if _machine(each) == machine]
    rows = max(each.config["train_rows"] for each in there)
    epochs = {
        (stage.identity, benchmark.division("train")): stage.settings.epochs
        for each in experiments
        for benchmark in [each.configured()]
        for stage in each.stage(benchmark).all()
    }
    seconds = sum(epochs.values()) * rows / mean(training_speed(there).values())
    return Estimate(seconds / 60, machine)


@cache
def _measured(benchmark: str, results: Path) -> list[Result]:
    """All results of the benchmark with training of their own; older files do not have its rows."""
    return [
        each
        for name, run in RUNS.items()
        if run.benchmark == benchmark
        for each in saved(name, results)
        if each.config["train_seconds"] and "train_rows" in each.config
    ]


def saved(name: str, results: Path) -> list[Result]:
    path = results / name / "results.json"
    return read_results(path) if path.is_file() else []


def ages(name: str, results: Path) -> Counter[str]:
    """How many results of a run were trained by the code as it is, by other code, or by code that was not recorded."""
    counted: Counter[str] = Counter()
    for result in saved(name, results):
        recorded = result.trained.get("code", NOTHING)
        if recorded == NOTHING:
            counted["not recorded"] += 1
        else:
            counted[
                "current" if recorded == _code(experiment_of(result).model_dump_json(exclude_unset=True)) else "older"
            ] += 1
    return counted


@cache
def _code(text: str) -> str:
    experiment = Experiment.model_validate_json(text)
    return experiment.stage(experiment.configured()).code
