"""The evidence page: which evidence was trusted in every row of a table, in one HTML file that works offline."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from jaxtyping import UInt8

from gauge.reports import figures
from gauge.reports.templates import template

Kind = Literal["number", "category", "text", "image"]
State = Literal["observed", "imputed", "missing"]
STATES: tuple[State, ...] = get_args(State)

FOLD = 12  # lines of a table that are always shown
MOST = 20  # columns in the table of absences


@dataclass(frozen=True)
class Unit:
    """One evidence unit of one row. `name` is its column, and the word or the place in the picture where a column has many
    units; `value` what the model was given there, as text. A `missing` unit was hidden from the model: it has no gate, no
    score and no attention. `effect` is the exact one, where it was asked for."""

    column: str
    kind: Kind
    name: str
    value: str
    state: State
    score: float | None
    gate: float | None
    attention_before: float
    attention_after: float
    effect: float | None = None

    def __post_init__(self) -> None:
        for field_name, allowed in (("kind", get_args(Kind)), ("state", STATES)):
            if (given := getattr(self, field_name)) not in allowed:
                raise ValueError(f"unit {self.name!r} has {field_name} {given!r}; use one of {', '.join(allowed)}")
        for field_name in ("score", "gate"):
            if (getattr(self, field_name) is None) != (self.state == "missing"):
                raise ValueError(
                    f"unit {self.name!r} is {self.state} and its {field_name} is {getattr(self, field_name)}; "
                    f"give None where a unit is missing, and a {field_name} everywhere else"
                )
        for field_name in ("score", "gate", "attention_before", "attention_after", "effect"):
            if (given := getattr(self, field_name)) is not None and not isfinite(given):
                raise ValueError(f"{field_name} of unit {self.name!r} is {given}; give a finite value")
        if self.gate is not None and not 0 <= self.gate <= 1:
            raise ValueError(
                f"the gate of unit {self.name!r} is {self.gate:g}; a gate lies between 0 and 1, so pass gates, not scores"
            )


@dataclass(frozen=True)
class Picture:
    """What the model saw of an image column, in RGB, and how many rows and columns its units form from top left."""

    pixels: UInt8[np.ndarray, "h w 3"]
    grid: tuple[int, int]

    def __post_init__(self) -> None:
        figures.check_picture(self.pixels, "the picture")


@dataclass(frozen=True)
class RowEvidence:
    """One row: the class predicted for it with its probability, without the gates and with them, and all its units in the
    order of the columns. `agreement` is the rank correlation of scores and exact effects. `label` is the true class."""

    title: str
    before: tuple[str, float]
    after: tuple[str, float]
    units: tuple[Unit, ...]
    pictures: Mapping[str, Picture] = field(default_factory=dict)
    label: str | None = None
    agreement: float | None = None

    def __post_init__(self) -> None:
        if not self.units:
            raise ValueError(f"row {self.title!r} has no units; give at least one")
        for _, probability in (self.before, self.after):
            if not 0 <= probability <= 1:
                raise ValueError(
                    f"row {self.title!r} has probability {probability:g}; it lies between 0 and 1, so give no percentages"
                )
        for column in _columns(self):
            if kinds := {unit.kind for unit in column.units} - {column.kind}:
                raise ValueError(
                    f"column {column.name!r} of row {self.title!r} has units of kind {column.kind} and {min(kinds)}; "
                    "give a column one kind"
                )
            if column.kind != "image" or column.state == "missing":
                continue
            if column.name not in self.pictures:
                raise ValueError(
                    f"row {self.title!r} has units of image column {column.name!r} but no picture of it; "
                    f"add pictures[{column.name!r}]"
                )
            height, width = self.pictures[column.name].grid
            if len(column.units) != height * width:
                raise ValueError(
                    f"image column {column.name!r} of row {self.title!r} has {len(column.units)} units but its grid is "
                    f"{height} x {width}; give one unit for each place"
                )


@dataclass(frozen=True)
class EvidencePage:
    """All that the page shows. `facts`: how it came about (model, version, date)."""

    title: str
    lead: str
    rows: tuple[RowEvidence, ...]
    facts: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError(f"the evidence page {self.title!r} has no rows; give at least one")


def render(page: EvidencePage) -> str:
    """The whole HTML document: it asks for nothing from elsewhere, and every text is shown, never run."""
    changed = [number for number, row in enumerate(page.rows, 1) if row.before[0] != row.after[0]]
    return _rendered(
        "_page.html", page.rows, page=page, changed=changed, overview=overview(page.rows), absences=absences(page.rows)
    )


def render_rows(rows: Sequence[RowEvidence]) -> str:
    """The rows alone, to stand in a notebook: their styles reach nothing outside them."""
    return _rendered("_fragment.html", rows)


def _rendered(layout: str, rows: Sequence[RowEvidence], **values: object) -> str:
    views = [_View(row) for row in rows]
    return template("evidence.html").render(
        layout=layout,
        views=views,
        effects=any(view.effects for view in views),
        by_gate=by_gate,
        states=STATES,
        fold=FOLD,
        most=MOST,
        **values,
    )


@dataclass(frozen=True)
class _Column:
    """All units of one column in one row. It counts as observed, or else as imputed, when one of its units is."""

    name: str
    units: tuple[Unit, ...]

    @property
    def kind(self) -> Kind:
        return self.units[0].kind

    @property
    def state(self) -> State:
        return min((unit.state for unit in self.units), key=STATES.index)

    @property
    def gate(self) -> float | None:
        gates = [unit.gate for unit in self.units if unit.gate is not None]
        return float(np.mean(gates)) if gates else None

    @property
    def attention_before(self) -> float:
        return sum(unit.attention_before for unit in self.units)

    @property
    def attention_after(self) -> float:
        return sum(unit.attention_after for unit in self.units)


def _columns(row: RowEvidence) -> list[_Column]:
    found: dict[str, list[Unit]] = {}
    for unit in row.units:
        found.setdefault(unit.column, []).append(unit)
    return [_Column(name, tuple(units)) for name, units in found.items()]


def by_gate(units: Iterable[Unit]) -> list[Unit]:
    """The highest gate first, missing units last."""
    return sorted(units, key=lambda unit: -1.0 if unit.gate is None else unit.gate, reverse=True)


class _View:
    """A row as the template draws it. Its bars share one scale for each quantity, up to the largest value in the row."""

    def __init__(self, row: RowEvidence) -> None:
        def largest(*names: str) -> float:
            values = [getattr(unit, name) for unit in row.units for name in names]
            return max((abs(value) for value in values if value is not None), default=0.0) or 1.0

        self.row, self.columns = row, _columns(row)
        self.cells = by_gate(unit for unit in row.units if unit.kind in ("number", "category"))
        self.rich = [column for column in self.columns if column.kind in ("text", "image")]
        self.absent = {state: [column.name for column in self.columns if column.state == state] for state in STATES[1:]}
        self.score, self.effect = largest("score"), largest("effect")
        self.attention = largest("attention_before", "attention_after")
        self.decimals = figures.three_digits(self.score)
        self.effects = any(unit.effect is not None for unit in row.units)


def _table(rows: Sequence[RowEvidence], quantity: str) -> pd.DataFrame:
    """A line for each row and a column for each column, in the order they first appear."""
    return pd.DataFrame([{column.name: getattr(column, quantity) for column in _columns(row)} for row in rows])


def overview(rows: Sequence[RowEvidence]) -> pd.DataFrame:
    """A line for each column, the highest mean gate where observed first: mean gates where observed and where imputed (None
    where it never was), the share of rows in each state, and the mean attention after gating over all rows.

    A column of many units has their mean gate and the sum of their attention; one without units in a row is missing there.
    """
    state, gate = _table(rows, "state").fillna("missing"), _table(rows, "gate").astype(float)
    means: dict[str, pd.Series] = {
        "gate_observed": gate.where(state == "observed").mean(),
        "gate_imputed": gate.where(state == "imputed").mean(),
        **{name: (state == name).mean() for name in STATES},
        "attention": _table(rows, "attention_after").fillna(0.0).mean(),
    }
    lines = pd.DataFrame(means).sort_values(["gate_observed", "gate_imputed"], ascending=False)
    return lines.astype(object).where(lines.notna(), None)


class Absence(NamedTuple):
    """Where predictions look without `column`: the mean attention after gating on every column, over the so many `rows` in
    which this one is imputed or missing."""

    column: str
    rows: int
    attention: dict[str, float]

    @property
    def largest(self) -> float:
        return max(self.attention.values())


def absences(rows: Sequence[RowEvidence]) -> list[Absence]:
    """The columns most often absent first, with the columns that get most attention first; at most `MOST` of both."""
    absent = _table(rows, "state").fillna("missing") != "observed"
    attention = _table(rows, "attention_after").fillna(0.0)
    watched = attention[attention.mean().nlargest(MOST).index]
    often = absent.sum().nlargest(MOST)

    def without(name: str) -> dict[str, float]:
        return dict(zip(watched.columns, watched[absent[name]].mean().tolist(), strict=True))

    return [Absence(str(name), int(count), without(str(name))) for name, count in often.items() if count > 0]
