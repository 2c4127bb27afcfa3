"""A plugin for tests of commands: `digits`, the first samples of polymnist5k."""

from dataclasses import replace
from functools import cache

from gauge.data import Dataset
from gauge.experiments.benchmarks import BENCHMARKS
from gauge.experiments.benchmarks.polymnist5k import BENCHMARK

ROWS = {"train": 320, "val": 60, "test": 100}


@cache
def read(split: str, data: None = None) -> Dataset:
    full = BENCHMARK.read(split)
    inputs = {name: values[: ROWS[split]] for name, values in full.inputs.items()}
    return Dataset(split, inputs, full.labels[: ROWS[split]])


BENCHMARKS.register("digits", "Digits: the first samples of polymnist5k")(replace(BENCHMARK, name="digits", read=read))
