"""Reader: the evidence of the rows of a table, from an ensemble, its network, if it has one, and the trust in cells."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gauge.reports.evidence import Advised, GridImage, RowEvidence, Unit
from gauge.tabular.evidence.advice import absent, expected_gains, helpful
from gauge.tabular.evidence.cell_trust import CellTrust
from gauge.tabular.evidence.effects import column_effects, piece_effects
from gauge.tabular.evidence.explanation import TITLE
from gauge.tabular.experts._ensemble import Ensemble
from gauge.tabular.saved.description import Advice
from gauge.tabular.saved.prediction_sets import PredictionSets
from gauge.tabular.table.cells import written
from gauge.tabular.table.columns import Column, Part
from gauge.tabular.table.inputs import row_names
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Schema


class ColumnPart(NamedTuple):
    """What a unit stands for: a part of a column."""

    column: Column
    part: Part


Flags = Mapping[str, Any]  # of one row: an array by unit, or one for a modality of one unit
Read = tuple[tuple[Unit, ...], dict[str, GridImage]]
"""The units and the images of a row."""


@dataclass(frozen=True)
class Reader:
    """Explains the predictions of an ensemble in terms of the table. Scores are those of its network,
    probabilities and effects those of all experts together; `class_weight` is what the classes count in a decision, `sets`
    are the prediction sets of a row."""

    schema: Schema
    ensemble: Ensemble
    classes: Sequence[Any]
    class_weight: np.ndarray
    trust: CellTrust | None = None
    advice: Advice | None = None
    sets: PredictionSets | None = None

    def rows(
        self,
        frame: pd.DataFrame,
        rows: Rows,
        *,
        labels: Sequence[str | None] | None = None,
        ids: pd.DataFrame | None = None,
        exact: bool = False,
    ) -> tuple[RowEvidence, ...]:
        """Return the evidence of all rows, in order; `exact` adds the effect of each word and each part of an image."""
        probabilities = self.ensemble.predict(rows)
        decided = (probabilities * self.class_weight).argmax(1)
        effects, towards = column_effects(self.ensemble, rows, decided)
        helps = self._helpful(frame, rows)
        nothing = tuple(_missing(column) for column in self.schema.columns)
        empty = np.flatnonzero(rows.encoded.empty).tolist()
        read: dict[int, Read] = {row: (nothing, {}) for row in empty}
        full = np.flatnonzero(~rows.encoded.empty)
        for index in np.split(full, range(1024, len(full), 1024)):
            read |= dict(self._batch(frame, rows.take(index), index))
        evidence, names, words = [], row_names(frame.index), [str(label) for label in self.classes]
        held = None if self.sets is None else self.sets.contains(probabilities, rows.observed())
        for row in range(len(frame)):
            (units, images), chosen = read[row], int(decided[row])
            named = {str(name): words[number] for name, number in towards.iloc[row].items()}
            units = self._with_effects(units, rows, row, chosen, effects.iloc[row], named, exact=exact)
            evidence.append(
                RowEvidence(
                    f"{TITLE}{names[row]}",
                    (words[chosen], float(probabilities[row, chosen])),
                    self._with_suggestions(units, rows.cells[row]),
                    images,
                    label=None if labels is None else labels[row],
                    effects={str(name): float(value) for name, value in effects.iloc[row].items()},
                    helpful=helps[row],
                    ids={} if ids is None else {str(name): written(value) for name, value in ids.iloc[row].items()},
                    plausible=None if held is None else tuple(compress(words, held[row])),
                )
            )
        return tuple(evidence)

    def _helpful(self, frame: pd.DataFrame, rows: Rows) -> list[dict[str, Advised]]:
        if self.advice is None:
            return [{}] * len(rows)
        gains = expected_gains(self.advice, self.ensemble, self.trust, rows, absent(frame, rows))
        return helpful(gains, [column.name for column in self.schema.columns])

    def _batch(self, frame: pd.DataFrame, rows: Rows, index: np.ndarray) -> Iterator[tuple[int, Read]]:
        """Yield the units and the images of each row; `index` are their positions."""
        scores, cells = self._scores(rows), rows.cells
        believed = np.full(cells.shape, np.nan) if self.trust is None else self.trust.observed(cells)
        for position, row in enumerate(index.tolist()):
            own, observed = (
                {name: array[position] for name, array in part.items()}
                for part in (rows.encoded.inputs, rows.encoded.observed)
            )
            parts = self._parts(frame.iloc[row], own, observed)
            measured = [None] * len(parts) if scores is None else scores[position].tolist()
            yield row, (self._units(parts, measured, believed[position]), self._images(own, observed))

    def _scores(self, rows: Rows) -> np.ndarray | None:
        """Return the Taylor scores of all units of the network, if there is one; cells that are one unit share its score."""
        network = self.ensemble.network
        if network is None or not len(rows):
            return None
        import torch

        from gauge.paper.gauge import taylor_evidence
        from gauge.tabular.table.tensors import batches

        (batch,) = batches(rows.encoded, next(network.parameters()).device)
        with torch.no_grad():
            reading = network.eval().read(batch)
        scores = taylor_evidence(reading.classifier, reading.units.tokens).scores.double().cpu().numpy()
        if "table" not in self.schema.modalities or self._fine_units("table"):
            return scores
        # the table is the first modality
        return np.concatenate([np.repeat(scores[:, :1], len(self.schema.table), 1), scores[:, 1:]], 1)

    def _parts(self, row: pd.Series, inputs: Mapping[str, np.ndarray], observed: Flags) -> list[ColumnPart | None]:
        """Return what every unit stands for, in the order of the units; None for what is missing, for the padding of a text
        and for whole units."""
        parts: list[ColumnPart | None] = []
        if self.schema.table:
            for cell, value, flag in zip(self.schema.table, inputs["table"], observed["table"], strict=True):
                rare = " (rare)" if value == cell.rare_code else ""
                parts.append(ColumnPart(cell, Part(cell.name, written(row[cell.name]) + rare)) if flag else None)
            parts += self._padding("table", len(self.schema.table))
        for modality, column in self.schema.contents.items():
            own = []
            if observed[modality]:
                own = column.parts(row[column.name], inputs[modality], self._fine_units(modality))
            parts += [ColumnPart(column, part) for part in own]
            parts += self._padding(modality, len(own))
        return parts

    def _padding(self, modality: str, parts: int) -> list[None]:
        """Return None for each unit of the network that stands for none of the parts."""
        network = self.ensemble.network
        if network is None or not self._fine_units(modality):
            return []
        return [None] * (network.encoder.unit_counts[modality] - parts)

    def _fine_units(self, modality: str) -> int | None:
        """Return the number of units of the network without the one that reads the whole modality."""
        if self.ensemble.network is None:
            return None
        encoder = self.ensemble.network.encoder
        return encoder.unit_counts[modality] - encoder.has_whole(modality)

    def _units(
        self, parts: Sequence[ColumnPart | None], scores: Sequence[float | None], believed: np.ndarray
    ) -> tuple[Unit, ...]:
        """In the order of the columns. A column that was missing is one unit."""
        trusted = {cell.name: value for cell, value in zip(self.schema.table, believed.tolist(), strict=True)}
        units: dict[str, list[Unit]] = {column.name: [] for column in self.schema.columns}
        for part, score in zip(parts, scores, strict=True):
            if part is not None:
                column = part.column
                unit = Unit(column.name, column.display, *part.part, "observed", score)
                trust = trusted.get(column.name, np.nan)
                units[column.name].append(unit if np.isnan(trust) else replace(unit, trusted=trust))
        return tuple(unit for column in self.schema.columns for unit in units[column.name] or [_missing(column)])

    def _with_effects(
        self,
        units: tuple[Unit, ...],
        rows: Rows,
        row: int,
        decided: int,
        effects: pd.Series,
        towards: Mapping[str, str],
        *,
        exact: bool,
    ) -> tuple[Unit, ...]:
        """Return values with the effect of their column; with `exact`, words and parts of images with their own."""
        cells = {column.name for column in self.schema.columns if column.display in ("number", "category")}
        pieces: dict[int, tuple[str, int]] = {}
        counts: Counter[str] = Counter()
        for index, unit in enumerate(units):
            if exact and unit.state == "observed" and unit.column not in cells:
                pieces[index] = unit.column, counts[unit.column]
                counts[unit.column] += 1
        measured = {index: float(effects[unit.column]) for index, unit in enumerate(units) if unit.column in cells}
        if pieces:
            changes = piece_effects(self.ensemble, rows, row, decided, list(pieces.values()), counts)
            measured |= dict(zip(pieces, changes.tolist(), strict=True))
        return tuple(
            replace(unit, used=measured.get(index), towards=towards[unit.column] if unit.column in cells else "")
            if unit.state == "observed"
            else unit
            for index, unit in enumerate(units)
        )

    def _with_suggestions(self, units: tuple[Unit, ...], cells: np.ndarray) -> tuple[Unit, ...]:
        """Doubtful and missing cells with what the other cells suggest."""
        if self.trust is None or np.isnan(cells).all():
            return units
        positions = {cell.name: index for index, cell in enumerate(self.schema.table)}
        return tuple(
            replace(unit, suggestion=self.trust.suggestion(cells, positions[unit.column]))
            if unit.column in positions and (unit.doubtful or unit.state != "observed")
            else unit
            for unit in units
        )

    def _images(self, inputs: Mapping[str, np.ndarray], observed: Flags) -> dict[str, GridImage]:
        shown = {
            column.name: column.image(inputs[modality], self._fine_units(modality))
            for modality, column in self.schema.contents.items()
            if observed[modality]
        }
        return {name: GridImage(*image) for name, image in shown.items() if image is not None}


def _missing(column: Column) -> Unit:
    return Unit(column.name, column.display, column.name, "", "missing")
