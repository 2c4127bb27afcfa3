"""evaluate(): one method under one protocol -> a Result, with its interval and its provenance."""

import json
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from gauge.data import Dataset
from gauge.masks import Protocol, parse_protocol
from gauge.training.checkpoint import write_bytes, write_text
from gauge.training.inference import Predictions, predict_split
from gauge.training.metrics import ACCURACY, Groups, Metric, calibration_error, log_loss
from gauge.training.provenance import commit, hardware
from gauge.training.settings import MetricField
from gauge.types import Method
from gauge_lab.experiment import Experiment, Row

NOT_RECORDED: Literal["not recorded"] = "not recorded"
Share = Field(ge=0, le=1, allow_inf_nan=False)
GATES = {"gate.threshold": "τ", "gate.log_temperature": "ρ"}  # the ends of their names


class Result(BaseModel):
    """One number with its 95 % interval and its provenance. `interval` covers the sampling of the test set only, in which
    samples that share a photo or a lesion go together. `commit` is that of the evaluation, `trained` describes the training;
    `stale` there means that the code has changed since."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    benchmark: str
    method: str
    variant: str
    protocol: str
    metric: MetricField
    value: float = Share
    interval: tuple[float, float]
    calibration_error: float | Literal["not recorded"]
    log_loss: float | Literal["not recorded"]
    seed: int
    config: dict[str, Any]
    commit: str
    trained: dict[str, Any]
    hardware: dict[str, Any]
    data: dict[str, Any]
    seconds: float

    @model_validator(mode="after")
    def _value_within_interval(self) -> "Result":
        low, high = self.interval
        if not 0 <= low <= self.value <= high <= 1:
            raise ValueError(f"value {self.value} and interval [{low}, {high}] are not shares in order")
        return self

    @property
    def row(self) -> Row:
        return Row(self.method, self.variant)

    @property
    def label(self) -> str:
        """The row as tables name it. GAUGE whose gates have another rate than its network is not the paper's method, and its
        label says so; rows of the same run without gates keep their names. So does GAUGE+ from before its heads had to
        generalise, whose settings say `heads: true`."""
        rate = self.config.get("settings", {}).get("gate_rate", 1)
        learned = self.config.get("scalars", {}).get("end", {})
        has_gates = any(name.endswith(tuple(GATES)) for name in learned)
        if has_gates and rate != 1:
            return f"{self.row}, gates at {rate:g}x rate"
        joint = self.config.get("config", {}).get("heads") is True and "joint" not in self.variant
        return str(self.row) + (", joint heads" if joint else "")

    @property
    def cell(self) -> tuple[str, int, str]:
        """Where it stands in its comparison: row, seed and protocol."""
        return str(self.row), self.seed, self.protocol

    def save(self, folder: Path, predictions: Predictions) -> Path:
        """Write the result as JSON, and its predictions beside it as arrays."""
        path = folder / result_name(self, self.protocol, self.config.get("stage", ""))
        probabilities, labels = predictions.probabilities.astype(np.float32), predictions.labels
        write = partial(np.savez_compressed, probabilities=probabilities, labels=labels)
        if predictions.groups is not None:
            write = partial(write, groups=predictions.groups)
        write_bytes(path.with_suffix(".npz"), write)
        write_text(path, self.model_dump_json(indent=2) + "\n")
        return path

    @staticmethod
    def load(path: Path) -> "Result":
        try:
            return Result.model_validate_json(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(f"{path} is not a result file: {error}") from error


def write_results(path: Path, results: Sequence[Result]) -> None:
    """A JSON list with one trained model on each line: what its results share, and what each condition adds."""
    models: dict[str, list[dict[str, Any]]] = {}
    of_a_condition = ("protocol", "value", "interval", "calibration_error", "log_loss", "seconds")
    for result in results:
        shared = result.model_dump(mode="json")
        own = {name: shared.pop(name) for name in of_a_condition} | {"missing": shared["data"].pop("missing")}
        models.setdefault(json.dumps(shared), []).append(own)
    lines = ",\n".join(f'{shared[:-1]}, "results": {json.dumps(own)}}}' for shared, own in models.items())
    write_text(path, f"[\n{lines}\n]\n")


def read_results(path: Path) -> list[Result]:
    try:
        models = json.loads(path.read_text(encoding="utf-8"))
        return [
            Result.model_validate(shared | {"data": shared["data"] | {"missing": own.pop("missing")}} | own)
            for shared in models
            for own in shared.pop("results")
        ]
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"{path} is not a list of results: {error}") from error


def training_speed(results: Sequence[Result]) -> dict[str, float]:
    """Training samples per second of each row with training, the mean over its seeds. Older files do not have its rows."""
    speeds: dict[str, list[float]] = {}
    for config, row in {result.config["stage"]: (result.config, str(result.row)) for result in results}.values():
        if config["train_seconds"] and "train_rows" in config:
            speeds.setdefault(row, []).append(config["epochs"] * config["train_rows"] / config["train_seconds"])
    return {row: sum(values) / len(values) for row, values in speeds.items()}


def result_name(of: Result | Experiment, protocol: str, stage: str) -> str:
    """The unique file name of a result: experiment, protocol and trained stage."""
    parts = [of.benchmark, of.method, of.variant, f"s{of.seed}", protocol.replace("=", ""), stage[:6]]
    return "-".join(part for part in parts if part) + ".json"


def evaluate(
    method: Method,
    data: Dataset,
    protocol: Protocol | str,
    *,
    experiment: Experiment,
    metric: Metric = ACCURACY,
    details: Mapping[str, Any] | None = None,
    trained: Mapping[str, Any] | None = None,
) -> tuple[Result, Predictions]:
    """Return the metric of a method on a split under a protocol, and the predictions.

    Parameters
    ----------
    method
        A trained method.
    data
        Labelled samples.
    protocol
        What to hide, such as "complete" or "eta=0.8".
    experiment
        Benchmark, method, variant and seed, which the result names; its config holds the overrides.
    metric
        What is measured.
    details
        More for the config of the result.
    trained
        The record of the training: commit, code and hardware.

    Returns
    -------
    Result, Predictions
        What `results.json` holds, and the probabilities of all samples.
    """
    started = time.perf_counter()
    protocol = parse_protocol(protocol) if isinstance(protocol, str) else protocol
    predictions = predict_split(method, data, protocol)
    result = Result(
        benchmark=experiment.benchmark,
        method=experiment.method,
        variant=experiment.variant,
        protocol=str(protocol),
        metric=metric,
        value=predictions.score(metric),
        interval=predictions.interval(metric),
        calibration_error=calibration_error(predictions.probabilities, predictions.labels),
        log_loss=log_loss(predictions.probabilities, predictions.labels),
        seed=experiment.seed,
        config={"overrides": experiment.overrides.model_dump(mode="json", exclude_unset=True), **(details or {})},
        commit=commit(),
        trained=dict(trained or {"commit": NOT_RECORDED}),
        hardware=hardware(data.device),
        data={
            "split": data.split,
            "samples": len(data),
            "fingerprint": data.fingerprint,
            **({} if data.groups is None else {"groups": len(data.groups.unique())}),
            "missing": {modality: round(rate, 4) for modality, rate in predictions.missing.items()},
            **({"note": data.note} if data.note else {}),
        },
        seconds=round(time.perf_counter() - started, 3),
    )
    return result, predictions


def load_predictions(result: Path) -> tuple[np.ndarray, np.ndarray, Groups]:
    """The probabilities, labels and groups beside a result; nothing in the file is executed."""
    path = result.with_suffix(".npz")
    if not path.is_file():
        raise ValueError(f"the predictions of {result.name} are missing ({path.name}); evaluate it again to compare")
    with np.load(path, allow_pickle=False) as arrays:
        return arrays["probabilities"], arrays["labels"], arrays.get("groups")
