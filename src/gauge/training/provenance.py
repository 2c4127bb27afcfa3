"""Provenance of numbers: commit, versions and hardware."""

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
    """The commit of this code, with `+changes` if files differ from it; the version if it is installed."""
    if "GAUGE_COMMIT" in os.environ:  # a copy without its history
        return os.environ["GAUGE_COMMIT"]
    folder = str(Path(__file__).parents[1])

    def git(*arguments: str) -> str:
        command = ["git", "-C", folder, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", __file__)
        return git("rev-parse", "HEAD") + ("+changes" if git("status", "--porcelain", "--", folder) else "")
    except (OSError, subprocess.CalledProcessError):
        return f"gauge-ml {__version__}"


def hardware(device: torch.device) -> dict[str, Any]:
    """The hardware and the version of torch."""
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
