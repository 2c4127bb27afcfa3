"""`gauge benchmark`: train and evaluate methods on a benchmark, and write its table."""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gauge.cli.options import AsJson, Device, Epochs, Plugins, TimeLimitOption, seconds
from gauge.cli.output import print_markdown
from gauge_lab.registry import BENCHMARKS, METHODS

if TYPE_CHECKING:
    from gauge_lab.experiment import Experiment
    from gauge_lab.results import Result


Name = Annotated[
    str,
    typer.Argument(help="The benchmark; `gauge list benchmarks` shows them.", autocompletion=BENCHMARKS.names),
]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        help="METHOD, METHOD:VARIANT, METHOD:all or all; may be repeated. Default: gauge.",
        autocompletion=METHODS.names,
    ),
]

Protocols = Annotated[
    list[str] | None, typer.Option("--protocol", help="Conditions to evaluate, e.g. eta=0.8; may be repeated.")
]


@dataclass(frozen=True)
class Execution:
    """Where experiments train, where their results go, and how they run."""

    workspace: Path
    save: Path
    jobs: int = 1
    time_limit: str | None = None
    device: str | None = None
    reuse: bool = False
    as_json: bool = False


def benchmark(
    name: Name,
    method: Methods = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds: 0, 1, ...")] = 1,
    protocol: Protocols = None,
    data: Annotated[Path | None, typer.Option(help="Folder with the benchmark's files, where it needs any.")] = None,
    out: Annotated[Path | None, typer.Option(help="Workspace for models and results. Default: runs/NAME.")] = None,
    config: Annotated[Path | None, typer.Option(help="YAML file with settings, e.g. 'finetune: {epochs: 20}'.")] = None,
    epochs: Epochs = None,
    save: Annotated[Path | None, typer.Option(help="Where tables and results go. Default: the workspace.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="How many stages to train in parallel, on all GPUs.")] = 1,
    time_limit: TimeLimitOption = None,
    reuse: Annotated[bool, typer.Option("--reuse", help="Use trained stages even if the code has changed.")] = False,
    plugin: Plugins = None,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Train and evaluate methods on a benchmark, print the table, save every result as JSON.

    You can interrupt it at any time: the same command continues where it stopped.
    """
    from gauge.training.settings import read_yaml
    from gauge_lab.benchmarks import BENCHMARKS, Overrides
    from gauge_lab.reproduce import experiments

    overrides = Overrides.parse(read_yaml(config), str(config)) if config else Overrides()
    if epochs is not None:
        overrides = overrides.with_epochs(epochs)
    BENCHMARKS.get(name).with_overrides(overrides)  # reports wrong names before anything is read
    folder = None if data is None else str(data.resolve())
    chosen = experiments(name, method or ["gauge"], seeds, data=folder, overrides=overrides)
    workspace = out or Path("runs") / name
    execution = Execution(workspace, save or workspace, jobs, time_limit, device, reuse, as_json)
    compare(chosen, tuple(protocol or ()), execution)


def compare(
    experiments: "Sequence[Experiment]",
    protocols: tuple[str, ...],
    execution: Execution,
    *,
    kept: "Sequence[Result]" = (),
) -> None:
    """Run the experiments and write their results together with those that are `kept`."""
    from gauge.training.progress import stage_progress
    from gauge.training.stages import silent
    from gauge_lab.experiment import distinct
    from gauge_lab.runner import Runner, TimeIsUpError

    limit = execution.time_limit
    deadline = None if limit is None else time.time() + seconds(limit)
    refused = {str(experiment.row): reason for experiment in experiments if (reason := experiment.unsupported())}
    possible = distinct([experiment for experiment in experiments if str(experiment.row) not in refused])
    if not possible:
        reasons = "; ".join(f"{row} cannot serve {experiments[0].benchmark}: {why}" for row, why in refused.items())
        raise ValueError(reasons)
    stopped = False
    with stage_progress() as on_epoch:
        runner = Runner(execution.workspace, execution.device, execution.jobs, deadline, on_epoch, execution.reuse)
        checking = runner.workspace(silent)
        for experiment in possible:
            checking.job(experiment).checked(protocols)  # all of them before any training
        try:
            results = [pair for pairs in runner.run(possible, protocols) for pair in pairs]
        except TimeIsUpError:
            stopped = True
            ready = runner.workspace(on_epoch)
            results = [pair for experiment in possible for pair in ready.finished(ready.job(experiment), protocols)]
    if results:
        new = {result.cell for result, _ in results}
        earlier: list[tuple[Result, Path | None]] = [(result, None) for result in kept if result.cell not in new]
        _report([*earlier, *results], refused | runner.refused, execution)
    if stopped:
        so_far = f"gauge: stopped after {limit}, results so far: {len(results)}"
        print(f"{so_far}; run the same command again to continue", file=sys.stderr)
        raise typer.Exit(75)  # EX_TEMPFAIL: try again


def _report(finished: "list[tuple[Result, Path | None]]", refused: dict[str, str], execution: Execution) -> None:
    """Write the results, their table in all formats and the figures, and print the table."""
    from gauge.training.checkpoint import write_text
    from gauge_lab.comparison import paired
    from gauge_lab.figures import draw_lines
    from gauge_lab.published import PUBLISHED
    from gauge_lab.recording import write_lines
    from gauge_lab.results import training_speed, write_results
    from gauge_lab.tables import result_table

    save, results = execution.save, [result for result, _ in finished]
    pairs = paired(finished)
    table = result_table(results, refused, pairs, PUBLISHED.get(results[0].benchmark))
    write_text(save / "table.md", table.markdown())
    write_text(save / "table.tex", table.latex())
    figures = {name: lines for name, lines in (("rates.svg", table.rates()), ("grids.svg", table.grids())) if lines}
    axes = {"rates.svg": "missing rate", "grids.svg": "units of an image, down and across"}
    for name, lines in figures.items():
        draw_lines(lines, table.metric, save / name, across=axes[name])
    write_results(save / "results.json", results)
    (save / "comparison.json").unlink(missing_ok=True)  # of earlier results
    if pairs:
        write_lines(save / "comparison.json", [pair.model_dump(mode="json") for pair in pairs])
    if execution.as_json:
        print(json.dumps([result.model_dump(mode="json") for result in results], indent=2))
        return
    print_markdown(table.markdown())
    print_missing(results)
    if speeds := ", ".join(f"{row} {speed:,.0f}" for row, speed in training_speed(results).items()):
        parallel = f", {execution.jobs} stages in parallel" if execution.jobs > 1 else ""
        print(f"training samples per second{parallel}: {speeds}")
    if stale := sorted({str(result.row) for result in results if result.trained.get("stale")}):
        print(f"trained by other code (--reuse): {', '.join(stale)}")
    print(f"\n{len(results)} results in {save / 'results.json'}, the table in {save / 'table.md'} (.tex)")
    for name in figures:
        print(f"against the {axes[name]}: {save / name}")


def print_missing(results: "Sequence[Result]") -> None:
    """Print the shares of values that were missing, once for every protocol."""
    for protocol, missing in {result.protocol: result.data["missing"] for result in results}.items():
        print(f"missing under {protocol}: " + ", ".join(f"{name} {100 * rate:.1f} %" for name, rate in missing.items()))
