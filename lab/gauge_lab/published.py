"""Published numbers, in percent, to show beside ours: cited, never computed here.

`published.csv` holds those of the GAUGE paper, from its tables "Comparison of incomplete-modality methods", "Ablation of
fine-grained evidence control", "Ablation of evidence-unit scoring" and "Ablation of score normalization". It took all
baselines but DyMo_c from the tables of Du et al. 2026. Its PolyMNIST has other photos than the one built here, and its
imputers other training flags: the numbers are comparable in kind, not digit for digit.

NOTE[PAPER] parts-of-tables: there are no published numbers of M3Care, MUSE and OnlineMAE for 0 < γ < 1; those in our tables
are of our own extension.

`published_elsewhere.csv` holds those that other papers report for methods which are not all built here, on the data of a
benchmark but with divisions, budgets and a choice of hyperparameters of their own.
"""

import csv
from pathlib import Path
from typing import NamedTuple

__all__ = ["ELSEWHERE", "PUBLISHED", "SOURCES", "Cited"]

SOURCES = {
    "FUML": "Duan et al. 2025, Deep Fuzzy Multi-view Learning for Reliable Classification, ICML 2025, table 2: mean and "
    "standard deviation over ten seeds, 80 % of the rows for training and 20 % for the test",
}


class Cited(NamedTuple):
    """A number that another paper reports, and which of the `SOURCES` does."""

    benchmark: str
    protocol: str
    method: str
    percent: float
    deviation: float
    source: str


def _read(path: Path) -> dict[str, dict[str, dict[str, float]]]:
    numbers: dict[str, dict[str, dict[str, float]]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for record in csv.DictReader(file):
            row = record.pop("row")
            for column, value in record.items():
                benchmark, protocol = column.split()
                if value:
                    numbers.setdefault(benchmark, {}).setdefault(row, {})[protocol] = float(value)
    return numbers


def _read_elsewhere(path: Path) -> tuple[Cited, ...]:
    with path.open(encoding="utf-8", newline="") as file:
        return tuple(
            Cited(benchmark, protocol, method, float(percent), float(deviation), source)
            for benchmark, protocol, method, percent, deviation, source in list(csv.reader(file))[1:]
        )


PUBLISHED = _read(Path(__file__).with_suffix(".csv"))
"""Percent by benchmark, row and protocol."""

ELSEWHERE = _read_elsewhere(Path(__file__).with_name("published_elsewhere.csv"))
