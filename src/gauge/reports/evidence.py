"""The evidence page: which evidence was trusted in every row of a table, in one HTML file that works offline."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from math import isfinite
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from jaxtyping import UInt8
from markupsafe import Markup

from gauge.reports.templates import checksum, compact, template

ColumnKind = Literal["number", "category", "text", "image"]
State = Literal["observed", "missing"]


@dataclass(frozen=True)
class Unit:
    """One evidence unit of one row. `name` is its column, or the word or part of an image where a column has many units;
    `value` is what the model was given, as text. A `missing` unit was hidden from the model. `score` is its Taylor score in
    a network, if there is one. `used` is its signed effect on the prediction, if it was measured, `towards` the class that
    it supports most; `trusted` is the probability that it is right, if that is known, and `suggestion` what the rest of the
    row suggests."""

    column: str
    kind: ColumnKind
    name: str
    value: str
    state: State
    score: float | None = None
    used: float | None = None
    towards: str = ""
    trusted: float | None = None
    suggestion: str = ""

    @property
    def fit(self) -> str:
        """The trust in words. A value about which nothing is known has that of all values, 0.9."""
        if self.trusted is None:
            return ""
        return "does not fit" if self.trusted < 0.5 else "unusual" if self.trusted < 0.8 else "fits"

    @property
    def doubtful(self) -> bool:
        """Whether it is an observed value that does not fit the rest of the row."""
        return self.state == "observed" and self.fit == "does not fit"

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, float) and not isfinite(value):
                raise ValueError(f"{name} of unit {self.name!r} is {value}; give a finite value")


@dataclass(frozen=True, kw_only=True)
class GatedUnit(Unit):
    """A unit of a model with gates, and the attention that it got without and with them."""

    gate: float
    attention_before: float
    attention_after: float


class Gain(NamedTuple):
    """How far the log loss falls once a value is known, and the ends of the 95 % interval."""

    gain: float
    low: float
    high: float


class Advised(NamedTuple):
    """The gain that is expected of a missing value with its 95 % interval, and how probable it is that the prediction is
    right now and then."""

    gain: float
    low: float
    high: float
    now: float
    then: float

    @property
    def words(self) -> str:
        """What it means for rows such as this one."""
        now, then = round(100 * self.now), round(100 * self.then)
        if then <= now:
            return "may make the probability more certain, but hardly change the prediction"
        return f"may turn {now} right predictions in 100 into about {then}"

    def to_json(self) -> dict[str, Any]:
        return self._asdict() | {"words": self.words}


@dataclass(frozen=True)
class GridImage:
    """What the model saw of an image column, in RGB, and how many rows and columns its units form from top left."""

    pixels: UInt8[np.ndarray, "h w 3"]
    grid: tuple[int, int]


@dataclass(frozen=True)
class RowEvidence:
    """One row: the predicted class with its probability, `ungated` also without gates, and all units in the order of the
    columns. `label` is the true class, `effects` what each
    column does for the probability of the predicted class, `helpful` the missing values that are expected to help beyond
    chance, `ids` columns to recognise the row by. `plausible` are the classes of its prediction set, at a coverage of
    90 %. `votes` are the predictions of the parts of a model, `subsets` the probabilities of the predicted class from some
    columns alone."""

    title: str
    prediction: tuple[str, float]
    units: tuple[Unit, ...]
    images: Mapping[str, GridImage] = field(default_factory=dict)
    label: str | None = None
    effects: Mapping[str, float] = field(default_factory=dict)
    helpful: Mapping[str, Advised] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)
    plausible: tuple[str, ...] | None = None
    votes: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    subsets: Mapping[str, float] = field(default_factory=dict)
    ungated: tuple[str, float] | None = None

    @property
    def doubtful(self) -> list[Unit]:
        """The observed values that do not fit the rest of the row, the least trusted first."""
        return sorted((unit for unit in self.units if unit.doubtful), key=lambda unit: unit.trusted or 0.0)

    def __post_init__(self) -> None:
        if not self.units:
            raise ValueError(f"row {self.title!r} has no units; give at least one")


@dataclass(frozen=True)
class EvidencePage:
    """The content of the page. `facts` say how the model was trained, `gains` what each column is worth on rows held out, if
    that was measured, and `effects` the mean size of its effect in these rows, which is shown otherwise. `part` is what a
    column is called."""

    title: str
    lead: str
    rows: tuple[RowEvidence, ...]
    facts: Mapping[str, str] = field(default_factory=dict)
    gains: Mapping[str, Gain] = field(default_factory=dict)
    effects: Mapping[str, Gain] = field(default_factory=dict)
    part: str = "column"

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError(f"the evidence page {self.title!r} has no rows; give at least one")


def render(page: EvidencePage) -> str:
    """Return the whole HTML document: it loads nothing from elsewhere, every text is escaped, and no script runs but its
    own."""
    judged = [row.label == row.prediction[0] for row in page.rows if row.label is not None]
    script = compact(files("gauge.reports").joinpath("evidence.js").read_text("utf-8"))
    return _rendered(
        "_page.html",
        page.rows,
        part=page.part,
        page=page,
        changed=sum(_View(row).changed for row in page.rows),
        judged=len(judged),
        right=sum(judged),
        doubts=sum(len(row.doubtful) for row in page.rows),
        overview=overview(page.rows, page.gains or page.effects),
        script=Markup(script),
        checksum=Markup(checksum(script)),
    )


def render_rows(rows: Sequence[RowEvidence], part: str = "column") -> str:
    """Return the rows alone, for a notebook: their styles affect nothing else."""
    return _rendered("_fragment.html", rows, part=part)


def _rendered(layout: str, rows: Sequence[RowEvidence], **values: object) -> str:
    views = [_View(row) for row in rows]
    values |= {name: any(getattr(view, name) for view in views) for name in ("effects", "gated", "scored", "trusts")}
    values |= {"by_score": by_score, "states": get_args(State)}
    values["parts"] = "modalities" if values["part"] == "modality" else f"{values['part']}s"
    # lines of a table that are always shown
    html = template("evidence.html").render(layout=layout, views=views, fold=12, **values)
    return compact(html)


class _Column(NamedTuple):
    """All units of one column in one row. It counts as observed if one of its units does."""

    name: str
    units: list[Unit]
    kind: ColumnKind
    state: State


def _columns(row: RowEvidence) -> list[_Column]:
    columns: dict[str, list[Unit]] = {}
    for unit in row.units:
        columns.setdefault(unit.column, []).append(unit)
    return [
        _Column(name, units, units[0].kind, min((unit.state for unit in units), key=get_args(State).index))
        for name, units in columns.items()
    ]


def by_score(units: Iterable[Unit]) -> list[Unit]:
    """Return the units, the highest score first, missing ones last."""
    return sorted(units, key=lambda unit: -1.0 if unit.score is None else unit.score, reverse=True)


class _View:
    """A row as the template draws it. Its bars share one scale for each quantity, up to the largest value in the row."""

    def __init__(self, row: RowEvidence) -> None:
        def largest(name: str) -> float:
            values = [getattr(unit, name) for unit in row.units]
            return max((abs(value) for value in values if value is not None), default=0.0) or 1.0

        self.row, self.columns = row, _columns(row)
        cells = [unit for unit in row.units if unit.kind in ("number", "category")]
        self.cells = sorted(by_score(cells), key=_by_use)
        self.rich = [column for column in self.columns if column.kind not in ("number", "category")]
        self.missing = [column.name for column in self.columns if column.state == "missing"]
        self.score, self.used = largest("score"), max(largest("used"), 0.1)  # what a full bar stands for at least
        self.changed = row.ungated is not None and row.ungated[0] != row.prediction[0]
        self.gated = any(isinstance(unit, GatedUnit) for unit in row.units)
        self.scored = any(unit.score is not None for unit in row.units)
        self.effects = any(unit.used is not None for unit in row.units)
        self.trusts = any(unit.trusted is not None for unit in row.units)
        units = sorted(_whole(row) if row.votes else (*row.units, *_whole(row)), key=_by_use)  # a vote is of a modality
        min_named_effect = 0.005  # smaller effects, and gains, are not named
        moved = [unit for unit in units if abs(unit.used or 0.0) >= min_named_effect]
        max_named_values = 4  # values for and against a prediction
        self.supports = [unit for unit in moved if (unit.used or 0.0) > 0][:max_named_values]
        self.contradicts = [unit for unit in moved if (unit.used or 0.0) < 0][:max_named_values]
        columns = sorted(row.effects.items(), key=lambda item: -abs(item[1]))
        largest_effects = [(name, effect) for name, effect in columns if abs(effect) >= min_named_effect]
        if not row.effects:  # of columns; those of their words or parts may have been measured
            largest_effects = [(unit.name, unit.used or 0.0) for unit in moved]
        self.most_used = largest_effects[:2]
        self.helps = [(name, each) for name, each in row.helpful.items() if each.gain >= min_named_effect][:2]

    def shade(self, unit: Unit) -> float | None:
        """Return how far a unit is coloured: its gate or, without gates, its share of the largest score in the row."""
        if isinstance(unit, GatedUnit):
            return unit.gate
        return None if unit.score is None else unit.score / self.score

    def shades(self, column: _Column) -> list[float | None]:
        return [self.shade(unit) for unit in column.units]


def _whole(row: RowEvidence) -> list[Unit]:
    """Return one unit for each text or image whose effect was measured as a whole, and not that of its words or parts."""
    measured = set() if row.votes else {unit.column for unit in row.units if unit.used is not None}
    first = {unit.column: unit for unit in reversed(row.units)}
    return [
        replace(first[name], name=name, value="", used=effect, towards="")
        for name, effect in row.effects.items()
        if name in first and name not in measured
    ]


def _by_use(unit: Unit) -> tuple[bool, float]:
    """Missing values last, the largest effect first."""
    return unit.state == "missing", -abs(unit.used or 0.0)


def overview(rows: Sequence[RowEvidence], estimates: Mapping[str, Gain]) -> pd.DataFrame:
    """Return a line for each column, the largest effect first: its effect with a 95 % interval by these `estimates` (None if
    not measured), its doubtful values and the share of rows in each state; one without units in a row is missing there."""
    state = pd.DataFrame([{column.name: column.state for column in _columns(row)} for row in rows]).fillna("missing")
    none = Gain(np.nan, np.nan, np.nan)
    measured = pd.DataFrame({name: estimates.get(str(name), none) for name in state}, ["effect", "low", "high"]).T
    doubtful = Counter(unit.column for row in rows for unit in row.doubtful)
    means: dict[str, pd.Series] = {
        **{str(name): values for name, values in measured.items()},
        "doubtful": pd.Series({name: doubtful[str(name)] for name in state}),
        **{name: (state == name).mean() for name in get_args(State)},
    }
    lines = pd.DataFrame(means).sort_values("effect", ascending=False)
    return lines.astype(object).where(lines.notna(), None)
