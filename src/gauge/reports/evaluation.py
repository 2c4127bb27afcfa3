"""An evaluation in words: tables for the terminal, and a page with curves that works offline, on a phone and on paper."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, isnan, nan
from typing import Any, Literal

import numpy as np
import pandas as pd

from gauge.reports.templates import compact, template

WIDTH, HEIGHT = 320.0, 250.0  # of a chart, in the units of its drawing
LEFT, RIGHT, TOP, BOTTOM = 58.0, 10.0, 10.0, 38.0  # margins for axes
MAX_CLASSES = 12  # of a confusion matrix; of more classes the most frequent confusions are listed

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
        """Return the points of a line as an SVG attribute, none of them outside of the axes."""
        _, (y0, y1) = self.limits
        step = max(1, len(line.points) // 200)  # about 200 points of a line are drawn
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
        shares = [step / 4 for step in range(5)]
        across = [(self.position(x0 + share * (x1 - x0), y0)[0], f"{x0 + share * (x1 - x0):.2g}") for share in shares]
        up = [(self.position(x0, y0 + share * (y1 - y0))[1], f"{y0 + share * (y1 - y0):.2g}") for share in shares]
        return across, up


@dataclass(frozen=True)
class TextTable:
    """A table: a title, what it says, the heads of its columns, and lines of text."""

    title: str
    note: str
    heads: Sequence[str]
    lines: Sequence[Sequence[str]]

    def __str__(self) -> str:
        table = pd.DataFrame(list(self.lines), columns=list(self.heads)).to_string(index=False)
        return f"{self.title}{': ' if self.note else ''}{self.note}\n{table}"


@dataclass(frozen=True)
class EvaluationPage:
    """The content of the page. `figures` are the numbers at the top with their intervals, `confusion` counts rows by label
    (down) and prediction (across)."""

    title: str
    lead: str
    figures: Mapping[str, tuple[str, str]]
    operating: TextTable
    confusion: TextTable
    charts: Sequence[Chart]
    tables: Sequence[TextTable]
    facts: Mapping[str, str] = field(default_factory=dict)
    caution: str = ""


def interval(value: float, low: float = nan, high: float = nan, sign: str = "") -> str:
    """Return a value with its interval, if it has one.

    >>> interval(0.5, 0.4, 0.6), interval(0.5), interval(nan)
    ('0.500 [0.400, 0.600]', '0.500', '–')
    """
    if isnan(value):
        return "–"
    return f"{value:{sign}.3f}" + ("" if isnan(low) else f" [{low:{sign}.3f}, {high:{sign}.3f}]")


def metric_name(metric: str) -> str:
    """Return what readers call a metric."""
    return "AUC" if metric == "auc" else metric.replace("_", " ")


def _beside(promise: float, value: float, low: float, high: float) -> str:
    """Return a value with its interval, and that it is below a promise where the interval excludes that."""
    return interval(value, low, high) + (f", below {promise:g}" if high < promise else "")


def _lines(frame: pd.DataFrame) -> Iterable[Any]:
    """Return the lines of a table, with a name for each cell."""
    return frame.itertuples(index=False)


def score_grid(scores: pd.DataFrame) -> TextTable:
    return TextTable(
        "Beside simpler models",
        "The same rows, by the class shares of training, the best single expert on rows held out, and boosted trees alone.",
        ("", *map(metric_name, dict.fromkeys(scores["metric"]))),
        [
            (str(name), *(interval(*cells) for cells in part[["value", "low", "high"]].to_numpy(float)))
            for name, part in scores.groupby("model", sort=False)
        ],
    )


def operating_grid(
    operating: pd.DataFrame, positive: str | None, note: str, promised: Sequence[str] | None = None
) -> TextTable:
    """Return sensitivity, specificity, PPV and NPV for the class that is looked for; one of them may have been promised."""
    promises = {} if promised is None else {promised[0]: float(promised[1])}
    lines = [
        (
            each.metric,
            _beside(promises.get(each.metric, 0.0), each.value, each.low, each.high),
            f"{each.right} of {each.of}",
        )
        for each in _lines(operating)
    ]
    return TextTable(f"Sensitivity and specificity for {positive}", note, ("", "value", "rows"), lines)


def confusion_grid(confusion: pd.DataFrame, where: str) -> TextTable:
    """Return rows by label and decision, all of them or the most frequent mistakes."""
    names, counts = [str(name) for name in confusion], confusion.to_numpy()
    if len(names) <= MAX_CLASSES:
        note = f"Rows by their label (down) and what was decided (across){where}."
        lines = [(name, *map(str, line)) for name, line in zip(names, counts.tolist(), strict=True)]
        return TextTable("Confusion matrix", note, ("", *names), lines)
    wrong = np.where(np.eye(len(names), dtype=bool), 0, counts)
    largest = np.argsort(-wrong, axis=None, kind="stable")[:10]
    order = zip(*np.unravel_index(largest, wrong.shape), strict=True)
    mistakes = [
        (names[label], names[decided], str(wrong[label, decided])) for label, decided in order if wrong[label, decided]
    ]
    note = f"{wrong.sum()} of {counts.sum()} rows are decided wrongly, of {len(names)} classes."
    return TextTable("Most frequent confusions", note, ("label", "decided as", "rows"), mistakes)


def comparison_grid(comparison: pd.DataFrame) -> TextTable:
    return TextTable(
        "Against the other model",
        "The classifier minus the other one, on the same rows; p is that of the paired test.",
        ("", "difference", "p", "test"),
        [
            (each.metric, interval(each.difference, each.low, each.high, "+"), f"{each.p:.3g}", each.test)
            for each in _lines(comparison)
        ],
    )


def parts_grid(title: str, note: str, parts: pd.DataFrame) -> TextTable:
    """Return the scores of some parts of the rows; a cell may be a value with its interval."""

    def text(cell: Any) -> str:
        return interval(*cell) if isinstance(cell, tuple) else interval(cell) if isinstance(cell, float) else str(cell)

    heads = ["", *map(metric_name, parts.columns[1:])]
    return TextTable(title, note, heads, [[text(cell) for cell in line] for line in _lines(parts)])


def coverage_grid(coverage: pd.DataFrame) -> TextTable:
    return TextTable(
        "Prediction sets",
        "The classes that a row may have: how often they hold the right one, as promised and here, how many they are, and "
        "how often the prediction is right where there is only one.",
        ("promised", "rows", "coverage", "classes", "one class", "right if one", "no class"),
        [
            (
                f"{100 * each.promised:.0f} %{', ' if each.part else ''}{each.part}",
                str(each.rows),
                _beside(each.promised, each.coverage, each.low, each.high),
                f"{each.size:.2f}",
                f"{100 * each.one_class:.0f} %",
                interval(each.one_class_right),
                f"{100 * each.no_class:.0f} %",
            )
            for each in _lines(coverage)
        ],
    )


def class_counts(classes: Sequence[Any], counts: Sequence[int]) -> str:
    if len(counts) > MAX_CLASSES:
        return f"{len(counts)} classes with {min(counts)} to {max(counts)} rows each"
    return ", ".join(f"{count} {label}" for label, count in zip(classes, counts, strict=True))


def render_evaluation(page: EvaluationPage) -> str:
    """Return the whole HTML document: it loads nothing from elsewhere, has no script, and every text is escaped."""
    box = {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": RIGHT, "top": TOP, "bottom": BOTTOM}
    return compact(template("evaluation.html").render(page=page, box=box))
