"""What the manifest asks for and nobody has run yet, in the order of its value, with the minutes that it may take."""

from collections.abc import Callable

from gauge_lab import reproduce
from gauge_lab.manifest import Manifest
from report.results import ROOT

# entry -> minutes on one H200 with twelve trainings side by side under MPS, from the training times of earlier runs
MINUTES = {
    "regret-polysum": 10,
    "regret-celeba_match": 4,
    "regret-ham10000": 6,
    "regret-polymnist": 8,
    "ten-backbones": 1,
    "euclidean": 10,
    "scores": 8,
    "other-methods": 15,
    "normalization-trained": 3,
    "face-tables": 40,
    "leaf99-equal": 39,
}


def planned() -> str:
    """The entries of the manifest without all of their results: what to start, how many models it trains, and minutes."""
    manifest, results = Manifest.from_folder(ROOT / "results"), ROOT / "results"
    lines = ["| `gauge reproduce` | what | models to train | about, minutes |", "|---" * 4 + "|"]
    for name, minutes in MINUTES.items():
        entry = manifest.open[name]
        waiting = sum(len(reproduce.status(manifest.runs[run], results).waiting) for run in entry.runs)
        if waiting:
            lines.append(f"| `{name}` | {entry.title} | {waiting} | {minutes} |")
    return "\n".join(lines) + "\n"


TABLES: dict[str, Callable[[], str]] = {"planned": planned}
