"""Infarction: has there been a heart attack, from three phases of a heart and 75 measures (UK Biobank)."""

from dataclasses import replace
from functools import cache
from pathlib import Path

from gauge.data import Dataset
from gauge_lab.benchmarks import Overrides, StageOverride, cad
from gauge_lab.benchmarks.readers.ukbb import read_heart

__all__ = ["BENCHMARK"]


@cache
def read(split: str, data: Path) -> Dataset:
    return read_heart("Infarction", split, data, train_rows=1_552)


BENCHMARK = replace(cad.BENCHMARK, name="infarction", read=read).with_overrides(
    Overrides(finetune=StageOverride(learning_rate=3e-4))
)
