"""The page of an evaluation: scores, curves and tables in one HTML file that works offline, on a phone and on paper."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Literal

from gauge.reports.templates import template

WIDTH, HEIGHT = 320.0, 250.0  # of a chart, in the units of its drawing
LEFT, RIGHT, TOP, BOTTOM = 58.0, 10.0, 10.0, 38.0  # margins for axes
MAX_POINTS = 200  # of a line
TICKS = 4

Style = Literal["main", "second", "third", "fourth", "fifth", "sixth", "reference"]
CURVES: tuple[Style, ...] = ("main", "second", "third", "fourth", "fifth", "sixth")  # those of lines that are compared

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Line:
    """A line of a chart. `spans` are intervals in y, one for each of its points, which are then marked."""

    name: str
    points: Points
    style: Style = "main"
    spans: Points = ()

    def __post_init__(self) -> None:
        if not all(isfinite(value) for point in (*self.points, *self.spans) for value in point):
            raise ValueError(f"the line {self.name!r} has values that are not finite; leave such points out")


@dataclass(frozen=True)
class Chart:
    """Lines over axes that both start at the given limits. `note` says how to read it."""

    title: str
    note: str
    x: str
    y: str
    lines: Sequence[Line]
    limits: tuple[tuple[float, float], tuple[float, float]] = ((0.0, 1.0), (0.0, 1.0))

    def position(self, x: float, y: float) -> tuple[float, float]:
        """Where a point lies in the drawing."""
        (x0, x1), (y0, y1) = self.limits
        across = LEFT + (x - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT)
        return round(across, 1), round(HEIGHT - BOTTOM - (y - y0) / (y1 - y0) * (HEIGHT - TOP - BOTTOM), 1)

    def path(self, line: Line) -> str:
        """The points of a line as an SVG attribute, none of them outside of the axes."""
        _, (y0, y1) = self.limits
        step = max(1, len(line.points) // MAX_POINTS)
        chosen = [*line.points[::step], line.points[-1]] if line.points else []
        positions = [self.position(x, min(max(y, y0), y1)) for x, y in chosen]
        return " ".join(f"{x:g},{y:g}" for x, y in dict.fromkeys(positions))

    def marks(self, line: Line) -> Iterator[tuple[float, float, float, float]]:
        """x, y and both ends of the interval of every point, if they have one."""
        for (x, y), (low, high) in zip(line.points if line.spans else (), line.spans, strict=True):
            across, middle = self.position(x, y)
            yield across, middle, self.position(x, low)[1], self.position(x, high)[1]

    @property
    def ticks(self) -> tuple[list[tuple[float, str]], list[tuple[float, str]]]:
        """Those of both axes: where, and what to write."""
        (x0, x1), (y0, y1) = self.limits
        shares = [step / TICKS for step in range(TICKS + 1)]
        across = [(self.position(x0 + share * (x1 - x0), y0)[0], f"{x0 + share * (x1 - x0):.2g}") for share in shares]
        up = [(self.position(x0, y0 + share * (y1 - y0))[1], f"{y0 + share * (y1 - y0):.2g}") for share in shares]
        return across, up


@dataclass(frozen=True)
class Grid:
    """A table: a title, what it says, the heads of its columns, and lines of text."""

    title: str
    note: str
    heads: Sequence[str]
    lines: Sequence[Sequence[str]]


@dataclass(frozen=True)
class EvaluationPage:
    """The content of the page. `figures` are the numbers at the top with their intervals, `confusion` counts rows by label
    (down) and prediction (across)."""

    title: str
    lead: str
    figures: Mapping[str, tuple[str, str]]
    operating: Grid
    confusion: Grid
    charts: Sequence[Chart]
    tables: Sequence[Grid]
    facts: Mapping[str, str] = field(default_factory=dict)
    caution: str = ""


def render_evaluation(page: EvaluationPage) -> str:
    """The whole HTML document: it loads nothing from elsewhere, has no script, and every text is escaped."""
    box = {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": RIGHT, "top": TOP, "bottom": BOTTOM}
    return re.sub(r"\n\s+", "\n", template("evaluation.html").render(page=page, box=box))
