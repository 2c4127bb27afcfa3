"""Reader: the evidence of the rows of a table, from an ensemble, its network if it has gates, and the trust in cells."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from gauge.methods.gauge_plus import GaugePlus
from gauge.model.explain import BatchExplanation, explain
from gauge.reports.evidence import Gain, GridImage, RowEvidence, State, Unit
from gauge.tabular.ensemble import Ensemble
from gauge.tabular.evidence.advice import Advice, absent, helpful
from gauge.tabular.evidence.cell_trust import CellTrust
from gauge.tabular.evidence.effects import Piece, column_effects, piece_effects
from gauge.tabular.evidence.explanation import TITLE
from gauge.tabular.table.columns import Column, Part
from gauge.tabular.table.inputs import row_names
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Schema
from gauge.values import Batch, Prediction

NOT_MEASURED = (None, None, 0.0, 0.0)  # score, gate and attention, without gates


class ColumnPart(NamedTuple):
    """What a unit stands for: a part of a column, and whether it was observed."""

    column: Column
    part: Part
    observed: bool


Read = tuple[tuple[str, float], tuple[Unit, ...], dict[str, GridImage]]
"""The prediction without gates, the units and the images of a row."""


@dataclass(frozen=True)
class Reader:
    """Explains the predictions of an ensemble in terms of the table. Scores, gates and attention are those of its network,
    probabilities and effects those of all experts together; `class_weight` is what the classes count in a decision, `donors`
    are the names of the training rows that an imputer copies from."""

    schema: Schema
    ensemble: Ensemble
    classes: Sequence[Any]
    class_weight: np.ndarray
    trust: CellTrust | None = None
    advice: Advice | None = None
    donors: Sequence[str] = ()

    @property
    def network(self) -> GaugePlus | None:
        """The network, if it has gates."""
        network = self.ensemble.network
        return None if network is None or not network.gating.gates_units else network

    @property
    def imputes(self) -> bool:
        return self.network is not None and self.network.imputer is not None

    def rows(
        self,
        frame: pd.DataFrame,
        rows: Rows,
        *,
        labels: Sequence[str | None] | None = None,
        ids: pd.DataFrame | None = None,
        exact: bool = False,
    ) -> tuple[RowEvidence, ...]:
        """The evidence of all rows, in order; `exact` adds the effect of each word and each part of an image."""
        probabilities = self.ensemble.predict(rows)
        decided = (probabilities * self.class_weight).argmax(1)
        answers = self._answers(probabilities, decided)
        effects, towards = column_effects(self.ensemble, rows, decided)
        helps = self._helpful(frame, rows)
        nothing = tuple(_missing(column) for column in self.schema.columns)
        read: dict[int, Read] = {
            row: (answers[row], nothing, {}) for row in np.flatnonzero(rows.encoded.empty).tolist()
        }
        device = torch.device("cpu") if self.network is None else next(self.network.parameters()).device
        for batch in rows.encoded.batches(device):
            if self.network is None:
                read |= dict(self._ungated_batch(frame, rows, batch, answers))
            else:
                read |= dict(self._gated_batch(self.network, frame, rows, batch, answers))
        evidence, names = [], row_names(frame.index)
        for row in range(len(frame)):
            ungated, units, images = read[row]
            named = {str(name): str(self.classes[number]) for name, number in towards.iloc[row].items()}
            units = self._with_effects(units, rows, row, int(decided[row]), effects.iloc[row], named, exact=exact)
            evidence.append(
                RowEvidence(
                    f"{TITLE}{names[row]}",
                    ungated,
                    answers[row],
                    self._with_suggestions(units, rows.cells[row]),
                    images,
                    label=None if labels is None else labels[row],
                    agreement=_agreement(units) if exact else None,
                    effects={str(name): float(value) for name, value in effects.iloc[row].items()},
                    helpful=helps[row],
                    ids={} if ids is None else {str(name): _shown(value) for name, value in ids.iloc[row].items()},
                )
            )
        return tuple(evidence)

    def _helpful(self, frame: pd.DataFrame, rows: Rows) -> list[dict[str, Gain]]:
        if self.advice is None:
            return [{}] * len(rows)
        gains = self.advice.gains(self.ensemble, self.trust, rows, absent(frame, rows))
        return helpful(gains, [column.name for column in self.schema.columns])

    def _ungated_batch(
        self, frame: pd.DataFrame, rows: Rows, batch: Batch, answers: Sequence[tuple[str, float]]
    ) -> Iterator[tuple[int, Read]]:
        """The prediction, the units and the images of each row."""
        index = batch.index.tolist()
        believed = self._believed(rows.cells[index], batch.inputs["table"].numpy() if self.schema.table else None)
        for position, row in enumerate(index):
            inputs, observed = (
                {name: tensor[position].numpy() for name, tensor in tensors.items()}
                for tensors in (batch.inputs, batch.observed)
            )
            parts = self._parts(frame.iloc[row], inputs, observed)
            units = self._units(parts, [NOT_MEASURED] * len(parts), believed[position], {})
            yield row, (answers[row], units, self._images(inputs, observed))

    def _gated_batch(
        self, model: GaugePlus, frame: pd.DataFrame, rows: Rows, batch: Batch, answers: Sequence[tuple[str, float]]
    ) -> Iterator[tuple[int, Read]]:
        """The prediction without gates, the units and the images of each row."""
        explained = explain(model, batch)
        measured = [explained.evidence.scores, explained.gates, explained.attention_before, explained.attention_after]
        numbers = torch.stack(measured, 2).double().cpu().numpy()
        index = batch.index.cpu().numpy()
        chosen = rows.take(index)
        before = [answers[row] for row in index.tolist()]
        if model.applies_gates:
            before = self._without_gates(model, batch, explained, chosen)
        values, flags = (
            {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
            for tensors in (explained.completed.inputs, batch.observed)
        )
        believed = self._believed(chosen.cells, values.get("table"))
        copied = self._copied(batch)
        for position, row in enumerate(index.tolist()):
            inputs, observed = ({name: array[position] for name, array in arrays.items()} for arrays in (values, flags))
            parts = self._parts(frame.iloc[row], inputs, observed)
            sources = {column: names[position] for column, names in copied.items()}
            units = self._units(parts, self._per_part(numbers[position]).tolist(), believed[position], sources)
            yield row, (before[position], units, self._images(inputs, observed))

    def _without_gates(
        self, model: GaugePlus, batch: Batch, explained: BatchExplanation, rows: Rows
    ) -> list[tuple[str, float]]:
        """What all experts would answer if the gates of the network were open."""
        answers = self.ensemble.answers(rows)
        with torch.no_grad():
            network = Prediction(explained.evidence.logits, trust=explained.trust)
            ungated = model.combine(network, model.read(batch)).double().log_softmax(1).cpu().numpy()
        position = [expert.network is model for expert in self.ensemble.experts.values()].index(True)
        answers[:, position] = self.ensemble.smooth(ungated)
        probabilities = self.ensemble.combine(answers, rows)
        return self._answers(probabilities, (probabilities * self.class_weight).argmax(1))

    def _answers(self, probabilities: np.ndarray, decided: np.ndarray) -> list[tuple[str, float]]:
        chosen = probabilities[np.arange(len(decided)), decided]
        return list(zip((str(self.classes[index]) for index in decided), chosen.tolist(), strict=True))

    def _parts(
        self, row: pd.Series, inputs: Mapping[str, np.ndarray], observed: Mapping[str, np.ndarray]
    ) -> list[ColumnPart | None]:
        """What every unit stands for, in the order of the units; None for the padding of a text and for
        whole units."""
        parts: list[ColumnPart | None] = []
        if self.schema.table:
            for cell, value, flag in zip(self.schema.table, inputs["table"], observed["table"], strict=True):
                text = _shown(row[cell.name]) if flag else cell.decode(float(value))
                text += " (rare)" if flag and value == cell.rare_code else ""
                parts.append(ColumnPart(cell, Part(cell.name, text), bool(flag)))
            parts += self._padding("table", len(self.schema.table))
        for modality, column in self.schema.contents.items():
            flag = bool(observed[modality])
            given = row[column.name] if flag else None
            own = column.parts(given, inputs[modality], self._fine_units(modality))
            parts += [ColumnPart(column, part, flag) for part in own]
            parts += self._padding(modality, len(own))
        return parts

    def _padding(self, modality: str, parts: int) -> list[None]:
        """As many as the network has units that stand for none of the parts."""
        units = (
            0 if self.network is None or not self._fine_units(modality) else self.network.encoder.unit_counts[modality]
        )
        return [None] * (units - parts)

    def _copied(self, batch: Batch) -> dict[str, list[str]]:
        """The training row that each text or image would be copied from, where that is known, for every row."""
        if self.network is None or (imputer := self.network.registered_imputer) is None or not self.donors:
            return {}
        with torch.no_grad():
            copied = imputer.copied(batch)
        return {
            self.schema.contents[name].name: [self.donors[number] for number in numbers.tolist()]
            for name, numbers in copied.items()
        }

    def _per_part(self, numbers: np.ndarray) -> np.ndarray:
        """The numbers of each unit; those of a table that is one unit for each of its cells, which share its attention."""
        if "table" not in self.schema.modalities or self._fine_units("table"):
            return numbers
        cells = len(self.schema.table)
        shared = np.repeat(numbers[:1], cells, 0)  # the table is the first modality
        shared[:, 2:] /= cells
        return np.concatenate([shared, numbers[1:]])

    def _fine_units(self, modality: str) -> int | None:
        """Those of the network without the one that reads the whole modality."""
        if self.network is None:
            return None
        encoder = self.network.encoder
        return encoder.unit_counts[modality] - encoder.has_whole(modality)

    def _believed(self, cells: np.ndarray, completed: np.ndarray | None) -> np.ndarray:
        """The trust in the cells of the table, observed or imputed."""
        if self.trust is None or completed is None:
            return np.full(cells.shape, np.nan)
        return np.where(np.isnan(cells), self.trust.imputed(cells, completed), self.trust.observed(cells))

    def _units(
        self,
        parts: Sequence[ColumnPart | None],
        numbers: Sequence[Sequence[Any]],
        believed: np.ndarray,
        sources: Mapping[str, str],
    ) -> tuple[Unit, ...]:
        """In the order of the columns. A column that was missing and not imputed is one unit."""
        trusted = {cell.name: value for cell, value in zip(self.schema.table, believed.tolist(), strict=True)}
        units: dict[str, list[Unit]] = {column.name: [] for column in self.schema.columns}
        for part, measured in zip(parts, numbers, strict=True):
            if part is not None and (part.observed or self.imputes):
                column = part.column
                state: State = "observed" if part.observed else "imputed"
                source = "" if part.observed else sources.get(column.name, "")
                unit = Unit(column.name, column.display, *part.part, state, *measured)
                unit = replace(unit, copied_from=source)
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
            changes = piece_effects(self.ensemble, rows, row, decided, list(pieces.values()), counts)
            measured |= dict(zip(pieces, changes.tolist(), strict=True))
        return tuple(
            replace(unit, used=measured.get(index), towards=towards[unit.column] if unit.column in cells else "")
            if unit.state == "observed"
            else unit
            for index, unit in enumerate(units)
        )

    def _with_suggestions(self, units: tuple[Unit, ...], cells: np.ndarray) -> tuple[Unit, ...]:
        """Doubtful, imputed and missing cells with what the other cells suggest."""
        if self.trust is None or np.isnan(cells).all():
            return units
        positions = {cell.name: index for index, cell in enumerate(self.schema.table)}
        return tuple(
            replace(unit, suggestion=self.trust.suggestion(cells, positions[unit.column]))
            if unit.column in positions and (unit.doubtful or unit.state != "observed")
            else unit
            for unit in units
        )

    def _images(self, inputs: Mapping[str, np.ndarray], observed: Mapping[str, np.ndarray]) -> dict[str, GridImage]:
        """The images that the model was given, by column."""
        shown = {
            column.name: column.image(inputs[modality], self._fine_units(modality))
            for modality, column in self.schema.contents.items()
            if observed[modality] or self.imputes
        }
        return {name: GridImage(*image) for name, image in shown.items() if image is not None}


def _shown(value: Any) -> str:
    """A cell as people write it, without the noise of binary fractions."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _missing(column: Column) -> Unit:
    return Unit(column.name, column.display, column.name, "", "missing", None, None, 0.0, 0.0)


def _agreement(units: Sequence[Unit]) -> float | None:
    """The rank correlation of scores and exact effects; None where there is nothing to rank."""
    pairs = [(unit.score, abs(unit.used)) for unit in units if unit.score is not None and unit.used is not None]
    if len(pairs) < 3 or any(len(set(values)) == 1 for values in zip(*pairs, strict=True)):
        return None
    from scipy.stats import spearmanr

    return float(spearmanr(*zip(*pairs, strict=True)).statistic)
