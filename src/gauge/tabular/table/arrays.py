"""Rows of a table as arrays, one for each modality. No torch here: exported models read tables with this module."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gauge.tabular.table.columns import COLUMNS, PRETRAINED, Cell, Column, Image, ImageFiles, Words
from gauge.tabular.table.numbers import paths_or_bytes, plain
from gauge.tabular.table.pretrained import Pretrained, with_tuples

logger = logging.getLogger(__name__)

LISTED = 20  # columns that a message names
ANYWHERE = ImageFiles()
ROWS_AT_ONCE, PIXELS_AT_ONCE = 5000, 2**26  # of a table that is read in parts
LEAST = 0.5  # share of the model's columns that a table needs


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


def rows_at_once(columns: Iterable[Column]) -> int:
    """The rows of a part, where a table is read in parts; fewer if it has large images.

    >>> rows_at_once([]), rows_at_once([Image("photo", 224)])
    (5000, 445)
    """
    pixels = sum(3 * column.side**2 for column in columns if isinstance(column, Image))
    return max(1, min(ROWS_AT_ONCE, PIXELS_AT_ONCE // max(1, pixels)))


def encode_rows(
    columns: Sequence[Column], frame: pd.DataFrame, files: ImageFiles = ANYWHERE, *, training: bool = False
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The values and flags of each modality; `training` as in `Schema.encode`."""
    series = _series(columns, frame)
    encoded: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for modality, (first, *_) in by_modality(columns).items():
        if isinstance(first, Image):
            encoded[modality] = first.encode(series[first.name], files, training)
        elif isinstance(first, Words):
            encoded[modality] = first.encode(series[first.name])
        else:
            values = np.stack([column.encode(series[column.name], training) for column in cells(columns)], 1)
            encoded[modality] = np.where(np.isnan(values), 0.0, values).astype(np.float32), ~np.isnan(values)
    return encoded


def _series(columns: Sequence[Column], frame: pd.DataFrame) -> dict[str, pd.Series]:
    names = [column.name for column in columns]
    lacking = [name for name in names if name not in frame]
    if len(names) - len(lacking) < LEAST * len(names):
        raise ValueError(
            f"the table has {len(names) - len(lacking)} of the model's {len(names)} columns, it lacks {lacking[0]!r}; "
            f"its columns are {', '.join(map(repr, frame.columns[:LISTED])) or 'none'}. Check header, separator and "
            "names; a column that is really missing can be given empty"
        )
    if lacking:
        logger.warning("column %r (first of %d) is not in the table; counted as missing", lacking[0], len(lacking))
    frame = frame.reindex(columns=names)
    return {
        column.name: (paths_or_bytes if isinstance(column, Image) else plain)(frame[column.name]) for column in columns
    }


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
