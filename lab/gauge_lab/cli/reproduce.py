"""`gauge reproduce`: make the tables and figures of the paper and of the documentation."""

import json
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gauge.choices import pick
from gauge.cli.options import Device, TimeLimitOption
from gauge_lab.cli.benchmark import Execution, compare
from gauge_lab.cli.stage import audits_of

if TYPE_CHECKING:
    from gauge_lab.experiment import Experiment
    from gauge_lab.manifest import Manifest, Run
    from gauge_lab.reproduce import Coverage, Status


def reproduce(
    name: Annotated[str | None, typer.Argument(help="A table, a figure or an experiment; `--list` shows them.")] = None,
    listed: Annotated[
        bool, typer.Option("--list", help="What exists, what it cost, and which data the rest needs.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Which results are older than the code that made them.")
    ] = False,
    data: Annotated[Path | None, typer.Option(help="Folder with the files of the benchmarks.")] = None,
    results: Annotated[Path, typer.Option(help="Folder with the manifest, settings and results.")] = Path("results"),
    out: Annotated[Path, typer.Option(help="Workspaces for models, one for each benchmark.")] = Path("runs"),
    jobs: Annotated[int, typer.Option(min=1, help="How many stages to train in parallel.")] = 1,
    time_limit: TimeLimitOption = None,
    device: Device = None,
) -> None:
    """Run what is missing of a table or figure, and write its results, tables and figures.

    Results that exist are kept. You can interrupt it at any time: the same command continues.
    """
    from gauge_lab.manifest import Manifest

    if not (listed or check or name):
        raise ValueError("name what to reproduce; `gauge reproduce --list` shows all entries")
    manifest = Manifest.from_folder(results)
    if listed:
        _print_list(manifest, results)
    elif check:
        _print_ages(manifest, results)
    else:
        entry = pick(manifest.entries, str(name), "entry of the manifest")
        for run in entry.runs:
            _run(manifest.runs[run], data, results, out, jobs=jobs, time_limit=time_limit, device=device)
        for script in entry.scripts:
            _script(script, data, results, out)


def _run(run: "Run", data: Path | None, results: Path, out: Path, *, device: str | None, **options: Any) -> None:
    """Train and evaluate what is missing of a run, then audit it; `options` are those of `Execution`."""
    from gauge_lab.reproduce import experiments_of, saved, status

    workspace = out / run.benchmark
    source = None if data is None else str(data.resolve())
    if waiting := status(run, results, source).waiting:
        execution = Execution(workspace, results / run.name, device=device, **options)
        compare(waiting, run.protocols, execution, kept=saved(run, results))
    if run.audits:
        experiments = experiments_of(run, results, source)
        audited = [experiment for experiment in experiments if str(experiment.row) in run.audited]
        _audit(run, audited, results / run.name, workspace, device)


def _audit(run: "Run", audited: "list[Experiment]", folder: Path, out: Path, device: str | None) -> None:
    """Audit every seed of these rows that is not audited yet, trained anew if its model is not here, and write the audits
    beside the results."""
    from gauge.training.progress import stage_progress
    from gauge_lab.recording import write_lines
    from gauge_lab.workspace import Workspace

    path = folder / "audit.json"
    records = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    done = {(record["method"], record["variant"], record["seed"]) for record in records}
    for experiment in audited:
        if (experiment.method, experiment.variant, experiment.seed) not in done:
            with stage_progress() as on_epoch:
                workspace = Workspace(out, device, on_epoch)
                job = workspace.job(experiment)
                workspace.method(job)
            records += audits_of(job.model_path.parent, list(run.audits), None, device)
            write_lines(path, records)


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


def _print_list(manifest: "Manifest", results: Path) -> None:
    """Print every entry with what is missing of it, then every run with its cost."""
    from gauge_lab.reproduce import coverage, status

    states = {name: status(run, results) for name, run in manifest.runs.items()}
    for section, title in {"paper": "the paper", "docs": "the documentation", "open": "not reported yet"}.items():
        print(title)
        for name, entry in getattr(manifest, section).items():
            needs = ", ".join((*entry.runs, *entry.scripts))
            covered = f": {_completeness(coverage(entry, manifest.runs, states))}" if entry.runs else ""
            print(f"  {name:26} {entry.title} ({needs}){covered}")
    print("runs")
    for name, state in sorted(states.items()):
        print(f"  {name:26} {_progress(state)}")


def _completeness(covered: "Coverage") -> str:
    """Whether all results of an entry exist, and the rows that are missing on each benchmark."""
    if covered.is_complete:
        return "complete"
    missing = sum(map(len, covered.missing.values()))
    parts = [f"incomplete, {covered.expected - missing} of {covered.expected} results"]
    for name, cells in covered.missing.items():
        parts.append(f"missing in {name}: {_shortened(dict.fromkeys(row for row, _, _ in cells))}")
    for benchmark, rows in covered.unplanned.items():
        parts.append(f"in no run of {benchmark}: {_shortened(rows)}")
    return "; ".join(parts)


def _shortened(rows: Iterable[str]) -> str:
    max_rows = 4  # that are named of those without results
    first, rest = list(rows)[:max_rows], list(rows)[max_rows:]
    return ", ".join(first) + (f" and {len(rest)} more" if rest else "")


def _progress(state: "Status") -> str:
    """How many results of a run exist, what they took, and what the others need."""
    done = f"{len(state.cells) - len(state.missing)} of {len(state.cells)} results"
    spent = (
        f"{state.minutes:.0f} min of training on {', '.join(state.machines)}" if state.machines else "never run here"
    )
    return f"{done}, {spent}" + (f"; needs {state.files}" if state.missing and state.files else "")


def _print_ages(manifest: "Manifest", results: Path) -> None:
    from gauge_lab.reproduce import ages

    for name, run in manifest.runs.items():
        counts = ", ".join(f"{count} {age}" for age, count in sorted(ages(run, results).items()))
        print(f"{name:26} {counts or 'no results'}")
