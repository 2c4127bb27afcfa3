"""The report of the demo: what was asked, what was missing and who is right most often, in one HTML file."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import UInt8

from gauge.reports.templates import template

Estimate = tuple[float, float, float]
"""A value with the ends of its 95 % interval, in percent."""


@dataclass(frozen=True)
class View:
    """One view of a sample, in RGB, as the models were given it; None where it is missing. `trust` is from 0 to 1."""

    name: str
    image: UInt8[np.ndarray, "h w c"] | None
    wrong: bool = False
    trust: float | None = None


@dataclass(frozen=True)
class Sample:
    """One test sample with its true class, and the class and probability that each method predicts."""

    title: str
    label: str
    views: tuple[View, ...]
    predictions: Mapping[str, tuple[str, float]]


@dataclass(frozen=True)
class Row:
    """One row of the results; `note` describes it in a short sentence. A featured row is highlighted."""

    name: str
    note: str
    cells: tuple[Estimate, ...]
    featured: bool = False


@dataclass(frozen=True)
class Section:
    """One question and its results: accuracy in percent under the conditions `columns`. `asked`, `missing` and `best` are a
    few words each, `text` a paragraph, `findings` sentences on what the intervals can and cannot decide.

    >>> row = Row("GAUGE+", "all votes combined", ((95.0, 93.5, 96.2),))
    >>> Section("Digits", ("complete",), (row,), "Which digit?", "nothing", "GAUGE+", "One method.").extent(0)
    (93.5, 2.7...)
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    asked: str
    missing: str
    best: str
    text: str
    samples: tuple[Sample, ...] = ()
    findings: tuple[str, ...] = ()

    def extent(self, column: int) -> tuple[float, float]:
        """Return the lowest end of a column's intervals, and the span up to the highest."""
        low, high = min(row.cells[column][1] for row in self.rows), max(row.cells[column][2] for row in self.rows)
        return low, (high - low) or 1.0

    def markdown(self) -> str:
        """Return the results as a GitHub table."""
        lines = [f"| right, % | {' | '.join(self.columns)} |", "|---" * (1 + len(self.columns)) + "|"]
        for row in self.rows:
            cells = (f"{value:.1f} [{low:.1f}, {high:.1f}]" for value, low, high in row.cells)
            lines.append(f"| {row.name} | {' | '.join(cells)} |")
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Report:
    """The content of the page. `facts`: the provenance of the numbers (commit, hardware, seed, data, time)."""

    title: str
    lead: str
    sections: tuple[Section, ...]
    facts: Mapping[str, str] = field(default_factory=dict)


def ranked(
    probabilities: Mapping[str, np.ndarray], labels: np.ndarray, compare: Callable[..., Any], where: str
) -> tuple[str, list[str]]:
    """Return which method is right most often, and sentences that compare it with every other one. `probabilities` are those
    of the classes by method, `compare` is that of a metric; `where` begins each sentence."""
    shares = {name: 100 * float((each.argmax(1) == labels).mean()) for name, each in probabilities.items()}
    first, *others = sorted(shares, key=lambda name: -shares[name])
    sentences, level = [], []
    for name in others:
        compared = compare(probabilities[name], probabilities[first], labels)
        low, high = (signed(100 * bound) for bound in compared.interval)
        if compared.p_value > 0.05:
            level.append(name)
        decided = "too close to call" if name in level else f"{first} is better"
        chance = "p < 0.001" if compared.p_value < 0.001 else f"p = {compared.p_value:.3f}"
        sentences.append(
            f"{where}, {first} minus {name}: {signed(100 * compared.difference)} of 100 (95 % from {low} to "
            f"{high}, {chance}): {decided}."
        )
    best = f"{first}: {shares[first]:.1f} of 100 right"
    if level:
        return (
            f"{best}. {' and '.join(f'{name} has {shares[name]:.1f}' for name in level)}: too close to call.",
            sentences,
        )
    return f"{best}; {', '.join(f'{name} {shares[name]:.1f}' for name in others)}.", sentences


def signed(value: float) -> str:
    """Return one decimal, with a plus or a proper minus sign.

    >>> signed(1.04), signed(-0.25)
    ('+1.0', '\u22120.2')
    """
    return f"{value:+.1f}".replace("-", "\N{MINUS SIGN}")


def render_report(report: Report) -> str:
    """Return the HTML document: it loads nothing from elsewhere, and every text is escaped."""
    return template("page.html").render(page=report)
