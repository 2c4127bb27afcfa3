"""Where a number comes from: commit, versions and hardware."""

import os
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import torch

from gauge import __version__


@cache
def commit() -> str:
    """The commit this code stands at, with `+changes` when files differ from it; the version when it is installed."""
    if "GAUGE_COMMIT" in os.environ:  # a copy without its history
        return os.environ["GAUGE_COMMIT"]
    here = Path(__file__).parents[1]
    try:
        git = ["git", "-C", str(here)]
        tracked = subprocess.run([*git, "ls-files", "--error-unmatch", __file__], capture_output=True, check=False)
        if tracked.returncode:
            return f"gauge-ml {__version__}"
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changed = subprocess.run(
            [*git, "status", "--porcelain", "--", str(here)], capture_output=True, text=True, check=True
        )
        return head + ("+changes" if changed.stdout.strip() else "")
    except (OSError, subprocess.CalledProcessError):
        return f"gauge-ml {__version__}"


def hardware(device: torch.device) -> dict[str, Any]:
    """What it ran on."""
    facts: dict[str, Any] = {"cpu": _cpu_name(), "threads": torch.get_num_threads(), "torch": torch.__version__}
    if device.type == "cuda":
        facts["gpu"] = torch.cuda.get_device_name(device)
    return facts


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
