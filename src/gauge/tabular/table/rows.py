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
from gauge.tabular.table.schema import Encoded, Schema, per_column


@dataclass(frozen=True)
class Rows:
    """Rows of a table as modalities of the network (`encoded`), and the whole texts of each column that has them, "" where
    they are missing."""

    schema: Schema
    encoded: Encoded
    texts: Mapping[str, np.ndarray]

    @classmethod
    def from_frame(cls, schema: Schema, frame: pd.DataFrame, encoded: Encoded) -> "Rows":
        nothing = pd.Series(index=frame.index, dtype=object)
        texts = {column.name: column.texts(frame.get(column.name, nothing)) for column in schema.contents.values()}
        return cls(schema, encoded, {name: cells for name, cells in texts.items() if cells is not None})

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
        flags = [per_column(flags).numpy() for flags in self.encoded.observed.values()]
        return np.concatenate(flags, 1)[:, self.schema.positions]

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
        texts = dict(self.texts)
        if name in texts:
            texts[name] = np.full(len(self), "", object)
        return replace(self, encoded=encoded, texts=texts)

    def with_cells(self, cells: np.ndarray) -> "Rows":
        """The same rows with other numbers and categories, in the form of `cells`."""
        table = torch.from_numpy(np.nan_to_num(cells)).to(self.encoded.inputs["table"])
        encoded = _with_flags(self.encoded, {**self.encoded.observed, "table": torch.from_numpy(~np.isnan(cells))})
        return replace(self, encoded=replace(encoded, inputs={**encoded.inputs, "table": table}))

    def hide(self, protocol: Protocol, number: int) -> "Rows":
        """The same rows with further values missing; each number is another draw."""
        flags = self.encoded.observed
        counts = {name: None if mask.ndim == 1 else mask.shape[1] for name, mask in flags.items()}
        keep = protocol.keep(counts, sample_keys(torch.arange(len(self)), number, "hide"))
        return self._with_observed({name: mask & keep[name] for name, mask in flags.items()})

    def keep(self, kept: np.ndarray) -> "Rows":
        """The same rows with the values missing that are not kept: [rows, columns], as in `observed`."""
        by_flag = np.empty_like(kept)
        by_flag[:, self.schema.positions] = kept
        observed, start = {}, 0
        for name, flags in self.encoded.observed.items():
            width = per_column(flags).shape[1]
            observed[name] = flags & torch.from_numpy(by_flag[:, start : start + width]).reshape(flags.shape)
            start += width
        return self._with_observed(observed)

    def _with_observed(self, observed: dict[str, Tensor]) -> "Rows":
        """With other flags, and without the texts that they hide."""
        texts = {
            column.name: np.where(observed[modality].numpy(), self.texts[column.name], "")
            for modality, column in self.schema.contents.items()
            if column.name in self.texts
        }
        return replace(self, encoded=_with_flags(self.encoded, observed), texts=texts)

    def _position(self, name: str) -> tuple[str, Any]:
        """The modality of a column and, in a table, its index there."""
        for modality, columns in self.schema.modalities.items():
            names = [column.name for column in columns]
            if name in names:
                return modality, names.index(name) if modality == "table" else ...
        raise ValueError(
            f"there is no column {name!r}; the model has {[column.name for column in self.schema.columns]}"
        )


def unread_contents(schema: Schema, frame: pd.DataFrame) -> list[str]:
    """What the network does not read of long texts, a sentence for each column."""
    return [line for column in schema.contents.values() if (line := column.unread(frame[column.name]))]


def _with_flags(encoded: Encoded, observed: dict[str, Tensor]) -> Encoded:
    every = torch.cat([per_column(flags) for flags in observed.values()], 1)
    return replace(encoded, observed=observed, empty=~every.any(1).numpy())
