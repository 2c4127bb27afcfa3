"""The report: results with their intervals, and what the gates did to single samples, in one HTML file."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, UInt8
from markupsafe import Markup

from gauge.reports import figures
from gauge.reports.figures import Curves, Estimate
from gauge.reports.templates import template

__all__ = ["Curves", "Estimate", "ModalityEvidence", "Report", "Row", "SampleEvidence", "render_report"]


@dataclass(frozen=True)
class ModalityEvidence:
    """One modality of one sample. `grid`: how many rows and columns its units form, counted from top left.

    `image`, in RGB, is what the model was given, imputed when not observed; `truth` the real picture hidden from it,
    where known. `attention_before` and `attention_after` are from CLS, without and with the gates.
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
        for name in ("image", "truth"):
            image = getattr(self, name)
            if image is not None:
                figures.check_picture(image, f"the {name} of {self.name!r}")
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
                f"the gates of {self.name!r} run from {self.gates.min():g} to {self.gates.max():g}; a gate lies "
                "between 0 and 1, so pass gates, not scores"
            )


@dataclass(frozen=True)
class SampleEvidence:
    """One sample, and the class predicted for it with its probability, without the gates and with them."""

    title: str
    label: str
    before: tuple[str, float]
    after: tuple[str, float]
    modalities: tuple[ModalityEvidence, ...]

    @property
    def largest_score(self) -> float:
        return max(float(np.abs(modality.scores).max()) for modality in self.modalities) or 1.0

    @property
    def largest_attention(self) -> float:
        return max(float(max(m.attention_before.max(), m.attention_after.max())) for m in self.modalities) or 1.0

    @property
    def score_decimals(self) -> int:
        return figures.three_digits(self.largest_score)


@dataclass(frozen=True)
class Row:
    """One row of the results: `note` says in a short sentence what it is. A featured row is set apart from the rest."""

    name: str
    note: str
    cells: tuple[Estimate, ...]
    featured: bool = False


@dataclass(frozen=True)
class Report:
    """All that the page shows. `verdict`: sentences on what the intervals can and cannot decide. `facts`: how the
    numbers came about (commit, hardware, seed, data, time). Curves are named like the rows they belong to.

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
                    raise ValueError(
                        f"row {row.name!r} has {value:g} outside its interval [{low:g}, {high:g}]; "
                        "give (value, low, high)"
                    )
        names = [row.name for row in self.rows]
        for name in self.curves.lines if self.curves else ():
            if name not in names:
                raise ValueError(f"the curve of {name!r} belongs to no row; rows: {', '.join(names)}")

    def extent(self, column: int) -> tuple[float, float]:
        """Where the intervals of a column begin, and how much they span."""
        low, high = min(row.cells[column][1] for row in self.rows), max(row.cells[column][2] for row in self.rows)
        return low, (high - low) or 1.0


def render_report(report: Report) -> str:
    """The page: it asks for nothing from elsewhere, and every text of the report is shown, never run."""
    charts = {name: Markup(_chart(report, width, name)) for name, width in (("wide", 720), ("narrow", 350))}
    return template("page.html").render(page=report, charts=charts)


def _chart(report: Report, width: int, name: str) -> str:
    if report.curves is None:
        return ""
    return figures.accuracy_curve(
        report.curves,
        [row.name for row in report.rows],
        featured={row.name for row in report.rows if row.featured},
        metric=report.metric,
        width=width,
        prefix=name,
    )
