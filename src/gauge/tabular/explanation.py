"""Explanation: which evidence was used and how far it is trusted, as a DataFrame, a page, a figure, and in a notebook."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy.stats import spearmanr

from gauge.methods.gauge_plus import GaugePlus
from gauge.model.explain import explain, part_names
from gauge.reports import figures
from gauge.reports.evidence import NORMAL, EvidencePage, GridImage, RowEvidence, State, Unit, render, render_rows
from gauge.tabular.columns import Column, Words
from gauge.tabular.effects import Piece, column_effects, missing_values, piece_effects
from gauge.tabular.ensemble import Ensemble, Network
from gauge.tabular.rows import Rows
from gauge.tabular.schema import Schema
from gauge.tabular.trust import Trust
from gauge.training.checkpoint import write_text
from gauge.types import Batch, Prediction

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MEANS, SUMS = ("score", "gate"), ("attention_before", "attention_after")  # of units that are shown as one
TITLE = "Row "
PAGE_TITLE = "Which evidence was used, and how far is it trusted?"
LINES, SHOWN, WHOLE = 5, 20, 2  # rows in a terminal, in a notebook, and there with all their evidence; a page shows all


@dataclass(frozen=True, repr=False)
class Explanation:
    """The evidence of some rows, as values in `rows`; `explanation[3]` and `explanation[:5]` select one and five of them."""

    rows: tuple[RowEvidence, ...]
    facts: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        rows = [f"  {line['row']}: {line['prediction']}; {line['most used']}" for line in self._summary(LINES)]
        more = [f"  ... and {len(self) - LINES} more"] if len(self) > LINES else []
        return "\n".join([f"Explanation of {len(self)} rows; to_frame(), to_html(path), plot(), [row]", *rows, *more])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int | slice) -> "Explanation":
        return Explanation(self.rows[index] if isinstance(index, slice) else (self.rows[index],), self.facts)

    def __iter__(self) -> Iterator["Explanation"]:
        return (self[index] for index in range(len(self)))

    def to_frame(self) -> pd.DataFrame:
        """One line for every unit of every row: how much it was `used` (its signed effect on the probability of the
        prediction) and how far it is `trusted` (the probability that it is right) are two things."""
        names = ("row", "label", "prediction", "probability", "prediction_ungated", "probability_ungated")
        lines = []
        for row in self.rows:
            answer = dict(zip(names, (row.title.removeprefix(TITLE), row.label, *row.after, *row.before), strict=True))
            lines += [answer | dict(row.ids) | asdict(unit) for unit in row.units]
        return pd.DataFrame(lines)

    @property
    def effects(self) -> pd.DataFrame:
        """The effect of every column on the probability of the predicted class, a line for each row: positive where it
        speaks for the prediction, zero where it is missing."""
        return pd.DataFrame([row.effects for row in self.rows], [row.title.removeprefix(TITLE) for row in self.rows])

    def to_html(self, path: str | Path, *, donors: bool = False) -> None:
        """Write one file that works offline: a summary of all rows, then every row. Texts and images that were imputed with
        those of other rows are left out unless `donors` is True."""
        lead = (
            f"Predicting {self.facts.get('Predicts', 'the label')}. Every value has two numbers: how much the prediction "
            "used it, and how far it is trusted to be right."
        )
        rows = self.rows if donors else self.without_donors().rows
        write_text(Path(path), render(EvidencePage(PAGE_TITLE, lead, rows, self.facts)))

    def without_donors(self) -> "Explanation":
        """Without the content of other rows: an imputed text or image is one unit that does not show it."""
        return replace(self, rows=tuple(_without_donors(row) for row in self.rows))

    def plot(self) -> "Figure":
        """The effects of the columns as a matplotlib figure: signed for a single row, their mean size for several."""
        effects = self.effects
        if len(self) == 1:
            title = f"{self.rows[0].title}: {_answer(self.rows[0])}"
            return figures.effects_figure(effects.iloc[0], title=title, label="effect on the prediction, points")
        means, error = effects.abs().mean(), NORMAL * effects.abs().std() / max(1, len(self)) ** 0.5
        return figures.effects_figure(means, error, title=f"{len(self)} rows", label="mean size of the effect, points")

    def _repr_html_(self) -> str:
        if len(self) <= WHOLE:
            return render_rows(self.rows)
        table = pd.DataFrame(self._summary(SHOWN)).to_html(index=False, border=0)
        return (
            f"{table}<p>{min(len(self), SHOWN)} of {len(self)} rows; explanation[0] shows one with all its evidence</p>"
        )

    def _summary(self, count: int) -> list[dict[str, str]]:
        """The predictions of the first rows, the columns they used most, in points, and the values that do not fit."""
        lines = []
        for row in self.rows[:count]:
            used = sorted(row.effects.items(), key=lambda item: -abs(item[1]))[:3]
            named = ", ".join(f"{column} {100 * effect:+.0f}" for column, effect in used if effect) or "no evidence"
            doubtful = ", ".join(f"{_unit_name(unit)} {unit.trusted:.2f}" for unit in row.doubtful[:2])
            line = {"row": row.title, "prediction": _answer(row), "most used": named}
            lines.append(
                line | ({"does not fit": doubtful} if any(each.doubtful for each in self.rows[:count]) else {})
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
    trust: Trust | None = None

    @property
    def model(self) -> GaugePlus:
        network = self.ensemble.experts["network"]
        assert isinstance(network, Network)
        return network.model

    def rows(
        self,
        frame: pd.DataFrame,
        rows: Rows,
        *,
        labels: Sequence[str] | None = None,
        ids: pd.DataFrame | None = None,
        exact: bool = False,
    ) -> tuple[RowEvidence, ...]:
        """The evidence of all rows, in order; `exact` adds the effect of each word and each part of an image."""
        probabilities = self.ensemble.predict(rows)
        decided = (probabilities * self.class_weight).argmax(1)
        answers = self._answers(probabilities, decided)
        effects, towards = column_effects(self.ensemble, rows, decided)
        helpful = missing_values(self.ensemble, self.trust, rows, decided, effects)
        nothing = tuple(_missing(column) for column in self.schema.columns)
        read: dict[int, tuple[tuple[str, float], tuple[Unit, ...], dict[str, GridImage]]]
        read = {row: (answers[row], nothing, {}) for row in np.flatnonzero(rows.encoded.empty).tolist()}
        for batch in rows.encoded.batches(next(self.model.parameters()).device):
            read |= dict(self._batch(frame, rows, batch))
        evidence = []
        for row in range(len(frame)):
            ungated, units, images = read[row]
            named = {str(name): str(self.classes[number]) for name, number in towards.iloc[row].items()}
            units = self._with_effects(units, rows, row, int(decided[row]), effects.iloc[row], named, exact=exact)
            evidence.append(
                RowEvidence(
                    f"{TITLE}{frame.index[row]}",
                    ungated,
                    answers[row],
                    self._with_suggestions(units, rows.cells[row]),
                    images,
                    label=None if labels is None else labels[row],
                    agreement=_agreement(units) if exact else None,
                    effects={str(name): float(value) for name, value in effects.iloc[row].items()},
                    helpful=helpful[row],
                    ids={} if ids is None else {str(name): _shown(value) for name, value in ids.iloc[row].items()},
                )
            )
        return tuple(evidence)

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
        believed = self._believed(chosen.cells, values.get("table"))
        for position, row in enumerate(index.tolist()):
            inputs, observed = ({name: each[position] for name, each in arrays.items()} for arrays in (values, flags))
            parts = self._parts(frame.iloc[row], inputs, observed)
            units = self._units(parts, self._per_part(numbers[position]), believed[position])
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

    def _believed(self, cells: np.ndarray, completed: np.ndarray | None) -> np.ndarray:
        """The trust in the cells of the table, observed or imputed."""
        if self.trust is None or completed is None:
            return np.full(cells.shape, np.nan)
        return np.where(np.isnan(cells), self.trust.imputed(cells, completed), self.trust.observed(cells))

    def _units(self, parts: Sequence[Part | None], numbers: np.ndarray, believed: np.ndarray) -> tuple[Unit, ...]:
        """In the order of the columns. A column that was missing and not imputed is one unit."""
        trusted = {cell.name: value for cell, value in zip(self.schema.table, believed.tolist(), strict=True)}
        units: dict[str, list[Unit]] = {column.name: [] for column in self.schema.columns}
        for part, measured in zip(parts, numbers.tolist(), strict=True):
            if part is not None and (part.observed or self.model.imputer is not None):
                state: State = "observed" if part.observed else "imputed"
                unit = Unit(part.column.name, part.column.kind, part.name, part.value, state, *measured)
                trust = trusted.get(unit.column, np.nan)
                units[unit.column].append(unit if np.isnan(trust) else replace(unit, trusted=trust))
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
            grids = {column: round(count**0.5) for column, count in counts.items()}
            found = piece_effects(self.ensemble, rows, row, decided, list(pieces.values()), grids)
            measured |= dict(zip(pieces, found.tolist(), strict=True))
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
        places = {cell.name: index for index, cell in enumerate(self.schema.table)}
        return tuple(
            replace(unit, suggestion=self.trust.suggestion(cells, places[unit.column]))
            if unit.column in places and (unit.doubtful or unit.state != "observed")
            else unit
            for unit in units
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


def _answer(row: RowEvidence) -> str:
    return f"{row.after[0]} ({100 * row.after[1]:.0f} %)"


def _without_donors(row: RowEvidence) -> RowEvidence:
    units: list[Unit] = []
    copied: dict[str, list[Unit]] = {}
    for unit in row.units:
        if unit.state != "imputed" or unit.kind not in ("text", "image"):
            units.append(unit)
        elif unit.column in copied:
            copied[unit.column].append(unit)
        else:
            copied[unit.column] = [unit]
            units.append(unit)
    for index, unit in enumerate(units):
        if unit.column in copied and unit.state == "imputed":
            same = copied[unit.column]
            joined: dict[str, Any] = {name: float(np.mean([getattr(each, name) for each in same])) for name in MEANS}
            joined |= {name: sum(getattr(each, name) for each in same) for name in SUMS}
            units[index] = replace(unit, name=unit.column, value="", **joined)
    images = {name: image for name, image in row.images.items() if name not in copied}
    return replace(row, units=tuple(units), images=images)


def _unit_name(unit: Unit) -> str:
    return unit.column if unit.name == unit.column else f"{unit.column}: {unit.name}"


def _shown(value: Any) -> str:
    """A cell as people write it, without the noise of binary fractions."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _missing(column: Column) -> Unit:
    return Unit(column.name, column.kind, column.name, "", "missing", None, None, 0.0, 0.0)


def _agreement(units: Sequence[Unit]) -> float | None:
    """The rank correlation of scores and exact effects; None where there is nothing to rank."""
    pairs = [(unit.score, abs(unit.used)) for unit in units if unit.score is not None and unit.used is not None]
    if len(pairs) < 3 or any(len(set(values)) == 1 for values in zip(*pairs, strict=True)):
        return None
    return float(spearmanr(*zip(*pairs, strict=True)).statistic)
