"""Which results of the manifest exist, what they cost, and whether the code that made them has changed."""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gauge_lab.benchmarks import BENCHMARKS, Overrides
from gauge_lab.comparison import experiment_of
from gauge_lab.experiment import Experiment, Row, distinct
from gauge_lab.manifest import Entry, Run
from gauge_lab.plans import plan_of
from gauge_lab.registry import METHODS
from gauge_lab.results import NOT_RECORDED, Result, read_results

Cell = tuple[str, int, str]
"""Row, seed and protocol of a result."""


def rows_of(chosen: Sequence[str]) -> list[Row]:
    """The rows of each `METHOD`, `METHOD:VARIANT` or `METHOD:all`; `all` are the rows of the paper's table."""
    rows = []
    for name in METHODS.names() if "all" in chosen else []:
        rows += [Row(name, variant) for variant in plan_of(name).rows]
    for row in (Row.parse(text) for text in chosen if text != "all"):
        variants = plan_of(row.method).variants if row.variant == "all" else [row.variant]
        rows += [Row(row.method, variant) for variant in variants]
    return list(dict.fromkeys(rows))


def experiments(benchmark: str, chosen: Sequence[str], seeds: int, **settings: Any) -> list[Experiment]:
    """The experiments of the chosen rows with the seeds 0, 1, ...; seed by seed, so that a run that is stopped leaves whole
    comparisons."""
    return [
        Experiment(benchmark=benchmark, seed=seed, **row._asdict(), **settings)
        for seed in range(seeds)
        for row in rows_of(chosen)
    ]


@dataclass(frozen=True)
class Status:
    """What exists of a run: all of its cells and those without a result, the experiments that would give these, the minutes
    and machines of training so far, and the files that the benchmark needs."""

    cells: tuple[Cell, ...]
    missing: tuple[Cell, ...]
    waiting: tuple[Experiment, ...]
    minutes: float
    machines: tuple[str, ...]
    files: str


@dataclass(frozen=True)
class Coverage:
    """How much exists of what an entry shows: the number of its results, the missing ones by benchmark (by run, if the entry
    shows all of its runs), and the rows of a benchmark that no run has with all seeds and protocols."""

    expected: int
    missing: Mapping[str, tuple[Cell, ...]]
    unplanned: Mapping[str, tuple[str, ...]]

    @property
    def is_complete(self) -> bool:
        return not self.missing and not self.unplanned


def settings_of(run: Run, results: Path) -> Overrides:
    if not run.settings:
        return Overrides()
    path = results / run.settings
    if not path.is_file():
        raise ValueError(
            f"the settings {path} do not exist; run this in a checkout of the repository, or give --results DIR"
        )
    return Overrides.load(path)


def experiments_of(run: Run, results: Path, data: str | None = None) -> list[Experiment]:
    """Everything that a run trains and evaluates; rows that its benchmark does not support are left out."""
    candidates = experiments(run.benchmark, run.rows, run.seeds, data=data, overrides=settings_of(run, results))
    return distinct([experiment for experiment in candidates if experiment.unsupported() is None])


def status(run: Run, results: Path, data: str | None = None) -> Status:
    experiments = experiments_of(run, results, data)
    cells = [
        (str(experiment.row), experiment.seed, protocol)
        for experiment in experiments
        for protocol in _protocols(run.benchmark, run.protocols)
    ]
    existing = saved(run, results)
    measured = {result.cell for result in existing}
    stages = {result.config["stage"]: result.config["train_seconds"] for result in existing}
    missing = tuple(cell for cell in cells if cell not in measured)
    rows = {(row, seed) for row, seed, _ in missing}
    waiting = tuple(experiment for experiment in experiments if (str(experiment.row), experiment.seed) in rows)
    return Status(
        tuple(cells),
        missing,
        waiting,
        sum(stages.values()) / 60,
        tuple(Counter(result.hardware.get("gpu") or "CPU" for result in existing)),
        BENCHMARKS.get(run.benchmark).files,
    )


def coverage(entry: Entry, runs: Mapping[str, Run], states: Mapping[str, Status]) -> Coverage:
    """How much exists of what an entry shows, given all runs and the states of its own."""
    if not entry.shows:
        missing = {name: states[name].missing for name in entry.runs if states[name].missing}
        return Coverage(sum(len(states[name].cells) for name in entry.runs), missing, {})
    expected, missing, unplanned = 0, {}, {}
    for benchmark, shown in entry.shows.items():
        own = [runs[name] for name in entry.runs if runs[name].benchmark == benchmark]
        chosen = {(row, protocol) for row in shown.rows for protocol in _protocols(benchmark, shown.protocols)}
        planned: dict[Cell, bool] = {}  # whether there is a result
        for run in own:
            for cell in states[run.name].cells:
                if cell[::2] in chosen and cell[1] < shown.seeds:
                    planned[cell] = planned.get(cell, False) or cell not in states[run.name].missing
        enough = {cell[::2] for run in own if run.seeds >= shown.seeds for cell in states[run.name].cells}
        expected += len(planned)
        if cells := tuple(cell for cell, exists in planned.items() if not exists):
            missing[benchmark] = cells
        if rows := tuple(dict.fromkeys(row for row, _ in sorted(chosen - enough))):
            unplanned[benchmark] = rows
    return Coverage(expected, missing, unplanned)


def _protocols(benchmark: str, chosen: Sequence[str]) -> tuple[str, ...]:
    return tuple(chosen) or tuple(map(str, BENCHMARKS.get(benchmark).protocols))


def saved(run: Run, results: Path) -> list[Result]:
    path = results / run.name / "results.json"
    return read_results(path) if path.is_file() else []


def ages(run: Run, results: Path, repeated: Container[tuple[str, ...]] = ()) -> Counter[str]:
    """How many results of a run were trained by the code as it is, by other code that it was seen to repeat, by other code,
    or by code that was not recorded. `repeated` are run, row, code of the training and code of today of what repeats."""

    def age(result: Result) -> str:
        recorded = result.trained.get("code", NOT_RECORDED)
        if recorded == NOT_RECORDED:
            return NOT_RECORDED
        today = code_today(experiment_of(result))
        same = (run.name, str(result.row), recorded, today) in repeated
        return "current" if recorded == today else "repeated" if same else "older"

    return Counter(map(age, saved(run, results)))


def code_today(experiment: Experiment) -> str:
    """The hash of the code that would train the experiment now."""
    return _code(experiment.model_dump_json(exclude_unset=True))


@cache
def _code(text: str) -> str:
    experiment = Experiment.model_validate_json(text)
    return experiment.stage(experiment.configured()).code
