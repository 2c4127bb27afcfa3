"""`gauge reproduce`: make the tables and figures of the paper and of the documentation."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gauge.choices import pick
from gauge.cli.benchmark import compare
from gauge.cli.models import audits_of
from gauge.cli.options import Device, TimeLimit
from gauge.cli.output import progress

if TYPE_CHECKING:
    from gauge.experiments.experiment import Experiment
    from gauge.experiments.manifest import Entry, Run


def reproduce(
    name: Annotated[str | None, typer.Argument(help="A table, a figure or an experiment; `--list` shows them.")] = None,
    listed: Annotated[
        bool, typer.Option("--list", help="What exists, what it cost, and which data the rest needs.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Which results are older than the code that made them.")
    ] = False,
    data: Annotated[Path | None, typer.Option(help="Folder with the files of the benchmarks.")] = None,
    results: Annotated[Path, typer.Option(help="Folder of settings and results.")] = Path("results"),
    out: Annotated[Path, typer.Option(help="Workspaces for models, one for each benchmark.")] = Path("runs"),
    jobs: Annotated[int, typer.Option(min=1, help="How many stages to train in parallel.")] = 1,
    time_limit: TimeLimit = None,
    device: Device = None,
) -> None:
    """Run what is missing of a table or figure, and write its results, tables and figures.

    Results that exist are kept. You can interrupt it at any time: the same command continues.
    """
    if listed:
        _print_list(results)
    elif check:
        _print_ages(results)
    elif name is not None:
        _make(name, data, results, out, jobs, time_limit, device)
    else:
        raise ValueError("say what to reproduce; `gauge reproduce --list` shows what there is")


def _make(
    name: str, data: Path | None, results: Path, out: Path, jobs: int, time_limit: str | None, device: str | None
) -> None:
    from gauge.experiments.manifest import MANIFEST

    entry = pick(MANIFEST, name, "entry of the manifest")
    for run in entry.runs:
        _run(run, data, results, out, jobs, time_limit, device)
    for script in entry.scripts:
        _script(script, data, results, out)


def _run(
    name: str, data: Path | None, results: Path, out: Path, jobs: int, time_limit: str | None, device: str | None
) -> None:
    from gauge.experiments.manifest import RUNS
    from gauge.experiments.reproduce import experiments_of, saved, status

    run, workspace = RUNS[name], out / RUNS[name].benchmark
    source = None if data is None else str(data.resolve())
    if waiting := status(name, results, source).waiting:
        compare(
            waiting,
            run.protocols,
            workspace,
            results / name,
            kept=saved(name, results),
            jobs=jobs,
            time_limit=time_limit,
            device=device,
        )
    if run.audits:
        gated = [each for each in experiments_of(run, results, source) if str(each.row) in run.audited]
        _audit(run, gated, results / name, workspace, device)


def _audit(run: "Run", gated: "list[Experiment]", folder: Path, out: Path, device: str | None) -> None:
    """Audit every seed of these rows that is not audited yet, trained anew if its model is not here, and keep what was found
    beside the results."""
    from gauge.experiments.workspace import Workspace
    from gauge.training.checkpoint import write_text

    path = folder / "audit.json"
    records = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    done = {(record["method"], record["variant"], record["seed"]) for record in records}
    for each in gated:
        if (each.method, each.variant, each.seed) not in done:
            with progress() as on_epoch:
                workspace = Workspace(out, device, on_epoch)
                job = workspace.job(each)
                workspace.method(job)
            records += audits_of(job.model_path.parent, list(run.audits), None, device)
            write_text(path, "[\n" + ",\n".join(map(json.dumps, records)) + "\n]\n")


def _script(script: str, data: Path | None, results: Path, out: Path) -> None:
    if "DATA" in script and data is None:
        raise ValueError(f"{script.split()[0]} needs data; give --data DIR")
    names = {"DATA": str(data), "RESULTS": str(results), "RUNS": str(out)}
    words = shlex.split(script)
    for placeholder, value in names.items():
        words = [word.replace(placeholder, value) for word in words]
    if not Path(words[0]).is_file():
        raise ValueError(f"{words[0]} does not exist here; run this in a checkout of the repository")
    subprocess.run([sys.executable, *words], check=True)


def _print_list(results: Path) -> None:
    from gauge.experiments.manifest import DOCS, OPEN, PAPER
    from gauge.experiments.reproduce import status

    states = {
        run: status(run, results)
        for run in sorted({run for part in (PAPER, DOCS, OPEN) for e in part.values() for run in e.runs})
    }
    for title, part in (("the paper", PAPER), ("the documentation", DOCS), ("not reported yet", OPEN)):
        print(title)
        for name, entry in part.items():
            print(f"  {name:26} {entry.title}{_needs(entry)}")
    print("runs")
    for run, state in states.items():
        parts = [f"{state.expected - len(state.missing)} of {state.expected} results"]
        if state.machines:
            parts.append(f"{state.minutes:.0f} min of training on {', '.join(state.machines)}")
        if state.more is not None:
            share = "the rest" if state.machines else "all of it"
            parts.append(f"{share} takes about {state.more.minutes:.0f} min on one {state.more.machine} at most")
        elif state.missing:
            parts.append("never run here")
        print(f"  {run:26} {', '.join(parts)}{f'; needs {state.needs}' if state.missing and state.needs else ''}")


def _needs(entry: "Entry") -> str:
    return f" ({', '.join((*entry.runs, *entry.scripts))})"


def _print_ages(results: Path) -> None:
    from gauge.experiments.manifest import RUNS
    from gauge.experiments.reproduce import ages

    for run in RUNS:
        counted = ages(run, results)
        found = ", ".join(f"{count} {age}" for age, count in sorted(counted.items()))
        print(f"{run:26} {found or 'no results'}")
