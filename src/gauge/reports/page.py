"""The report of the demo: what was asked, what was missing and who answered best, in one HTML file."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from jaxtyping import UInt8
from markupsafe import Markup

from gauge.reports import figures
from gauge.reports.figures import Curves, Estimate
from gauge.reports.templates import template

__all__ = ["Curves", "Estimate", "Report", "Row", "Sample", "Section", "View", "ranked", "render_report"]


@dataclass(frozen=True)
class View:
    """One view of a sample, in RGB, as the models were given it; None where it is missing. `trust` is from 0 to 1."""

    name: str
    image: UInt8[np.ndarray, "h w c"] | None
    wrong: bool = False
    trust: float | None = None

    def __post_init__(self) -> None:
        if self.image is not None:
            figures.check_image(self.image, f"the image of {self.name!r}")
        if self.trust is not None and not 0 <= self.trust <= 1:
            raise ValueError(f"the trust in {self.name!r} is {self.trust:g}; give a probability, from 0 to 1")


@dataclass(frozen=True)
class Sample:
    """One test sample with its true class, and the class and probability that each method answered."""

    title: str
    label: str
    views: tuple[View, ...]
    answers: Mapping[str, tuple[str, float]]


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
    few words each, `text` a paragraph, `findings` sentences on what the intervals can and cannot decide. Curves have the
    names of the rows they belong to.

    >>> row = Row("GAUGE+", "all answers combined", ((95.0, 93.5, 96.2),))
    >>> Section("Digits", "Which digit?", "nothing", "GAUGE+", "One method.", ("complete",), (row,)).extent(0)
    (93.5, 2.7...)
    """

    title: str
    asked: str
    missing: str
    best: str
    text: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    curves: Curves | None = None
    samples: tuple[Sample, ...] = ()
    findings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(
                    f"row {row.name!r} has {len(row.cells)} cells under {len(self.columns)} columns; give one for each"
                )
            for value, low, high in row.cells:
                if not low <= value <= high:
                    interval = f"its interval [{low:g}, {high:g}]"
                    raise ValueError(f"row {row.name!r} has {value:g} outside {interval}; give (value, low, high)")
        names = [row.name for row in self.rows]
        for name in self.curves.lines if self.curves else ():
            if name not in names:
                raise ValueError(f"the curve of {name!r} belongs to no row; rows: {', '.join(names)}")

    def extent(self, column: int) -> tuple[float, float]:
        """The lowest end of a column's intervals, and the span up to the highest."""
        low, high = min(row.cells[column][1] for row in self.rows), max(row.cells[column][2] for row in self.rows)
        return low, (high - low) or 1.0

    def markdown(self) -> str:
        """The results as a GitHub table."""
        lines = [f"| right answers, % | {' | '.join(self.columns)} |", "|---" * (1 + len(self.columns)) + "|"]
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


class Compared(Protocol):
    """The second method minus the first on the same samples, as shares."""

    @property
    def difference(self) -> float: ...
    @property
    def interval(self) -> tuple[float, float]: ...
    @property
    def p_value(self) -> float: ...


def ranked(
    answers: Mapping[str, np.ndarray], labels: np.ndarray, compare: Callable[..., Compared], where: str
) -> tuple[str, list[str]]:
    """Which method answered best, and sentences that compare it with every other one. `answers` are class probabilities by
    method; `where` begins each sentence."""
    shares = {name: 100 * float((each.argmax(1) == labels).mean()) for name, each in answers.items()}
    first, *others = sorted(shares, key=lambda name: -shares[name])
    sentences, level = [], []
    for name in others:
        compared = compare(answers[name], answers[first], labels)
        low, high = (signed(100 * bound) for bound in compared.interval)
        if compared.p_value > 0.05:
            level.append(name)
        decided = "too close to call" if name in level else f"{first} is better"
        chance = "p < 0.001" if compared.p_value < 0.001 else f"p = {compared.p_value:.3f}"
        sentences.append(
            f"{where}, {first} minus {name}: {signed(100 * compared.difference)} right answers in 100 (95 % from {low} to "
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
    """One decimal, with a plus or a proper minus sign.

    >>> signed(1.04), signed(-0.25)
    ('+1.0', '\u22120.2')
    """
    return f"{value:+.1f}".replace("-", "\N{MINUS SIGN}")


def render_report(report: Report) -> str:
    """The HTML document: it loads nothing from elsewhere, and every text is escaped."""
    charts = {number: _charts(section, number) for number, section in enumerate(report.sections) if section.curves}
    return template("page.html").render(page=report, charts=charts)


def _charts(section: Section, number: int) -> dict[str, Markup]:
    """The curves of a section for wide and narrow windows."""
    assert section.curves is not None
    rows, featured = [row.name for row in section.rows], {row.name for row in section.rows if row.featured}
    charts = {}
    for name, width in (("wide", 720), ("narrow", 350)):
        options: dict[str, Any] = {"featured": featured, "metric": "Right answers", "width": width}
        charts[name] = Markup(figures.accuracy_curve(section.curves, rows, prefix=f"{name}-{number}", **options))
    return charts
