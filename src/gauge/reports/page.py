"""The report: results with their intervals, and what the gates did to single samples, in one HTML file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8
from markupsafe import Markup

from gauge.reports import figures
from gauge.reports.figures import Curves, Estimate
from gauge.reports.templates import template

__all__ = ["Curves", "Estimate", "ModalityEvidence", "Report", "Row", "SampleEvidence", "render_report"]


@dataclass(frozen=True)
class ModalityEvidence:
    """One modality of one sample. Its units form a `grid` of rows and columns, counted from top left.

    `image`, in RGB, is what the model was given, imputed if not observed; `truth` is the real image, if it was hidden.
    `attention_before` and `attention_after` are from CLS, without and with the gates.
    """

    name: str
    observed: bool
    image: UInt8[np.ndarray, "h w c"]
    truth: UInt8[np.ndarray, "h w c"] | None
    grid: tuple[int, int]
    scores: Float[np.ndarray, "n"]
    gates: Float[np.ndarray, "n"]
    attention_before: Float[np.ndarray, "n"]
    attention_after: Float[np.ndarray, "n"]

    def __post_init__(self) -> None:
        for name, image in (("image", self.image), ("truth", self.truth)):
            if image is not None:
                figures.check_image(image, f"the {name} of {self.name!r}")
        rows, columns = self.grid
        for name in ("scores", "gates", "attention_before", "attention_after"):
            values = getattr(self, name)
            if values.shape != (rows * columns,):
                raise ValueError(
                    f"{name} of {self.name!r} has shape {list(values.shape)} but its grid is {rows} x {columns}; "
                    f"give one value per unit, [{rows * columns}]"
                )
            if not np.isfinite(values).all():
                raise ValueError(f"{name} of {self.name!r} holds {values[~np.isfinite(values)][0]}; give finite values")
        if not ((self.gates >= 0) & (self.gates <= 1)).all():
            raise ValueError(
                f"the gates of {self.name!r} run from {self.gates.min():g} to {self.gates.max():g}; a gate lies between 0 "
                "and 1, so pass gates, not scores"
            )


@dataclass(frozen=True)
class SampleEvidence:
    """One sample, and its predicted class with the probability, without and with the gates."""

    title: str
    label: str
    before: tuple[str, float]
    after: tuple[str, float]
    modalities: tuple[ModalityEvidence, ...]

    def largest(self, *names: str) -> float:
        """The largest absolute value of these quantities, which scales their bars; 1 if all are 0."""
        values = [getattr(modality, name) for modality in self.modalities for name in names]
        return max(float(np.abs(value).max()) for value in values) or 1.0


@dataclass(frozen=True)
class Row:
    """One row of the results; `note` describes it in a short sentence. A featured row is highlighted."""

    name: str
    note: str
    cells: tuple[Estimate, ...]
    featured: bool = False


@dataclass(frozen=True)
class Report:
    """The content of the page. `verdict`: sentences on what the intervals can and cannot decide. `facts`: the provenance
    of the numbers (commit, hardware, seed, data, time). Curves have the names of the rows they belong to.

    >>> row = Row("GAUGE", "imputed and gated", ((95.0, 93.5, 96.2),))
    >>> Report("Demo", "One method.", columns=("complete",), rows=(row,)).extent(0)
    (93.5, 2.7...)
    """

    title: str
    lead: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    curves: Curves | None = None
    samples: tuple[SampleEvidence, ...] = ()
    verdict: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    metric: str = "Accuracy"

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


def render_report(report: Report) -> str:
    """The HTML document: it loads nothing from elsewhere, and every text is escaped."""
    charts: dict[str, Markup] = {}
    if report.curves is not None:
        rows, featured = [row.name for row in report.rows], {row.name for row in report.rows if row.featured}
        for name, width in (("wide", 720), ("narrow", 350)):
            options: dict[str, Any] = {"featured": featured, "metric": report.metric, "width": width, "prefix": name}
            charts[name] = Markup(figures.accuracy_curve(report.curves, rows, **options))
    return template("page.html").render(page=report, charts=charts)
