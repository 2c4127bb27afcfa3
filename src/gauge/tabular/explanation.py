"""Explanation: which evidence was trusted in every row of a table, as a DataFrame, as a page, and in a notebook."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy.stats import spearmanr

from gauge.methods.gauge_plus import GaugePlus
from gauge.model.explain import explain, part_names
from gauge.reports.evidence import EvidencePage, GridImage, RowEvidence, State, Unit, render, render_rows
from gauge.tabular.columns import Column, Words
from gauge.tabular.effects import Piece, column_effects, piece_effects
from gauge.tabular.ensemble import Ensemble, Network
from gauge.tabular.rows import Rows
from gauge.tabular.schema import Schema
from gauge.training.checkpoint import write_text
from gauge.types import Batch, Prediction

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

    @property
    def effects(self) -> pd.DataFrame:
        """The effect of every column on the probability of the predicted class, a line for each row: positive where it
        speaks for the prediction, zero where it is missing."""
        return pd.DataFrame([row.effects for row in self.rows], [row.title.removeprefix(TITLE) for row in self.rows])

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
    """Explains the predictions of an ensemble in terms of the table. Scores, gates and attention are those of its network,
    probabilities and effects those of all experts together; `class_weight` is what the classes count in a decision."""

    schema: Schema
    ensemble: Ensemble
    classes: Sequence[Any]
    class_weight: np.ndarray

    @property
    def model(self) -> GaugePlus:
        network = self.ensemble.experts["network"]
        assert isinstance(network, Network)
        return network.model

    def rows(
        self, frame: pd.DataFrame, rows: Rows, *, labels: Sequence[str] | None = None, exact: bool = False
    ) -> tuple[RowEvidence, ...]:
        """The evidence of all rows, in order; `exact` adds the effect of each word and each part of an image."""
        probabilities = self.ensemble.predict(rows)
        decided = (probabilities * self.class_weight).argmax(1)
        answers = self._answers(probabilities, decided)
        effects = column_effects(self.ensemble, rows, decided)
        evidence: dict[int, RowEvidence] = {}
        for batch in rows.encoded.batches(next(self.model.parameters()).device):
            for row, (ungated, units, images) in self._batch(frame, rows, batch):
                units = self._with_effects(units, rows, row, int(decided[row]), effects.iloc[row], exact=exact)
                agreement = _agreement(units) if exact else None
                title = f"{TITLE}{frame.index[row]}"
                evidence[row] = RowEvidence(
                    title,
                    ungated,
                    answers[row],
                    units,
                    images,
                    agreement=agreement,
                    effects={str(name): float(value) for name, value in effects.iloc[row].items()},
                )
        columns = tuple(_missing(column) for column in self.schema.columns)
        for row in np.flatnonzero(rows.encoded.empty).tolist():
            nothing = dict.fromkeys((column.name for column in self.schema.columns), 0.0)
            title = f"{TITLE}{frame.index[row]}"
            evidence[row] = RowEvidence(title, answers[row], answers[row], columns, effects=nothing)
        if labels is not None:
            evidence = {row: replace(each, label=labels[row]) for row, each in evidence.items()}
        return tuple(evidence[row] for row in range(len(frame)))

    def _batch(
        self, frame: pd.DataFrame, rows: Rows, batch: Batch
    ) -> Iterator[tuple[int, tuple[tuple[str, float], tuple[Unit, ...], dict[str, GridImage]]]]:
        """The prediction without gates, the units and the images of each row."""
        explained = explain(self.model, batch)
        measured = [explained.evidence.scores, explained.gates, explained.attention_before, explained.attention_after]
        numbers = torch.stack(measured, 2).double().cpu().numpy()
        index = batch.index.cpu().numpy()
        chosen = rows.take(index)
        answers = self.ensemble.answers(chosen)
        with torch.no_grad():
            network = Prediction(explained.evidence.logits, trust=explained.trust)
            ungated = self.model.combine(network, self.model.read(batch)).double().log_softmax(1).cpu().numpy()
        answers[:, list(self.ensemble.experts).index("network")] = self.ensemble.smooth(ungated)
        probabilities = self.ensemble.combine(answers, chosen)
        before = self._answers(probabilities, (probabilities * self.class_weight).argmax(1))
        values, flags = (
            {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
            for tensors in (explained.completed.inputs, batch.observed)
        )
        for position, row in enumerate(index.tolist()):
            inputs, observed = ({name: each[position] for name, each in arrays.items()} for arrays in (values, flags))
            units = self._units(self._parts(frame.iloc[row], inputs, observed), self._per_part(numbers[position]))
            yield row, (before[position], units, self._images(inputs, observed))

    def _answers(self, probabilities: np.ndarray, decided: np.ndarray) -> list[tuple[str, float]]:
        chosen = probabilities[np.arange(len(decided)), decided]
        return list(zip((str(self.classes[index]) for index in decided), chosen.tolist(), strict=True))

    def _parts(
        self, row: pd.Series, inputs: Mapping[str, np.ndarray], observed: Mapping[str, np.ndarray]
    ) -> list[Part | None]:
        """What every unit stands for, in the order of the units; None for the padding of a text
        and for whole units."""
        parts: list[Part | None] = []
        for modality, (first, *_) in self.schema.modalities.items():
            values, flags, count = inputs[modality], observed[modality], self._fine_units(modality)
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
            if count:
                parts += [None] * (self.model.encoder.layout[modality] - count)
        return parts

    def _per_part(self, numbers: np.ndarray) -> np.ndarray:
        """The numbers of each unit; those of a table that is one unit for each of its cells, which share its attention."""
        if "table" not in self.schema.modalities or self._fine_units("table"):
            return numbers
        cells = len(self.schema.table)
        shared = np.repeat(numbers[:1], cells, 0)  # the table is the first modality
        shared[:, 2:] /= cells
        return np.concatenate([shared, numbers[1:]])

    def _fine_units(self, modality: str) -> int:
        """Without the unit that reads the whole modality."""
        encoder = self.model.encoder
        return encoder.layout[modality] - encoder.has_whole(modality)

    def _units(self, parts: Sequence[Part | None], numbers: np.ndarray) -> tuple[Unit, ...]:
        """In the order of the columns. A column that was missing and not imputed is one unit."""
        units: dict[str, list[Unit]] = {column.name: [] for column in self.schema.columns}
        for part, measured in zip(parts, numbers.tolist(), strict=True):
            if part is not None and (part.observed or self.model.imputer is not None):
                state: State = "observed" if part.observed else "imputed"
                unit = Unit(part.column.name, part.column.kind, part.name, part.value, state, *measured)
                units[part.column.name].append(unit)
        return tuple(unit for column in self.schema.columns for unit in units[column.name] or [_missing(column)])

    def _with_effects(
        self, units: tuple[Unit, ...], rows: Rows, row: int, decided: int, effects: pd.Series, *, exact: bool
    ) -> tuple[Unit, ...]:
        """Cells with the effect of their column; with `exact`, words and parts of images with their own."""
        cells = {column.name for column in self.schema.table}
        pieces: dict[int, Piece] = {}
        counts: Counter[str] = Counter()
        for index, unit in enumerate(units):
            if exact and unit.state == "observed" and unit.column not in cells:
                pieces[index] = Piece(unit.column, counts[unit.column])
                counts[unit.column] += 1
        measured = {index: float(effects[unit.column]) for index, unit in enumerate(units) if unit.column in cells}
        if pieces:
            grids = {column: round(count**0.5) for column, count in counts.items()}
            found = piece_effects(self.ensemble, rows, row, decided, list(pieces.values()), grids)
            measured |= dict(zip(pieces, found.tolist(), strict=True))
        return tuple(
            replace(unit, effect=measured.get(index)) if unit.state == "observed" else unit
            for index, unit in enumerate(units)
        )

    def _images(self, inputs: Mapping[str, np.ndarray], observed: Mapping[str, np.ndarray]) -> dict[str, GridImage]:
        """The images that the model was given, by column."""
        images = {}
        for modality, (column, *_) in self.schema.modalities.items():
            if column.kind == "image" and (observed[modality] or self.model.imputer is not None):
                side = round(self._fine_units(modality) ** 0.5)
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
