"""Rows of a table as arrays, one for each modality. No torch here: exported models read tables with this module."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gauge.tabular.columns import COLUMNS, PRETRAINED, Cell, Column, Image, Words
from gauge.tabular.pretrained import Pretrained, with_tuples

logger = logging.getLogger(__name__)


def cells(columns: Iterable[Column]) -> tuple[Cell, ...]:
    """The columns of numbers and categories."""
    return tuple(column for column in columns if isinstance(column, Cell))


def by_modality(columns: Sequence[Column]) -> dict[str, tuple[Column, ...]]:
    """The columns of each modality: `table`, and one for every text and image."""
    table = cells(columns)
    modalities: dict[str, tuple[Column, ...]] = {"table": table} if table else {}
    for kind in ("text", "image"):
        same = [column for column in columns if column.kind == kind]
        modalities |= {f"{kind}{index}": (column,) for index, column in enumerate(same)}
    return modalities


def encode_rows(
    columns: Sequence[Column], frame: pd.DataFrame, folder: Path = Path()
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The values and flags of each modality; image paths are relative to `folder`. A column that the table lacks counts as
    missing."""
    names = [column.name for column in columns]
    if lacking := [name for name in names if name not in frame]:
        logger.warning("column %r (first of %d) is not in the table; counted as missing", lacking[0], len(lacking))
    frame = frame.reindex(columns=names)
    encoded: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for modality, (first, *_) in by_modality(columns).items():
        if isinstance(first, Image):
            encoded[modality] = first.encode(frame[first.name], folder)
        elif isinstance(first, Words):
            encoded[modality] = first.encode(frame[first.name])
        else:
            values = np.stack([column.encode(frame[column.name]) for column in cells(columns)], 1)
            encoded[modality] = np.where(np.isnan(values), 0.0, values).astype(np.float32), ~np.isnan(values)
    return encoded


def columns_from_json(content: Sequence[Mapping[str, Any]], tokenizers: Path = Path()) -> tuple[Column, ...]:
    """The columns that `Schema.to_json` wrote; `tokenizers` holds a folder for each pretrained text."""
    columns = []
    for index, column in enumerate(content):
        values = with_tuples(column)
        kind, model = values.pop("kind"), values.pop("model", None)
        if model:
            values["model"] = Pretrained.from_json(model, tokenizers / str(index))
        columns.append((PRETRAINED if model else COLUMNS)[kind](**values))
    return tuple(columns)
