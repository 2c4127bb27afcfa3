"""Sums of two real digits, each in two handwritings, from digits that come with an ordinary package; nothing to download."""

from functools import cache
from pathlib import Path

from gauge.data import Dataset
from gauge.masks import parse_protocols
from gauge_lab.benchmarks import Benchmark
from gauge_lab.benchmarks._handwritings import draw_digits, handwritings, small_networks

__all__ = ["BENCHMARK"]

VIEWS = {"a0": 0, "a1": 0, "b0": 1, "b1": 1}  # name -> which of the two digits it shows


@cache
def read(split: str, data: Path | None = None) -> Dataset:
    digits = draw_digits(split, 2)
    return handwritings(split, {name: digits[:, which] for name, which in VIEWS.items()}, digits.sum(1))


BENCHMARK = Benchmark(
    name="sums5k",
    **small_networks(list(VIEWS), epochs=12),
    num_classes=19,
    protocols=parse_protocols("complete", "views=1"),
    read=read,
)
