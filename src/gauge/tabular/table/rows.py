"""Rows: what the experts read of a table, with any of its columns made missing."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gauge.masks import Protocol
from gauge.randomness import sample_keys
from gauge.tabular.table.columns import WORD, Text, Words, missing
from gauge.tabular.table.numbers import plain
from gauge.tabular.table.schema import Encoded, Schema


@dataclass(frozen=True)
class Rows:
    """Rows of a table as modalities of the network (`encoded`), and the whole texts of each column of words, "" where they
    are missing."""

    schema: Schema
    encoded: Encoded
    texts: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, schema: Schema, frame: pd.DataFrame, encoded: Encoded) -> "Rows":
        texts = {}
        for column in schema.columns:
            if isinstance(column, Words):
                known = column.name in frame
                texts[column.name] = _texts(frame[column.name]) if known else np.full(len(frame), "", object)
        return cls(schema, encoded, texts)

    def __len__(self) -> int:
        return len(self.encoded.empty)

    @property
    def cells(self) -> np.ndarray:
        """Numbers as normal scores of their ranks and categories as their codes, NaN where they are missing."""
        if "table" not in self.encoded.inputs:
            return np.zeros((len(self), 0), np.float32)
        values, flags = self.encoded.inputs["table"].numpy(), self.encoded.observed["table"].numpy()
        return np.where(flags, values, np.float32(np.nan))

    def observed(self) -> np.ndarray:
        """Which columns of the schema each row has: [rows, columns]."""
        return np.stack([self._flags(column.name) for column in self.schema.columns], 1)

    def take(self, index: np.ndarray) -> "Rows":
        inputs, observed = self.encoded._rows(index)
        encoded = Encoded(inputs, observed, self.encoded.empty[index])
        return replace(self, encoded=encoded, texts={name: texts[index] for name, texts in self.texts.items()})

    def without(self, name: str) -> "Rows":
        """The same rows with one column missing everywhere."""
        modality, index = self._position(name)
        flags = self.encoded.observed[modality].clone()
        flags[..., index] = False
        encoded = _with_flags(self.encoded, {**self.encoded.observed, modality: flags})
        texts = {each: np.full(len(self), "", object) if each == name else words for each, words in self.texts.items()}
        return replace(self, encoded=encoded, texts=texts)

    def with_cells(self, cells: np.ndarray) -> "Rows":
        """The same rows with other numbers and categories, in the form of `cells`."""
        table = torch.from_numpy(np.nan_to_num(cells)).to(self.encoded.inputs["table"])
        encoded = _with_flags(self.encoded, {**self.encoded.observed, "table": torch.from_numpy(~np.isnan(cells))})
        return replace(self, encoded=replace(encoded, inputs={**encoded.inputs, "table": table}))

    def hide(self, protocol: Protocol, number: int) -> "Rows":
        """The same rows with further values missing; each number is another draw."""
        flags = self.encoded.observed
        feature_counts = {name: None if each.ndim == 1 else each.shape[1] for name, each in flags.items()}
        keep = protocol.keep(feature_counts, sample_keys(torch.arange(len(self)), number, "hide"))
        observed = {name: each & keep[name] for name, each in flags.items()}
        modalities = self.schema.modalities
        texts = {
            columns[0].name: np.where(observed[name].numpy(), self.texts[columns[0].name], "")
            for name, columns in modalities.items()
            if columns[0].name in self.texts
        }
        return replace(self, encoded=_with_flags(self.encoded, observed), texts=texts)

    def _flags(self, name: str) -> np.ndarray:
        modality, index = self._position(name)
        return self.encoded.observed[modality][..., index].numpy()

    def _position(self, name: str) -> tuple[str, Any]:
        """The modality of a column and, in a table, its index there."""
        for modality, columns in self.schema.modalities.items():
            names = [column.name for column in columns]
            if name in names:
                return modality, names.index(name) if modality == "table" else ...
        raise ValueError(f"there is no column {name!r}; the model has {[each.name for each in self.schema.columns]}")


def cut_texts(schema: Schema, frame: pd.DataFrame) -> list[str]:
    """What the network does not read of long texts, a sentence for each column."""
    lines = []
    for column in schema.columns:
        if isinstance(column, Text):
            texts = [text for text in _texts(frame[column.name]) if text]
            longer = 100 * np.mean([len(WORD.findall(text)) > column.length for text in texts])
            if longer:
                lines.append(
                    f"column {column.name!r}: the network reads the first {column.length} words; {longer:.0f} % of the "
                    "texts are longer, only the linear expert reads them whole"
                )
    return lines


def _texts(column: pd.Series) -> np.ndarray:
    """The cells as texts, "" where they are missing."""
    column = plain(column).astype(object)
    return column.where(~missing(column), "").astype(str).to_numpy(object)


def _with_flags(encoded: Encoded, observed: dict[str, Tensor]) -> Encoded:
    every = torch.cat([flags if flags.ndim == 2 else flags[:, None] for flags in observed.values()], 1)
    return replace(encoded, observed=observed, empty=~every.any(1).numpy())
