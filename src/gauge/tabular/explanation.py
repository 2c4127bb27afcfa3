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
from gauge.reports.evidence import EvidencePage, GridImage, RowEvidence, State, Unit, render, render_rows
from gauge.tabular.columns import Column, Words
from gauge.tabular.inputs import probabilities_of
from gauge.tabular.schema import Encoded, Schema
from gauge.training.checkpoint import write_text
from gauge.types import Batch

TITLE = "Row "
LINES, SHOWN, WHOLE = 5, 20, 2  # rows in a terminal, in a notebook, and there with all their evidence; a page shows all


@dataclass(frozen=True, repr=False)
class Explanation:
    """The evidence of some rows, as values in `rows`; `explanation[3]` and `explanation[:5]` select one and five of them."""

    rows: tuple[RowEvidence, ...]
    facts: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        rows = [f"  {line['row']}: {line['prediction']}; {line['largest gates']}" for line in self._summary(LINES)]
        more = [f"  ... and {len(self) - LINES} more"] if len(self) > LINES else []
        return "\n".join([f"Explanation of {len(self)} rows; to_frame(), to_html(path), [row]", *rows, *more])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int | slice) -> "Explanation":
        return Explanation(self.rows[index] if isinstance(index, slice) else (self.rows[index],), self.facts)

    def __iter__(self) -> Iterator["Explanation"]:
        return (self[index] for index in range(len(self)))

    def to_frame(self) -> pd.DataFrame:
        """One line for every unit of every row."""
        names = ("row", "label", "prediction", "probability", "prediction_ungated", "probability_ungated")
        lines = []
        for row in self.rows:
            answer = dict(zip(names, (row.title.removeprefix(TITLE), row.label, *row.after, *row.before), strict=True))
            lines += [answer | asdict(unit) for unit in row.units]
        return pd.DataFrame(lines)

    def to_html(self, path: str | Path) -> None:
        """Write one file that works offline: a summary of all rows, then every row."""
        lead = (
            f"Predicting {self.facts.get('Predicts', 'the label')}. Every value, word and part of an image has a gate: how "
            "much of it the prediction could use."
        )
        write_text(Path(path), render(EvidencePage("Which evidence was trusted?", lead, self.rows, self.facts)))

    def _repr_html_(self) -> str:
        if len(self) <= WHOLE:
            return render_rows(self.rows)
        table = pd.DataFrame(self._summary(SHOWN)).to_html(index=False, border=0)
        return (
            f"{table}<p>{min(len(self), SHOWN)} of {len(self)} rows; explanation[0] shows one with all its evidence</p>"
        )

    def _summary(self, count: int) -> list[dict[str, str]]:
        """The prediction and the most trusted evidence of the first rows."""
        lines = []
        for row in self.rows[:count]:
            gated = [unit for unit in row.units if unit.gate is not None]
            largest = sorted(gated, key=lambda unit: -(unit.gate or 0.0))[:3]
            answer, probability = row.after
            trusted = ", ".join(f"{_unit_name(unit)} {unit.gate:.2f}" for unit in largest) or "no evidence"
            lines.append(
                {"row": row.title, "prediction": f"{answer} ({100 * probability:.0f} %)", "largest gates": trusted}
            )
        return lines


class Part(NamedTuple):
    """What a unit stands for: its column, its name there, its value as text, and whether it was observed."""

    column: Column
    name: str
    value: str
    observed: bool


@dataclass(frozen=True)
class Reader:
    """Explains the predictions of a model in terms of the table. `prior` is its prediction for a row without values,
    `class_weights` are those of its training, which predictions follow and probabilities do not."""

    schema: Schema
    model: Gauge
    classes: Sequence[Any]
    prior: np.ndarray
    class_weights: np.ndarray

    def rows(
        self, frame: pd.DataFrame, encoded: Encoded, *, labels: Sequence[str] | None = None, exact: bool = False
    ) -> tuple[RowEvidence, ...]:
        """The evidence of all rows, in order; `exact` adds the measured effect of leaving out each unit."""
        rows: dict[int, RowEvidence] = {}
        for batch in encoded.batches(next(self.model.parameters()).device):
            rows |= zip(batch.index.tolist(), self._batch(frame, batch, exact=exact), strict=True)
        best = int((self.prior * self.class_weights).argmax())
        answer = str(self.classes[best]), float(self.prior[best])
        units = tuple(_missing(column) for column in self.schema.columns)
        for row in np.flatnonzero(encoded.empty).tolist():
            rows[row] = RowEvidence(f"{TITLE}{frame.index[row]}", answer, answer, units)
        if labels is not None:
            rows = {row: replace(evidence, label=labels[row]) for row, evidence in rows.items()}
        return tuple(rows[row] for row in range(len(frame)))

    def _batch(self, frame: pd.DataFrame, batch: Batch, *, exact: bool) -> list[RowEvidence]:
        explained = explain(self.model, batch)
        measured = [explained.evidence.scores, explained.gates, explained.attention_before, explained.attention_after]
        if exact:
            reference = self.model.reference(explained.units)
            measured.append(exact_effects(explained.classifier, explained.units.tokens, reference=reference))
        numbers = torch.stack(measured, 2).double().cpu().numpy()
        before, after = self._answers(explained.evidence.logits), self._answers(explained.logits)
        values, flags = (
            {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
            for tensors in (explained.completed.inputs, batch.observed)
        )
        rows = []
        for index, row in enumerate(batch.index.tolist()):
            inputs, observed = ({name: each[index] for name, each in arrays.items()} for arrays in (values, flags))
            units = self._units(self._parts(frame.iloc[row], inputs, observed), numbers[index])
            images = self._images(inputs, observed)
            title, agreement = f"{TITLE}{frame.index[row]}", _agreement(units) if exact else None
            rows.append(RowEvidence(title, before[index], after[index], units, images, agreement=agreement))
        return rows

    def _answers(self, logits: Tensor) -> list[tuple[str, float]]:
        probabilities = probabilities_of(logits.double().softmax(1).cpu().numpy(), self.class_weights)
        best = (probabilities * self.class_weights).argmax(1)
        return [(str(self.classes[index]), float(row[index])) for index, row in zip(best, probabilities, strict=True)]

    def _parts(
        self, row: pd.Series, inputs: Mapping[str, np.ndarray], observed: Mapping[str, np.ndarray]
    ) -> list[Part | None]:
        """What every unit stands for, in the order of the units; None for the padding of a text."""
        parts: list[Part | None] = []
        for modality, (first, *_) in self.schema.modalities.items():
            values, flags, count = inputs[modality], observed[modality], self.model.encoder.layout[modality]
            if modality == "table":
                parts += [
                    Part(cell, cell.name, _shown(row[cell.name]) if flag else cell.decode(float(value)), bool(flag))
                    for cell, value, flag in zip(self.schema.table, values, flags, strict=True)
                ]
            elif isinstance(first, Words):
                words = first.split(str(row[first.name])) if flags else first.decode(values.tolist())
                parts += [Part(first, word, word, bool(flags)) for word in words] + [None] * (count - len(words))
            else:
                parts += [Part(first, name, "", bool(flags)) for name in part_names(count)]
        return parts

    def _units(self, parts: Sequence[Part | None], numbers: np.ndarray) -> tuple[Unit, ...]:
        """In the order of the columns. A column that was missing and not imputed is one unit."""
        units: dict[str, list[Unit]] = {column.name: [] for column in self.schema.columns}
        for part, measured in zip(parts, numbers.tolist(), strict=True):
            if part is not None and (part.observed or self.model.imputer is not None):
                state: State = "observed" if part.observed else "imputed"
                unit = Unit(part.column.name, part.column.kind, part.name, part.value, state, *measured)
                units[part.column.name].append(unit)
        return tuple(unit for column in self.schema.columns for unit in units[column.name] or [_missing(column)])

    def _images(self, inputs: Mapping[str, np.ndarray], observed: Mapping[str, np.ndarray]) -> dict[str, GridImage]:
        """The images that the model was given, by column."""
        images = {}
        for modality, (column, *_) in self.schema.modalities.items():
            if column.kind == "image" and (observed[modality] or self.model.imputer is not None):
                side = round(self.model.encoder.layout[modality] ** 0.5)
                pixels = (inputs[modality].transpose(1, 2, 0) * 255).round().astype(np.uint8)
                images[column.name] = GridImage(pixels, (side, side))
        return images


def _unit_name(unit: Unit) -> str:
    return unit.column if unit.name == unit.column else f"{unit.column}: {unit.name}"


def _shown(value: Any) -> str:
    """A cell as people write it, without the noise of binary fractions."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _missing(column: Column) -> Unit:
    return Unit(column.name, column.kind, column.name, "", "missing", None, None, 0.0, 0.0)


def _agreement(units: Sequence[Unit]) -> float | None:
    """The rank correlation of scores and exact effects; None where there is nothing to rank."""
    pairs = [(unit.score, abs(unit.effect)) for unit in units if unit.score is not None and unit.effect is not None]
    if len(pairs) < 3 or any(len(set(values)) == 1 for values in zip(*pairs, strict=True)):
        return None
    return float(spearmanr(*zip(*pairs, strict=True)).statistic)
