"""Rows: what the experts read of a table, with any of its columns made missing."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from gauge.masks import RandomCells, UpTo
from gauge.randomness import sample_keys
from gauge.tabular.table.arrays import cycles as cycles_of
from gauge.tabular.table.columns import Cell, Column
from gauge.tabular.table.schema import Encoded, Schema, per_column


@dataclass(frozen=True)
class Rows:
    """Rows of a table as modalities of the network (`encoded`), the whole texts of each column that has them, "" where they
    are missing, the `rare_levels` of each column that has them, and the `cycles` of dates and times. `fold` is the number of
    the fold that holds each row out, where that matters. `shared` is what experts have read of these rows, for others that
    read the same, and `read_texts` what they have read of single texts, which rows derived from these have as well."""

    schema: Schema
    encoded: Encoded
    texts: Mapping[str, np.ndarray]
    rare: Mapping[str, np.ndarray] = field(default_factory=dict)
    cycles: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    fold: np.ndarray | None = None
    read_texts: dict[Hashable, Any] = field(default_factory=dict, repr=False, compare=False)
    shared: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def from_frame(cls, schema: Schema, frame: pd.DataFrame, encoded: Encoded) -> "Rows":
        def given(column: Column) -> pd.Series:
            return frame[column.name] if column.name in frame else pd.Series(index=frame.index, dtype=object)

        return cls.from_columns(schema, given, encoded)

    @classmethod
    def from_columns(cls, schema: Schema, given: Callable[[Column], pd.Series], encoded: Encoded) -> "Rows":
        """Rows whose columns are `given` where more than their encoding is read."""
        texts = {column.name: column.texts(given(column)) for column in schema.contents.values()}
        known = {name: cells for name, cells in texts.items() if cells is not None}
        rare_columns = [column for column in schema.table if column.tells_rare_apart]
        rare = {column.name: column.rare_levels(given(column)) for column in rare_columns}
        return cls(schema, encoded, known, rare, cycles_of(schema.table, given))

    def __len__(self) -> int:
        return len(self.encoded.empty)

    @cached_property
    def cells(self) -> np.ndarray:
        """Numbers as normal scores of their ranks and categories as their codes, NaN where they are missing."""
        if "table" not in self.encoded.inputs:
            return np.zeros((len(self), 0), np.float32)
        return _read_only(np.where(self.encoded.observed["table"], self.encoded.inputs["table"], np.float32(np.nan)))

    @cached_property
    def numbers(self) -> np.ndarray:
        """The `cells`, and after them the cycles, NaN where they are missing."""
        positions = self.schema.cycle_positions
        if not len(positions):
            return self.cells
        known = ~np.isnan(self.cells[:, positions])
        return _read_only(np.concatenate([self.cells, np.where(known, self.cycles, np.float32(np.nan))], 1))

    def levels(self, column: Cell, codes: np.ndarray) -> np.ndarray:
        """The categories of a column of `cells`, with numbers of their own for rare ones that are told apart; -1 where they
        are missing."""
        levels = np.where(np.isnan(codes), -1, codes).astype(np.int64)
        rare = self.rare.get(column.name)
        return levels if rare is None else np.where(levels == column.rare_code, rare, levels)

    def observed(self) -> np.ndarray:
        """Which columns of the schema each row has: [rows, columns]."""
        return self._observed

    @cached_property
    def _observed(self) -> np.ndarray:
        flags = np.concatenate(list(map(per_column, self.encoded.observed.values())), 1)
        return _read_only(flags[:, self.schema.positions])

    def take(self, index: np.ndarray) -> "Rows":
        texts, rare = ({name: each[index] for name, each in own.items()} for own in (self.texts, self.rare))
        fold = None if self.fold is None else self.fold[index]
        cycles = self.cycles[index] if self.cycles.size else self.cycles
        return replace(self, encoded=self.encoded.take(index), texts=texts, rare=rare, cycles=cycles, fold=fold)

    def without(self, name: str) -> "Rows":
        """The same rows with one column missing everywhere."""
        names = [column.name for column in self.schema.columns]
        if name not in names:
            raise ValueError(f"there is no column {name!r}; the model has {names}")
        return self.keep(np.tile([each != name for each in names], (len(self), 1)))

    def shuffle(self, name: str, draw: np.random.Generator) -> "Rows":
        """The same rows with the values of one column exchanged among those that have one."""
        index = np.arange(len(self))
        available = np.flatnonzero(self.observed()[:, [column.name for column in self.schema.columns].index(name)])
        index[available] = draw.permutation(available)
        modality = next(key for key, own in self.schema.modalities.items() if name in [each.name for each in own])
        values, cycles = self.encoded.inputs[modality].copy(), self.cycles
        own = [column.name for column in self.schema.table].index(name) if modality == "table" else slice(None)
        values[:, own] = values[index, own]
        if modality == "table" and cycles.size:
            cycles = np.where(self.schema.cycle_positions == own, cycles[index], cycles)
        texts, rare = (
            {key: each[index] if key == name else each for key, each in own.items()} for own in (self.texts, self.rare)
        )
        encoded = replace(self.encoded, inputs={**self.encoded.inputs, modality: values})
        return replace(self, encoded=encoded, texts=texts, rare=rare, cycles=cycles)

    def keep(self, columns: np.ndarray) -> "Rows":
        """The same rows with all but these columns missing; those that were missing still are: [rows, columns]."""
        order = np.argsort(self.schema.positions)
        flags = np.split(columns[:, order], np.cumsum([len(each) for each in self.schema.modalities.values()])[:-1], 1)
        observed = {
            name: own & wanted.reshape(own.shape)
            for (name, own), wanted in zip(self.encoded.observed.items(), flags, strict=True)
        }
        return self._with_observed(observed)

    def with_cells(self, cells: np.ndarray) -> "Rows":
        """The same rows with other numbers and categories, in the form of `cells`. What is new has no cycles."""
        positions, cycles = self.schema.cycle_positions, self.cycles
        if len(positions):
            cycles = np.where((cells == self.cells)[:, positions], cycles, np.float32(np.nan))
        encoded = self.encoded.with_observed({**self.encoded.observed, "table": ~np.isnan(cells)})
        table = np.nan_to_num(cells).astype(encoded.inputs["table"].dtype)
        return replace(self, encoded=replace(encoded, inputs={**encoded.inputs, "table": table}), cycles=cycles)

    def hide(self, protocol: RandomCells | UpTo, number: int) -> "Rows":
        """The same rows with further values missing; each number is another draw."""
        flags = self.encoded.observed
        counts = {name: None if mask.ndim == 1 else mask.shape[1] for name, mask in flags.items()}
        keep = protocol.keep(counts, sample_keys(np.arange(len(self)), number, "hide"))
        return self._with_observed({name: mask & keep[name] for name, mask in flags.items()})

    def _with_observed(self, observed: dict[str, np.ndarray]) -> "Rows":
        texts = {
            column.name: np.where(observed[modality], self.texts[column.name], "")
            for modality, column in self.schema.contents.items()
            if column.name in self.texts
        }
        return replace(self, encoded=self.encoded.with_observed(observed), texts=texts)


def unread_contents(schema: Schema, frame: pd.DataFrame) -> list[str]:
    """What the network does not read of long texts, a sentence for each column."""
    return [line for column in schema.contents.values() if (line := column.unread(frame[column.name]))]


def _read_only(array: np.ndarray) -> np.ndarray:
    """The array, which several readers share."""
    array.setflags(write=False)
    return array
