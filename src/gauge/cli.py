"""The `gauge` command. Results go to stdout and files, progress to stderr; heavy imports wait until they are needed."""

import json
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gauge import __version__, cli_tables, registry
from gauge.cli_tables import Device, seconds

if TYPE_CHECKING:
    from gauge.benchmarks import Benchmark
    from gauge.config import Experiment
    from gauge.evaluation import Result
    from gauge.experiment import Workspace
    from gauge.methods.gauge import Gauge
    from gauge.parallel import Runner

app = typer.Typer(
    name="gauge",
    help="Classification from incomplete multimodal data: impute, score every piece of evidence, gate what should not "
    "be trusted. Start with `gauge demo`.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Epochs = Annotated[int | None, typer.Option(min=1, help="Train every stage for so many epochs, for a quick look.")]


def main() -> None:
    """Run the command; what a user can mend is told in one line, without a traceback."""
    signal.signal(signal.SIGINT, _stop)
    try:
        app()
    except (ValueError, FloatingPointError, OSError) as error:
        print(f"gauge: {error}", file=sys.stderr)
        sys.exit(2)


def _stop(*_: object) -> None:
    print("gauge: stopped; run the same command again to continue", file=sys.stderr)
    sys.exit(130)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"gauge-ml {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where models, results and report.html go.")] = Path("gauge-demo"),
    seed: Annotated[int, typer.Option(help="Another seed, another run.")] = 0,
    epochs: Epochs = None,
    device: Device = None,
) -> None:
    """Train on five-view digits made from real photos, compare with and without gates, write report.html.

    About three minutes on two CPU cores. What is already trained in the folder is used again.
    """
    from gauge import demo

    with _progress() as on_epoch:
        table, verdict, report = demo.run(
            out, seed=seed, overrides=_overrides("polymnist5k", epochs), device=device, on_epoch=on_epoch
        )
    _print_markdown(table)
    for sentence in verdict:
        print(f"- {sentence}")
    print(f"\nOpen {report} to see which evidence was trusted.")


for command in (cli_tables.inspect, cli_tables.fit, cli_tables.predict, cli_tables.explain):
    app.command()(command)


@app.command("list")
def list_components(
    kind: Annotated[str | None, typer.Argument(help="benchmarks, methods, imputers, encoders or scoring.")] = None,
    as_json: AsJson = False,
) -> None:
    """What there is to choose from: benchmarks, methods, imputers, encoders, scorers."""
    kinds = [kind] if kind else list(registry.KINDS)
    found = {kind: {name: registry.describe(kind, name) for name in registry.names(kind)} for kind in kinds}
    if as_json:
        print(json.dumps(found, indent=2))
        return
    for title, components in found.items():
        print(title)
        for name, description in components.items():
            print(f"  {name:14} {description}")


@app.command()
def benchmark(
    name: Annotated[str, typer.Argument(help="The benchmark; `gauge list benchmarks` shows them.")],
    method: Annotated[
        list[str] | None,
        typer.Option(help="METHOD, METHOD:VARIANT, METHOD:all or all; may be repeated. Default: gauge."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds: 0, 1, ...")] = 1,
    protocol: Annotated[
        list[str] | None, typer.Option(help="Conditions to evaluate, e.g. eta=0.8; may be repeated.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder with the benchmark's files, where it needs any.")] = None,
    out: Annotated[Path | None, typer.Option(help="Workspace for models and results. Default: runs/NAME.")] = None,
    config: Annotated[
        Path | None, typer.Option(help="YAML file with settings of stages, e.g. 'finetune: {epochs: 20}'.")
    ] = None,
    epochs: Epochs = None,
    save: Annotated[
        Path | None, typer.Option(help="Where results.json, comparison.json and table.md go. Default: the workspace.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="How many stages train side by side.")] = 1,
    time_limit: Annotated[
        str | None, typer.Option(help="Stop at a checkpoint after so long, e.g. 8m or 1h30m.")
    ] = None,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Train and evaluate methods on a benchmark, print the table, keep every result as JSON.

    Interrupt it whenever you like: the same command continues where it stopped and repeats nothing.
    """
    from gauge.config import Experiment, read_yaml
    from gauge.experiment import unsupported
    from gauge.parallel import Runner, TimeIsUpError

    deadline = None if time_limit is None else time.time() + seconds(time_limit)

    overrides = read_yaml(config) if config else {}
    registry.get("benchmarks", name).with_settings(overrides)  # mistakes in the file are told as such
    for stage, changes in _overrides(name, epochs).items():
        overrides[stage] = {**overrides.get(stage, {}), **changes}
    folder = None if data is None else str(data.resolve())
    experiments = [
        Experiment(benchmark=name, method=chosen, variant=variant, seed=seed, data=folder, overrides=overrides)
        for chosen, variant in _rows(method or ["gauge"])
        for seed in range(seeds)
    ]
    refused = {experiment.row: reason for experiment in experiments if (reason := unsupported(experiment))}
    experiments = _distinct([experiment for experiment in experiments if experiment.row not in refused])
    if not experiments:
        raise ValueError("; ".join(f"{row} cannot serve {name}: {reason}" for row, reason in refused.items()))
    workspace, protocols = out or Path("runs") / name, tuple(protocol or ())
    stopped = False
    with _progress() as on_epoch:
        runner = Runner(workspace, device, jobs, deadline, on_epoch)
        _prepare(runner, experiments, protocols)
        try:
            found = [pair for pairs in runner.run(experiments, protocols) for pair in pairs]
        except TimeIsUpError:
            stopped = True
            ready = runner.workspace(on_epoch)
            found = [pair for experiment in experiments for pair in ready.finished(experiment, protocols)]
    if found:
        _report(found, refused, save or workspace, jobs, as_json)
    if stopped:
        so_far = f"gauge: stopped after {time_limit}, results so far: {len(found)}"
        print(f"{so_far}; run the same command again to continue", file=sys.stderr)
        raise typer.Exit(75)  # EX_TEMPFAIL: try again


@app.command()
def evaluate(
    model: Annotated[Path, typer.Argument(help="Folder of a trained stage: WORKSPACE/stages/NAME.")],
    protocol: Annotated[list[str] | None, typer.Option(help="Conditions, e.g. eta=0.4; may be repeated.")] = None,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate a trained model again, under the benchmark's own or any other missingness."""
    workspace, experiment = _opened(model, device)
    results = [result for result, _ in workspace.run(experiment, tuple(protocol or ()))]
    if as_json:
        print(json.dumps([result.model_dump(mode="json") for result in results], indent=2))
        return
    for result in results:
        low, high = result.interval
        print(f"{result.protocol:14} {result.metric} {100 * result.value:.2f}  [{100 * low:.2f}, {100 * high:.2f}]")
    _print_missing(results)


@app.command()
def audit(
    model: Annotated[Path, typer.Argument(help="Folder of a trained GAUGE: WORKSPACE/stages/NAME.")],
    protocol: Annotated[list[str] | None, typer.Option(help="Conditions, e.g. eta=0.8; may be repeated.")] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="Look at so many test samples. Default: all.")] = None,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Is the evidence any good? Scores beside exact effects, gates beside the truth, and what the gates changed.

    Whether imputed content is right is judged by a classifier for each modality, trained on real values and kept.
    """
    from gauge import auditing
    from gauge.config import Experiment
    from gauge.evaluation import commit, hardware

    with _progress() as on_epoch:
        workspace, experiment, benchmark, method = _gated(model, device, on_epoch)
        single = {"method": "late_fusion", "variant": "late_fusion", "seed": 0}
        judge = workspace.method(Experiment.model_validate(experiment.model_dump() | single)).opinions
        test = workspace.split(benchmark, "test", experiment.data)
        found = [
            auditing.audit(method, test, text, judge=judge, samples=samples) for text in protocol or benchmark.protocols
        ]
    if as_json:
        origin = experiment.model_dump(mode="json", exclude={"data"})  # a path means nothing elsewhere
        origin |= {"commit": commit(), "hardware": hardware(test.device), "fingerprint": test.fingerprint}
        print(json.dumps([origin | each.as_dict() for each in found], indent=2))
        return
    for each in found:
        print("\n".join(each.lines()), end="\n\n")


@app.command()
def gates(
    model: Annotated[Path, typer.Argument(help="Folder of a trained GAUGE: WORKSPACE/stages/NAME.")],
    sample: Annotated[list[int] | None, typer.Option(min=0, help="Test samples; may be repeated. Default: 0.")] = None,
    protocol: Annotated[str | None, typer.Option(help="What is taken away, e.g. gamma=0.5. Default: nothing.")] = None,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Every unit of a test sample by its name, the column of a table or the part of a picture, with its score and gate."""
    import torch

    from gauge.explanation import explain, part_names
    from gauge.inference import masked_batches
    from gauge.masks import parse_protocol

    workspace, experiment, benchmark, method = _gated(model, device)
    test = workspace.split(benchmark, "test", experiment.data)
    names = {
        name: benchmark.modalities[name].columns or part_names(count) for name, count in method.encoder.layout.items()
    }
    chosen = torch.tensor(sample or [0])
    if int(chosen.max()) >= len(test):
        raise ValueError(f"there is no test sample {int(chosen.max())}; {benchmark.name} has 0 to {len(test) - 1}")
    (batch,) = masked_batches(test, parse_protocol(protocol or "complete"), len(chosen), chosen)
    frame = explain(method, batch).to_frame(names)
    frame["observed"] = frame["observed"].map(
        {True: "observed", False: "imputed" if method.imputer is not None else "hidden"}
    )
    if as_json:
        print(frame.to_json(orient="records", indent=2))
        return
    print(frame.rename(columns={"observed": ""}).to_string(index=False, float_format="%.3f"))


def _gated(
    model: Path, device: str | None, on_epoch: Any = lambda stage, epoch: None
) -> "tuple[Workspace, Experiment, Benchmark, Gauge]":
    """A trained GAUGE with its workspace, experiment and benchmark."""
    from gauge.experiment import plan
    from gauge.methods.gauge import Gauge

    workspace, experiment = _opened(model, device, on_epoch)
    method = workspace.method(experiment)
    if not isinstance(method, Gauge):
        raise ValueError(f"{model} holds {experiment.method}, which has no gates; give a trained gauge")
    return workspace, experiment, plan(experiment)[0], method


def _opened(
    model: Path, device: str | None, on_epoch: Any = lambda stage, epoch: None
) -> "tuple[Workspace, Experiment]":
    """The workspace that a trained method's folder lies in, and the experiment that it belongs to."""
    from gauge.config import Experiment
    from gauge.experiment import Workspace

    path = model / "experiment.json"
    if not path.is_file():
        raise ValueError(f"{model} is not the folder of a trained method (no experiment.json); see WORKSPACE/stages")
    experiment = Experiment.model_validate_json(path.read_text(encoding="utf-8"))
    workspace = Workspace(model.resolve().parent.parent, device, on_epoch)
    if workspace.model_folder(experiment) != model.resolve() or not (model / "model.safetensors").is_file():
        raise ValueError(
            f"{model} was trained by another version, with other data or settings, or has been moved; run `gauge benchmark "
            f"{experiment.benchmark} --method {experiment.method}:{experiment.variant}` to train it again"
        )
    return workspace, experiment


def _distinct(experiments: "list[Experiment]") -> "list[Experiment]":
    """Without those that would train and evaluate just what another one does: seeds of rows in which nothing varies."""
    from gauge.experiment import plan

    def identity(experiment: "Experiment") -> tuple[str, int, str]:
        benchmark, stage = plan(experiment)
        return stage.key(""), benchmark.fold, experiment.method

    found = {identity(experiment): experiment for experiment in reversed(experiments)}
    return [experiment for experiment in experiments if experiment in found.values()]


def _prepare(runner: "Runner", experiments: "list[Experiment]", protocols: tuple[str, ...]) -> None:
    """Before anything trains: what makes no sense is told, and on a CPU what it will cost."""
    workspace = runner.workspace(lambda stage, epoch: None)
    for experiment in experiments:
        workspace.checked(experiment, protocols)
    if workspace.device.type != "cpu":
        return
    cost = workspace.cost(experiments)
    if sum(cost.values()) < 60:
        return
    parts = ", ".join(f"{stage} {_duration(seconds)}" for stage, seconds in cost.items())
    print(
        f"gauge: on this CPU about {_duration(sum(cost.values()))} at most: {parts}. Patience may end a stage sooner; "
        "stop whenever you like, the same command continues. A GPU takes minutes.",
        file=sys.stderr,
    )


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _rows(chosen: list[str]) -> list[tuple[str, str]]:
    """(method, variant) of every `METHOD`, `METHOD:VARIANT`, `METHOD:all`, and of `all`: the rows of the paper's table."""
    rows = []
    for name in registry.names("methods") if "all" in chosen else []:
        rows += [(name, variant) for variant in getattr(registry.module("methods", name), "ROWS", (name,))]
    for text in (text for text in chosen if text != "all"):
        method, _, variant = text.partition(":")
        variants = registry.module("methods", method).VARIANTS
        rows += [(method, name) for name in (variants if variant == "all" else [variant or method])]
    return list(dict.fromkeys(rows))


def _overrides(benchmark: str, epochs: int | None) -> dict[str, dict[str, object]]:
    if epochs is None:
        return {}
    return {stage: {"epochs": epochs} for stage in registry.get("benchmarks", benchmark).settings}


def _report(found: "list[tuple[Result, Path]]", refused: dict[str, str], save: Path, jobs: int, as_json: bool) -> None:
    """Write the results, their table in every form and the figures, and print the table."""
    from gauge.checkpoint import write_text
    from gauge.comparison import paired
    from gauge.evaluation import write_records
    from gauge.reports.figures import draw_lines
    from gauge.reports.published import PUBLISHED
    from gauge.reports.tables import Table

    results = [result for result, _ in found]
    pairs = paired(found)
    table = Table.of(results, refused, pairs, PUBLISHED.get(results[0].benchmark))
    for ending, text in {
        "md": table.markdown(),
        "csv": table.csv(),
        "tex": table.latex(),
        "html": table.html(),
    }.items():
        write_text(save / f"table.{ending}", text)
    if rates := table.rates():
        draw_lines(rates, table.metric, save / "rates.svg")
    if grids := table.grids():
        draw_lines(grids, table.metric, save / "grids.svg", across="units of a picture, down and across")
    write_records(save / "results.json", results)
    if pairs:
        write_records(save / "comparison.json", pairs)
    else:  # one row has nothing to be compared with, and an older comparison is not its own
        (save / "comparison.json").unlink(missing_ok=True)
    if as_json:
        print(json.dumps([result.model_dump(mode="json") for result in results], indent=2))
        return
    _print_markdown(table.markdown())
    _print_missing(results)
    _print_speed(results, jobs)
    print(f"\n{len(results)} results in {save / 'results.json'}, the table in {save / 'table.md'} (.csv, .tex, .html)")
    if rates:
        print(f"against the missing rate: {save / 'rates.svg'}")
    if grids:
        print(f"against the size of the units: {save / 'grids.svg'}")


def _print_markdown(table: str) -> None:
    """As a drawn table on a terminal, as Markdown into a pipe."""
    if not sys.stdout.isatty():
        print(table)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(table))


def _print_missing(results: "list[Result]") -> None:
    """What was really missing, once for every protocol."""
    for protocol, missing in {result.protocol: result.data["missing"] for result in results}.items():
        print(f"missing under {protocol}: " + ", ".join(f"{name} {100 * rate:.1f} %" for name, rate in missing.items()))


def _print_speed(results: "list[Result]", jobs: int) -> None:
    from gauge.evaluation import training_speed

    rates = ", ".join(f"{row} {rate:,.0f}" for row, rate in training_speed(results).items())
    if rates:
        print(f"training samples per second{f', {jobs} stages side by side' if jobs > 1 else ''}: {rates}")


def _progress() -> Any:
    from gauge.progress import stage_progress

    return stage_progress()


if __name__ == "__main__":
    main()
