"""Whether today's code repeats the trainings behind recorded results, so that "older code" can be told from other numbers.

    python studies/replay.py --data DIR RUN ... [--minutes 30]

Every row of a run is trained for one epoch on a few samples and predicts others, once by the commit that trained its
results and once by today's, on the same machine with the same arguments. Where weights and probabilities are
the same bit for bit, the row counts as repeated. A GPU's own code (recorded steps, its half precision) is not run here.
What is in studies/results/replay.json for today's code is not computed again.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors.torch import load_file, save_file

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "studies" / "results" / "replay.json"
SAMPLES, BATCH = 64, 16  # of each split, and of a step


def train(experiments: dict[str, Any], folder: Path) -> None:
    """Train and predict with the packages that this process imports, which may be older ones; write a file for each row."""
    from gauge.masks import parse_protocol
    from gauge.training.inference import predict_split
    from gauge_lab.experiment import Experiment
    from gauge_lab.workspace import Workspace

    torch.set_num_threads(1)
    workspace = Workspace(folder / "work", "cpu")
    for row, experiment in experiments.items():
        job = workspace.job(Experiment.model_validate(experiment))
        for split in ("train", "val", "imputer"):
            setattr(job.store, split, few(getattr(job.store, split)))
        method, _ = workspace.method(job)
        weights = {name: tensor for name, tensor in method.state_dict().items() if not name.endswith("_extra_state")}
        tensors = {f"weights.{name}": tensor.clone() for name, tensor in weights.items()}
        for protocol in {str(job.benchmark.protocols[0]), str(job.benchmark.protocols[-1])}:
            predictions = predict_split(method, few(job.test), parse_protocol(protocol))
            tensors[f"probabilities.{protocol}"] = torch.as_tensor(predictions.probabilities)
        save_file(tensors, folder / f"{row.replace(':', '-')}.safetensors")


def few(split: Any) -> Any:
    """Samples from all over a split, if there is one."""
    return split and split.take(torch.linspace(0, len(split) - 1, min(SAMPLES, len(split))).long())


def trained_by(tree: Path, experiments: dict[str, Any], folder: Path) -> dict[str, dict[str, torch.Tensor] | str]:
    """The tensors of every row, trained by the code of a checkout, or the last line of the error that it ended with."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    environment = os.environ | {"PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree / 'lab'}", "OMP_NUM_THREADS": "1"}
    task = json.dumps([experiments, str(folder)])
    done = subprocess.run(
        [sys.executable, __file__, "--train", task], env=environment, capture_output=True, text=True, check=False
    )
    files = {row: folder / f"{row.replace(':', '-')}.safetensors" for row in experiments}
    message = (done.stderr.strip().splitlines() or ["nothing was written"])[-1]
    return {row: load_file(file) if file.is_file() else message for row, file in files.items()}


def difference(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor], kind: str) -> float | str:
    """The largest difference between tensors of a kind, 0 where all bits are the same."""
    names = [{name for name in tensors if name.startswith(kind)} for tensors in (before, after)]
    if names[0] != names[1]:
        return f"only one has {', '.join(sorted(names[0] ^ names[1])[:3])}"
    if all(torch.equal(before[name], after[name]) for name in names[0]):
        return 0.0
    return max(float((before[name].double() - after[name].double()).abs().max()) for name in names[0])


def compare(before: dict[str, torch.Tensor] | str, after: dict[str, torch.Tensor] | str) -> dict[str, Any]:
    """The differences of weights and probabilities, or what went wrong."""
    if isinstance(before, str) or isinstance(after, str):
        return {
            name: each for name, each in (("error_before", before), ("error_after", after)) if isinstance(each, str)
        }
    return {kind: difference(before, after, kind) for kind in ("weights", "probabilities")}


def short(run: Any) -> dict[str, Any]:
    """The settings of a run for one epoch on few samples."""
    path = ROOT / "results" / run.settings if run.settings else None
    settings = yaml.safe_load(path.read_text(encoding="utf-8")) if path else {}
    names = {"plus", "backbone"} | {"baseline", "experts", "finetune", "imputer"} & set(settings)
    stages = {name: settings.get(name, {}) for name in names}
    short = {name: stage | {"epochs": 1, "batch_size": BATCH} for name, stage in stages.items()}
    return settings | short


def main() -> None:
    from gauge_lab import reproduce
    from gauge_lab.comparison import experiment_of
    from gauge_lab.manifest import Manifest
    from gauge_lab.recording import origin, write_lines
    from gauge_lab.results import Result

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    manifest, started = Manifest.from_folder(ROOT / "results"), time.monotonic()
    lines = json.loads(options.out.read_text(encoding="utf-8")) if options.out.is_file() else []
    done = {(line["run"], line["row"], line["trained"], line["today"]) for line in lines}
    with tempfile.TemporaryDirectory() as scratch:
        for run in (manifest.runs[name] for name in options.runs):
            groups: dict[str, dict[str, tuple[Result, str]]] = {}  # commit -> row -> a result and the code of today
            for result in reproduce.saved(run, ROOT / "results"):
                row, code, today = (
                    str(result.row),
                    result.trained.get("code"),
                    reproduce.code_today(experiment_of(result)),
                )
                if code not in (None, today) and (run.name, row, code, today) not in done:
                    groups.setdefault(result.trained["commit"], {}).setdefault(row, (result, today))
            for commit, rows in groups.items():
                if time.monotonic() - started > 60 * options.minutes:
                    return
                tree = Path(scratch) / commit
                if not tree.exists():
                    subprocess.run(
                        ["git", "worktree", "add", "--quiet", "--detach", tree, commit], cwd=ROOT, check=True
                    )
                overrides = short(run)
                experiments = {
                    row: {name: getattr(result, name) for name in ("benchmark", "method", "variant", "seed")}
                    | {"data": str(options.data.resolve()), "overrides": overrides}
                    for row, (result, _) in rows.items()
                }
                before, after = (trained_by(each, experiments, Path(scratch) / "run") for each in (tree, ROOT))
                for row, (result, today) in rows.items():
                    line = {
                        "run": run.name,
                        "row": row,
                        "trained_commit": commit,
                        "trained": result.trained["code"],
                        "today": today,
                    }
                    line |= compare(before[row], after[row])
                    print(line, flush=True)
                    lines.append(line | {"overrides": overrides} | origin(options))
                write_lines(options.out, lines)
    subprocess.run(["git", "worktree", "prune"], cwd=ROOT, check=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--train"]:
        given, place = json.loads(sys.argv[2])
        train(given, Path(place))
    else:
        main()
