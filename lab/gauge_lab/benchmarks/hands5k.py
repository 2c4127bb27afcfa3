"""A real digit in five handwritings, from digits that come with an ordinary package; nothing to download."""

from functools import cache
from pathlib import Path

from gauge.data import Dataset
from gauge.masks import parse_protocols
from gauge_lab.benchmarks import Benchmark
from gauge_lab.benchmarks._handwritings import draw_digits, handwritings, small_networks
from gauge_lab.benchmarks.readers.polymnist import VIEWS

__all__ = ["BENCHMARK"]


@cache
def read(split: str, data: Path | None = None) -> Dataset:
    (digits,) = draw_digits(split, 1).T
    return handwritings(split, dict.fromkeys(VIEWS, digits), digits)


BENCHMARK = Benchmark(
    name="hands5k",
    **small_networks(VIEWS, epochs=6),
    num_classes=10,
    protocols=parse_protocols("complete", "eta=0.6", "eta=0.8"),
    read=read,
)
