"""What the modalities of a sample, and their parts, did for its prediction by GAUGE+.

    effect of a modality = p(c | all) - p(c | all but it), c the predicted class; from nothing, all classes are as probable
    effect of a cell     = the same with that cell of a table alone hidden
    effect of a part     = the same with that unit of an image or a sequence alone hidden, from the network and from its head

All are exact: the model predicts again without it. Modalities and cells are hidden where they come in, as if they were
missing; parts behind the encoder, where other units may know of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gauge.data.images import part_names
from gauge.encoders.cells import Cells
from gauge.encoders.columns import Columns
from gauge.masks import subsets
from gauge.nn.tabular import by_cell
from gauge.paper.explain import BatchExplanation, Explainable
from gauge.paper.explain import explain as explain_gates
from gauge.paper.network import Biased, hiding_bias
from gauge.plus.gauge_plus import GaugePlus
from gauge.plus.trust import PlusReading
from gauge.reports.evidence import GridImage, RowEvidence, Unit
from gauge.tabular.evidence.explanation import TITLE, Explanation
from gauge.values import Batch, over_values

MAX_SUBSETS = 15  # of modalities; up to so many are evaluated and explained one by one


@overload
def explain(method: GaugePlus, batch: Batch) -> Explanation: ...
@overload
def explain(method: Explainable, batch: Batch) -> BatchExplanation: ...
def explain(method: Explainable | GaugePlus, batch: Batch) -> BatchExplanation | Explanation:
    """Return the evidence behind the predictions for a batch: of a `GaugePlus` exact effects of modalities and units, votes
    and trust, of any other model with gates scores, gates and attention."""
    return explain_effects(method, batch) if isinstance(method, GaugePlus) else explain_gates(method, batch)


@torch.no_grad()
def explain_effects(
    method: GaugePlus,
    batch: Batch,
    *,
    classes: Sequence[str] | None = None,
    columns: Mapping[str, Sequence[str]] | None = None,
) -> Explanation:
    """Return the exact effects of the modalities and units of some samples, the votes of network and heads, and the trust in
    each unit where it is learned. `classes` are the names of the classes, `columns` those of the columns of tables."""
    method.eval()
    names = _part_names(method, batch, columns or {})
    seen = _Effects.of(method, batch.check(), names)
    words = classes or [str(number) for number in range(seen.probabilities.shape[1])]
    rows = tuple(_row(method, seen, batch, row, words, names) for row in range(len(batch)))
    return Explanation(rows, {"Model": "GAUGE+", "Modalities": ", ".join(names)}, part="modality")


def _part_names(method: GaugePlus, batch: Batch, columns: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The names of the cells of tables and of the parts of all else; a unit that reads all of a modality beside them, which
    would be named twice, has none."""
    names, shapes = {}, {name: tuple(values.shape[1:]) for name, values in batch.inputs.items()}
    for name, given in columns.items():
        if shapes.get(name) != (len(given),):
            raise ValueError(f"columns= has {len(given)} names for {name!r} of {shapes}; name every column of a table")
    for name, units in method.encoder.unit_counts.items():
        count = units - (units > 1 and method.encoder.has_whole(name))
        word = "column" if _has_cells(method, batch, name, count) else "part"
        numbered = part_names(count) if len(shapes[name]) == 3 else [f"{word} {part + 1}" for part in range(count)]
        names[name] = list(columns.get(name, numbered)) if word == "column" else numbered
    return names


@dataclass(frozen=True)
class _Effects:
    """The probabilities of a batch, those of the network and the heads, and those from `kept` modalities alone; what
    modalities and units do for the predicted class."""

    probabilities: Float[Tensor, "b k"]
    network: Float[Tensor, "b k"]
    heads: Float[Tensor, "b m k"] | None
    trust: Float[Tensor, "b n"] | None
    kept: Mapping[tuple[bool, ...], Float[Tensor, "b k"]]
    modalities: Float[Tensor, "b m"]
    units: Float[Tensor, "b n"]

    @classmethod
    def of(cls, method: GaugePlus, batch: Batch, names: Mapping[str, Sequence[str]]) -> "_Effects":
        available, count, reading = batch.any_observed(), len(batch.inputs), method.read(batch)
        prediction, seen, modality = method.decide(reading), reading.units.observed, reading.units.modality
        probabilities = prediction.logits.softmax(1)
        predicted = probabilities.argmax(1, keepdim=True)

        def lost(others: Float[Tensor, "*f b k"]) -> Float[Tensor, "*f b"]:
            return (probabilities - others).gather(-1, predicted.expand(*others.shape[:-1], 1))[..., 0]

        every = subsets(count).tolist() if 2**count - 1 <= MAX_SUBSETS else []
        without_one = [tuple(index != left_out for index in range(count)) for left_out in range(count)]
        given = batch.observed.items()
        kept = {
            flags: _from(method, batch, {name: x & keep for keep, (name, x) in zip(flags, given, strict=True)})
            for flags in {*map(tuple, every), *without_one}
        }
        effects = torch.stack([lost(kept[flags]) for flags in without_one], 1) * available
        units = effects[:, modality]
        for index, (name, parts) in enumerate(names.items()):
            first = int((modality < index).sum())
            if len(parts) > 1 and _has_cells(method, batch, name, len(parts)):
                units[:, first : first + len(parts)] = lost(_without_cells(method, batch, name)).mT
            elif len(parts) > 1:
                for position in range(first, first + len(parts)):
                    visible = seen & (torch.arange(len(modality), device=seen.device) != position)
                    units[:, position] = lost(method.decide(_hidden(method, reading, visible)).logits.softmax(1))
        return cls(
            probabilities,
            method.decide_network(reading).logits.softmax(1),
            None if reading.head_logits is None else reading.head_logits.softmax(-1),
            prediction.trust,
            {tuple(flags): kept[tuple(flags)] for flags in every},
            effects,
            units * seen,
        )


def _has_cells(method: GaugePlus, batch: Batch, name: str, count: int) -> bool:
    """Whether the parts of a modality are cells of a table: in a sequence of codes, no code stands for a missing word."""
    values, encoder = batch.inputs[name], method.encoder.encoders[name]
    table = values.is_floating_point() or any(isinstance(part, Columns | Cells) for part in encoder.modules())
    return (table or count == 1) and values.shape[1:] == (count,)


def _hidden(method: GaugePlus, reading: PlusReading, visible: Bool[Tensor, "b n"]) -> PlusReading:
    """The reading with these units alone, for the network and for the heads; where none is left, with all."""
    visible = torch.where(visible.any(1, keepdim=True), visible, reading.units.observed)
    units = replace(reading.units, observed=visible).keep(visible)
    heads = None if method.heads is None else method.heads.logits(units)
    classifier = Biased(method.gauge.classifier, hiding_bias(visible))
    return replace(reading, units=units, classifier=classifier, visible=visible, head_logits=heads)


def _from(method: GaugePlus, batch: Batch, observed: Mapping[str, Tensor]) -> Float[Tensor, "b k"]:
    """The probabilities from these of the observed values alone, uniform for samples that have none of these."""
    some = replace(batch, observed=observed).any_observed().any(1)
    readable = {
        name: torch.where(over_values(some, flags), flags, over_values(batch.observed[name], flags))
        for name, flags in observed.items()
    }
    probabilities = method.predict(replace(batch, observed=readable)).logits.softmax(1)
    return torch.where(some[:, None], probabilities, 1 / probabilities.shape[1])


def _without_cells(method: GaugePlus, batch: Batch, name: str) -> Float[Tensor, "f b k"]:
    """The probabilities without each cell of a table, of many cells at a time."""
    flags, parts = by_cell(batch.observed[name], batch.inputs[name]), []
    for others in (~torch.eye(flags.shape[1], dtype=torch.bool, device=flags.device)).split(1 + 512 // len(batch)):
        rows = torch.arange(len(batch), device=flags.device).repeat(len(others))
        inputs, observed = ({key: x[rows] for key, x in part.items()} for part in (batch.inputs, batch.observed))
        stacked = Batch(inputs, observed, index=batch.index[rows], key=batch.key[rows])
        left = (flags & others[:, None]).flatten(0, 1)
        parts.append(_from(method, stacked, observed | {name: left}).unflatten(0, (len(others), len(batch))))
    return torch.cat(parts)


def _row(
    method: GaugePlus, seen: _Effects, batch: Batch, row: int, classes: Sequence[str], names: dict[str, list[str]]
) -> RowEvidence:
    def best(probabilities: Tensor) -> tuple[str, float]:
        return classes[int(probabilities.argmax())], float(probabilities.max())

    available, own = dict(zip(names, batch.any_observed()[row].tolist(), strict=True)), seen.probabilities[row]
    votes, images, units = {"network": best(seen.network[row])}, {}, []
    for index, (name, parts) in enumerate(names.items()):
        values = batch.inputs[name][row]
        if _is_image(values):
            images[name] = _image(values, len(parts))
        if available[name] and seen.heads is not None:
            votes[name] = best(seen.heads[row, index])
        first = int((method.encoder.modality < index).sum())
        shown = parts if available[name] and len(parts) > 1 else [name]
        by_part = available[name] and _has_cells(method, batch, name, len(parts))
        cells = range(len(parts)) if by_part else [None] * len(shown)
        units += [_unit(seen, batch, row, first + i, name, shown[i], cell) for i, cell in enumerate(cells)]
    together = {
        " + ".join(name for name, keep in zip(names, kept, strict=True) if keep): float(those[row, own.argmax()])
        for kept, those in seen.kept.items()
        if all(available[name] or not keep for name, keep in zip(names, kept, strict=True))
    }
    label = int(batch.labels[row]) if batch.labels is not None else -1
    return RowEvidence(
        *(f"{TITLE}{int(batch.index[row])}", best(own), tuple(units), images),
        label=classes[label] if label >= 0 else None,
        effects=dict(zip(names, seen.modalities[row].tolist(), strict=True)),
        votes=votes,
        subsets=together,
    )


def _unit(seen: _Effects, batch: Batch, row: int, index: int, name: str, part: str, cell: int | None) -> Unit:
    """A unit of a modality: a cell of a table, a part of an image or a sequence, or all of it."""
    values, flags = batch.inputs[name][row], batch.observed[name][row].reshape(-1)
    observed = bool(flags.any() if cell is None or len(flags) == 1 else flags[cell])
    shown = f"{float(values[cell]):.4g}" if cell is not None else f"{' x '.join(map(str, values.shape))} values"
    return Unit(
        *(name, "image" if _is_image(values) else "number", part, shown if observed else ""),
        state="observed" if observed else "missing",
        used=float(seen.units[row, index]) if observed else None,
        trusted=None if seen.trust is None or not observed else float(seen.trust[row, index]),
    )


def _is_image(values: Tensor) -> bool:
    return values.ndim == 3 and len(values) in (1, 3)


def _image(values: Float[Tensor, "c h w"], parts: int) -> GridImage:
    side = round(parts**0.5)
    pixels = (255 * values.clamp(0, 1)).round().byte().permute(1, 2, 0).cpu().numpy()
    shape = (side, side) if side**2 == parts else (1, 1)
    return GridImage(np.broadcast_to(pixels, (*pixels.shape[:2], 3)).copy(), shape)
