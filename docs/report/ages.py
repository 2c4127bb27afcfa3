"""Which results were trained by the code as it was when the tables were last written, and which by older code, which today's
repeats or not."""

import json
from collections.abc import Callable
from pathlib import Path

from gauge.training.checkpoint import write_text
from gauge_lab import reproduce
from gauge_lab.manifest import Manifest
from gauge_lab.results import NOT_RECORDED
from report.results import ROOT

FILE = Path(__file__).with_suffix(".json")
REPLAY = ROOT / "studies" / "results" / "replay.json"
NAMES = {
    "current": "current",
    "repeated": "older code, repeated",
    "older": "older code",
    NOT_RECORDED: "code not recorded",
}


def write_ages(results: Path) -> None:
    """Count the results of every run by the age of the code that trained them, as `gauge reproduce --check` does."""
    runs = Manifest.from_folder(results).runs
    lines = json.loads(REPLAY.read_text(encoding="utf-8"))
    same = [line for line in lines if line.get("weights") == line.get("probabilities") == 0]
    repeated = {(line["run"], line["row"], line["trained"], line["today"]) for line in same}
    counts = {name: dict(sorted(reproduce.ages(run, results, repeated).items())) for name, run in runs.items()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(count)}" for name, count in counts.items() if count)
    write_text(FILE, f"{{\n{lines}\n}}\n")


def ages(results: Path) -> str:
    """How many results are current, of older code, and of code that was not recorded, and the runs that they belong to."""
    counts: dict[str, dict[str, int]] = json.loads(FILE.read_text(encoding="utf-8"))
    total = sum(sum(count.values()) for count in counts.values())
    lines = ["| trained by | results | runs |", "|---" * 3 + "|"]
    for age, name in NAMES.items():
        own = {run: count[age] for run, count in counts.items() if age in count}
        runs = [
            run if number == sum(counts[run].values()) else f"{run} ({number} of {sum(counts[run].values())})"
            for run, number in own.items()
        ]
        lines.append(f"| {name} | {sum(own.values()):,} of {total:,} | {', '.join(runs) or '–'} |")
    missing = [run for run in Manifest.from_folder(results).runs if run not in counts]
    lines.append(f"| no results | | {', '.join(missing) or '–'} |")
    return "\n".join(lines) + "\n"


TABLES: dict[str, Callable[[], str]] = {"ages": lambda: ages(ROOT / "results")}
