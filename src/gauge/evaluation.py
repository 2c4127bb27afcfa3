"""evaluate(): one method under one protocol -> a Result that says what was measured, on what, and how it came about."""

import json
import os
import platform
import subprocess
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict

from gauge import __version__
from gauge.checkpoint import write_bytes, write_text
from gauge.config import Experiment, row_name
from gauge.data import Dataset
from gauge.inference import Predictions, predict_split
from gauge.types import Method


class Result(BaseModel):
    """One number with its 95 % interval and its provenance. `interval` covers the sampling of the test set only."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    benchmark: str
    method: str
    variant: str
    protocol: str
    metric: Literal["accuracy", "auc"]
    value: float
    interval: tuple[float, float]
    seed: int
    config: dict[str, Any]
    commit: str
    hardware: dict[str, Any]
    data: dict[str, Any]
    seconds: float

    @property
    def row(self) -> str:
        """The row of a table that it belongs to."""
        return row_name(self.method, self.variant)

    def save(self, folder: Path, predictions: Predictions) -> Path:
        """Write the result as JSON, and the predictions it came from beside it as compact arrays."""
        path = folder / result_name(self, self.protocol, self.config.get("stage", ""))
        probabilities, labels = predictions.probabilities.astype(np.float32), predictions.labels
        write_bytes(
            path.with_suffix(".npz"),
            lambda file: np.savez_compressed(file, probabilities=probabilities, labels=labels),
        )
        write_text(path, self.model_dump_json(indent=2) + "\n")
        return path

    @staticmethod
    def load(path: Path) -> "Result":
        try:
            return Result.model_validate_json(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(f"{path} is not a result file: {error}") from error


def write_records(path: Path, records: Sequence[BaseModel]) -> None:
    """A JSON list with one record on each line."""
    lines = ",\n".join(json.dumps(record.model_dump(mode="json")) for record in records)
    write_text(path, f"[\n{lines}\n]\n")


def read_results(path: Path) -> list[Result]:
    """The results of one comparison, as `gauge benchmark` leaves them."""
    try:
        return [Result.model_validate(record) for record in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is not a list of results: {error}") from error


def training_speed(results: Sequence[Result]) -> dict[str, float]:
    """Samples a second that each row was trained with, where anything was; the mean over its seeds."""
    found: dict[str, list[float]] = {}
    for config, row in {result.config["stage"]: (result.config, result.row) for result in results}.values():
        if config["train_seconds"]:
            found.setdefault(row, []).append(config["epochs"] * config["train_rows"] / config["train_seconds"])
    return {row: sum(speeds) / len(speeds) for row, speeds in found.items()}


def result_name(of: Result | Experiment, protocol: str, stage: str) -> str:
    """The file name that tells a result from every other one: what, under which protocol, and from which trained stage."""
    parts = [of.benchmark, of.method, of.variant, f"s{of.seed}", protocol.replace("=", ""), stage[:6]]
    return "-".join(part for part in parts if part) + ".json"


def evaluate(
    method: Method,
    data: Dataset,
    protocol: str,
    *,
    experiment: Experiment,
    metric: Literal["accuracy", "auc"] = "accuracy",
    details: Mapping[str, Any] | None = None,
) -> tuple[Result, Predictions]:
    """The metric of a method on a split under a protocol, and the predictions behind it.

    `experiment` says what is being measured; it stands in the result's config, together with `details`.
    """
    started = time.perf_counter()
    predictions = predict_split(method, data, protocol)
    result = Result(
        benchmark=experiment.benchmark,
        method=experiment.method,
        variant=experiment.variant,
        protocol=protocol,
        metric=metric,
        value=predictions.score(metric),
        interval=predictions.interval(metric),
        seed=experiment.seed,
        config={"overrides": experiment.overrides, **(details or {})},
        commit=commit(),
        hardware=hardware(data.device),
        data={
            "split": data.split,
            "samples": len(data),
            "fingerprint": data.fingerprint,
            "missing": {modality: round(rate, 4) for modality, rate in predictions.missing.items()},
            **({"note": data.note} if data.note else {}),
        },
        seconds=round(time.perf_counter() - started, 3),
    )
    return result, predictions


def load_predictions(result: Path) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and labels that were saved beside a result; nothing in the file is executed."""
    path = result.with_suffix(".npz")
    if not path.is_file():
        raise ValueError(f"the predictions of {result.name} are not there ({path.name}); evaluate it again to compare")
    with np.load(path, allow_pickle=False) as arrays:
        return arrays["probabilities"], arrays["labels"]


@cache
def commit() -> str:
    """The commit this code stands at, with `+changes` when files differ from it; the version when it is installed."""
    if "GAUGE_COMMIT" in os.environ:  # a copy without its history
        return os.environ["GAUGE_COMMIT"]
    here = Path(__file__).parent
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
    found: dict[str, Any] = {"cpu": _cpu_name(), "threads": torch.get_num_threads(), "torch": torch.__version__}
    if device.type == "cuda":
        found["gpu"] = torch.cuda.get_device_name(device)
    return found


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
