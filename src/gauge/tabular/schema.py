"""DataFrames with missing values as modalities: which columns are read, and how rows become tensors."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gauge.data import Dataset
from gauge.data.dataset import as_values
from gauge.registry import pick
from gauge.tabular.columns import (
    COLUMNS,
    KINDS,
    PRETRAINED,
    Category,
    Cell,
    Column,
    Image,
    Number,
    PretrainedText,
    Words,
    infer_kind,
    missing,
)
from gauge.tabular.pretrained import Pretrained
from gauge.types import Batch

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Encoded:
    """A table's rows as modalities, and which rows have nothing at all."""

    inputs: dict[str, Tensor]
    observed: dict[str, Tensor]
    empty: np.ndarray

    def rows(self, chosen: np.ndarray) -> "Encoded":
        index = torch.from_numpy(chosen)
        inputs, observed = ({name: each[index] for name, each in part.items()} for part in (self.inputs, self.observed))
        return Encoded(inputs, observed, self.empty[chosen])

    def batches(self, device: torch.device, size: int = 1024) -> Iterator[Batch]:
        """The rows that have something, `size` at a time; `index` is their place in the table."""
        full = np.flatnonzero(~self.empty)
        for start in range(0, len(full), size):
            part = self.rows(full[start : start + size])
            inputs = {name: as_values(values) for name, values in part.inputs.items()}
            yield Batch(inputs, part.observed, index=torch.from_numpy(full[start : start + size])).to(device)


@dataclass(frozen=True)
class Schema:
    """The columns that are read, and why others are not. Numbers and categories form one modality, `table`, with a flag
    for each cell; every text and image column is one of its own: `text0`, `image0`, `image1` ...

    >>> schema = Schema.of(pd.DataFrame({"age": [41, None, 7], "sex": ["f", "m", ""]}))
    >>> [(column.name, column.kind) for column in schema.columns], schema.cardinalities
    ([('age', 'number'), ('sex', 'category')], (1, 2))
    """

    columns: tuple[Column, ...]
    ignored: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        frame: pd.DataFrame,
        kinds: Mapping[str, str] | None = None,
        encoders: Mapping[str, str | Path] | None = None,
        *,
        side: int = 64,
    ) -> "Schema":
        """From the training rows; `kinds` says what a column holds where guessing would be wrong, `encoders` which
        pretrained model reads it."""
        kinds, encoders = dict(kinds or {}), dict(encoders or {})
        for name, kind in kinds.items():
            pick(dict.fromkeys(map(str, frame.columns)), name, "column")
            pick(dict.fromkeys(KINDS), kind, "kind of column")
        for name in encoders:
            pick(dict.fromkeys(map(str, frame.columns)), name, "column to encode")
        columns: list[Column] = []
        ignored: dict[str, str] = {}
        for label in frame.columns:
            name, values = str(label), frame[label].rename(str(label))
            kind, reason = (kinds[name], "you said so") if name in kinds else infer_kind(values)
            if name in encoders and kind not in PRETRAINED:
                raise ValueError(
                    f"pretrained encoders read columns of kind {' and '.join(PRETRAINED)}, but {name!r} is of kind "
                    f"{kind!r}; leave it out of encoders=, or say what it holds in columns="
                )
            if kind == "ignore":
                ignored[name] = reason
            elif missing(values).all():
                ignored[name] = "it is empty"
            elif name in encoders:
                columns.append(PRETRAINED[kind].of(values, str(encoders[name])))
            else:
                columns.append(Image(name, side) if kind == "image" else COLUMNS[kind].of(values))
        if not columns:
            reasons = "; ".join(f"{name!r}: {reason}" for name, reason in ignored.items())
            raise ValueError(
                f"no column can be read ({reasons}); give at least one that varies, or name kinds in columns="
            )
        return cls(tuple(columns), ignored)

    @property
    def table(self) -> tuple[Cell, ...]:
        """The columns of numbers and categories."""
        return tuple(column for column in self.columns if isinstance(column, Number | Category))

    @property
    def modalities(self) -> dict[str, tuple[Column, ...]]:
        """The columns behind each modality."""
        found: dict[str, tuple[Column, ...]] = {"table": self.table} if self.table else {}
        for kind in ("text", "image"):
            same = [column for column in self.columns if column.kind == kind]
            found |= {f"{kind}{place}": (column,) for place, column in enumerate(same)}
        return found

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """How many categories each column of the table has, 1 for numbers."""
        return tuple(column.cardinality for column in self.table)

    @property
    def encoders(self) -> dict[str, str]:
        """The names or paths of pretrained models, by the columns that they read."""
        models = {column.name: getattr(column, "model", None) for column in self.columns}
        return {name: model.source for name, model in models.items() if model}

    def encode(self, frame: pd.DataFrame, folder: Path | None = None) -> Encoded:
        """The rows as tensors; pictures are looked for in `folder`. A column that is gone counts as missing."""
        gone = [column.name for column in self.columns if column.name not in frame]
        if gone:
            logger.warning("column %r is not there (%d such); it counts as missing in every row", gone[0], len(gone))
        found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        for modality, (first, *_) in self.modalities.items():
            if isinstance(first, Image):
                found[modality] = first.encode(self._column(frame, first), folder or Path())
            elif isinstance(first, Words):
                found[modality] = first.encode(self._column(frame, first))
            else:
                cells = np.stack([column.encode(self._column(frame, column)) for column in self.table], 1)
                there = ~np.isnan(cells)
                found[modality] = np.where(there, cells, 0.0).astype(np.float32), there
        inputs = {modality: torch.from_numpy(values) for modality, (values, _) in found.items()}
        observed = {modality: torch.from_numpy(there) for modality, (_, there) in found.items()}
        filled = torch.stack([_cells(flags).any(1) for flags in observed.values()]).any(0)
        return Encoded(inputs, observed, ~filled.numpy())

    def blank(self, rows: int) -> Dataset:
        """A split of this form with nothing in it, for imputers whose tensors are still to be loaded."""
        empty = pd.DataFrame({column.name: [np.nan] for column in self.columns}, dtype=object)
        encoded = self.encode(empty)
        inputs = {name: values.expand(rows, *values.shape[1:]) for name, values in encoded.inputs.items()}
        observed = {
            name: torch.ones(rows, *flags.shape[1:], dtype=torch.bool) for name, flags in encoded.observed.items()
        }
        return Dataset("train", inputs, torch.zeros(rows, dtype=torch.long), observed)

    def _column(self, frame: pd.DataFrame, column: Column) -> pd.Series:
        if column.name in frame:
            return frame[column.name]
        return pd.Series(np.nan, frame.index, name=column.name, dtype=object)

    def missing_rates(self, encoded: Encoded) -> dict[str, float]:
        """The share of rows in which each column is missing."""
        rates: dict[str, float] = {}
        for modality, columns in self.modalities.items():
            flags = _cells(encoded.observed[modality]).float()
            rates |= dict(zip((column.name for column in columns), (1 - flags.mean(0)).tolist(), strict=True))
        return {column.name: rates[column.name] for column in self.columns}

    def to_json(self) -> dict[str, Any]:
        columns = [{"kind": column.kind, **vars(column)} for column in self.columns]
        for values in columns:
            if values.get("model"):
                values["model"] = values["model"].to_json()
        return {"columns": columns, "ignored": dict(self.ignored)}

    def save_tokenizers(self, folder: Path) -> None:
        """What `to_json` leaves out: a folder for each pretrained text, by its place among the columns."""
        for place, column in enumerate(self.columns):
            if isinstance(column, PretrainedText):
                column.model.tokenizer.save_pretrained(folder / str(place))

    @classmethod
    def from_json(cls, content: Mapping[str, Any], tokenizers: Path = Path()) -> "Schema":
        columns = []
        for place, each in enumerate(content["columns"]):
            values: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value for name, value in each.items()
            }
            kind, model = values.pop("kind"), values.pop("model", None)
            if model:
                model = Pretrained.from_json(model, tokenizers / str(place))
                columns.append(PRETRAINED[kind](**values, model=model))
            else:
                columns.append(COLUMNS[kind](**values))
        return cls(tuple(columns), dict(content["ignored"]))


def _cells(flags: Tensor) -> Tensor:
    """One flag for each column of a modality."""
    return flags[:, None] if flags.ndim == 1 else flags
