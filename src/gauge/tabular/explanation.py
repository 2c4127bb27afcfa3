"""Explanation: which evidence was trusted in every row of a table, as a DataFrame, as a page, and in a notebook."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy.stats import spearmanr
from torch import Tensor

from gauge.model.explain import explain, part_names
from gauge.model.gauge import Gauge
from gauge.model.scoring.exact import exact_effects
from gauge.reports.evidence import EvidencePage, Picture, RowEvidence, State, Unit, render, render_rows
from gauge.tabular.columns import Column, Words
from gauge.tabular.schema import Encoded, Schema
from gauge.training.checkpoint import write_text
from gauge.types import Batch

__all__ = ["Explanation", "Reader"]

TITLE = "Row "
SHOWN = 20  # rows in a notebook; a page has them all


@dataclass(frozen=True, repr=False)
class Explanation:
    """The evidence of some rows: `explanation[3]` is that of one, `explanation[:5]` of five; `rows` holds the values."""

    rows: tuple[RowEvidence, ...]
    facts: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Explanation of {len(self)} rows: to_frame(), to_html(path), [row]>"

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int | slice) -> "Explanation":
        chosen = self.rows[place] if isinstance(place, slice) else (self.rows[place],)
        return Explanation(chosen, self.facts)

    def __iter__(self) -> Iterator["Explanation"]:
        return (self[place] for place in range(len(self)))

    def to_frame(self) -> pd.DataFrame:
        """One line for every unit of every row."""
        lines = []
        for row in self.rows:
            answer = {
                "row": row.title.removeprefix(TITLE),
                "label": row.label,
                "prediction": row.after[0],
                "probability": row.after[1],
            }
            ungated = {"prediction_ungated": row.before[0], "probability_ungated": row.before[1]}
            lines += [{**answer, **ungated, **asdict(unit)} for unit in row.units]
        return pd.DataFrame(lines)

    def to_html(self, path: str | Path) -> None:
        """One file that works offline: a summary over all rows, then every row."""
        page = EvidencePage(
            "Which evidence was trusted?",
            f"Predicting {self.facts.get('Predicts', 'the label')}. Every value, word and part of a picture has a gate: how "
            "much of it the prediction could use.",
            self.rows,
            self.facts,
        )
        write_text(Path(path), render(page))

    def _repr_html_(self) -> str:
        return render_rows(self.rows[:SHOWN])


class Part(NamedTuple):
    """What a unit stands for: its column, its name there, its value in words, and whether that was observed."""

    column: Column
    name: str
    value: str
    observed: bool


@dataclass(frozen=True)
class Reader:
    """Puts what a model made of its units into words. `prior` is its answer to a row without any value."""

    schema: Schema
    model: Gauge
    classes: Sequence[Any]
    prior: np.ndarray

    def rows(
        self, frame: pd.DataFrame, encoded: Encoded, *, labels: Sequence[str] | None = None, exact: bool = False
    ) -> tuple[RowEvidence, ...]:
        """The evidence of all rows, in their order; `exact` adds what leaving a unit out would really do."""
        found: dict[int, RowEvidence] = {}
        for batch in encoded.batches(next(self.model.parameters()).device):
            rows = self._batch(frame, batch, exact=exact)
            found |= dict(zip(batch.index.tolist(), rows, strict=True))
        for row in np.flatnonzero(encoded.empty).tolist():
            answer = str(self.classes[int(self.prior.argmax())]), float(self.prior.max())
            units = tuple(_missing(column) for column in self.schema.columns)
            found[row] = RowEvidence(f"{TITLE}{frame.index[row]}", answer, answer, units)
        if labels is not None:
            found = {row: replace(evidence, label=labels[row]) for row, evidence in found.items()}
        return tuple(found[row] for row in range(len(frame)))

    def _batch(self, frame: pd.DataFrame, batch: Batch, *, exact: bool) -> list[RowEvidence]:
        found = explain(self.model, batch)
        measured = [found.evidence.scores, found.gates, found.attention_before, found.attention_after]
        if exact:
            reference = self.model.reference(found.units)
            measured.append(exact_effects(found.classifier, found.units.tokens, reference=reference))
        numbers = torch.stack(measured, 2).double().cpu().numpy()
        before, after = self._answers(found.evidence.logits), self._answers(found.logits)
        completed, observed = (
            {name: values.cpu().numpy() for name, values in each.items()}
            for each in (found.completed.inputs, batch.observed)
        )
        rows = []
        for place, row in enumerate(batch.index.tolist()):
            values, flags = ({name: each[place] for name, each in part.items()} for part in (completed, observed))
            units = self._units(self._parts(frame.iloc[row], values, flags), numbers[place])
            pictures = self._pictures(values, flags)
            title, agreement = f"{TITLE}{frame.index[row]}", _agreement(units) if exact else None
            rows.append(RowEvidence(title, before[place], after[place], units, pictures, agreement=agreement))
        return rows

    def _answers(self, logits: Tensor) -> list[tuple[str, float]]:
        chances, places = logits.double().softmax(1).max(1)
        return [
            (str(self.classes[place]), chance) for place, chance in zip(places.tolist(), chances.tolist(), strict=True)
        ]

    def _parts(
        self, row: pd.Series, values: Mapping[str, np.ndarray], observed: Mapping[str, np.ndarray]
    ) -> list[Part | None]:
        """What every unit stands for, in the order of the units; None for the blank end of a text."""
        parts: list[Part | None] = []
        for modality, (first, *_) in self.schema.modalities.items():
            there, given, count = observed[modality], values[modality], self.model.encoder.layout[modality]
            if modality == "table":
                columns = self.schema.table
                words = [
                    _shown(row[column.name]) if flag else column.decode(float(value))
                    for column, value, flag in zip(columns, given, there, strict=True)
                ]
                mine = [Part(c, c.name, word, bool(flag)) for c, word, flag in zip(columns, words, there, strict=True)]
            elif isinstance(first, Words):
                words = first.split(str(row[first.name])) if there else first.decode(given.tolist())
                mine = [Part(first, word, word, bool(there)) for word in words]
            else:
                mine = [Part(first, name, "", bool(there)) for name in part_names(count)]
            parts += [*mine, *[None] * (count - len(mine))]
        return parts

    def _units(self, parts: Sequence[Part | None], numbers: np.ndarray) -> tuple[Unit, ...]:
        """In the order of the columns. What was missing and hidden is told once for each column."""
        units: dict[str, list[Unit]] = {column.name: [] for column in self.schema.columns}
        for part, measured in zip(parts, numbers.tolist(), strict=True):
            if part is None:
                continue
            mine = units[part.column.name]
            if part.observed or self.model.imputer is not None:
                state: State = "observed" if part.observed else "imputed"
                mine.append(Unit(part.column.name, part.column.kind, part.name, part.value, state, *measured))
            elif not mine:
                mine.append(_missing(part.column))
        for column in self.schema.columns:
            units[column.name] = units[column.name] or [_missing(column)]
        return tuple(unit for mine in units.values() for unit in mine)

    def _pictures(self, values: Mapping[str, np.ndarray], observed: Mapping[str, np.ndarray]) -> dict[str, Picture]:
        """The pictures that the model saw, by their columns."""
        found = {}
        for modality, (column, *_) in self.schema.modalities.items():
            if column.kind == "image" and (observed[modality] or self.model.imputer is not None):
                side = round(self.model.encoder.layout[modality] ** 0.5)
                pixels = (values[modality].transpose(1, 2, 0) * 255).round().astype(np.uint8)
                found[column.name] = Picture(pixels, (side, side))
        return found


def _shown(value: Any) -> str:
    """A cell as people write it, without the noise of binary fractions."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _missing(column: Column) -> Unit:
    return Unit(column.name, column.kind, column.name, "", "missing", None, None, 0.0, 0.0)


def _agreement(units: Sequence[Unit]) -> float | None:
    """How scores and exact effects rank alike; None where there is nothing to rank."""
    pairs = [(unit.score, abs(unit.effect)) for unit in units if unit.score is not None and unit.effect is not None]
    if len(pairs) < 3:
        return None
    found = float(spearmanr(*zip(*pairs, strict=True)).statistic)
    return None if np.isnan(found) else found
