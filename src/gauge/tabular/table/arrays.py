"""Rows of a table as arrays, one for each modality. No torch here: exported models read tables with this module."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gauge.registry import COLUMNS
from gauge.tabular.table.cells import WORD, cells_of
from gauge.tabular.table.columns import Cell, Column, Content, ImageFiles
from gauge.tabular.table.guard import warn

MAX_LISTED_COLUMNS = 20  # in a message
ROWS_AT_ONCE = 5000  # of a table that is read in parts


def cells(columns: Iterable[Column]) -> tuple[Cell, ...]:
    """The columns that form the modality `table`."""
    return tuple(column for column in columns if isinstance(column, Cell))


def contents(columns: Iterable[Column]) -> dict[str, Content]:
    """The columns that are modalities of their own, by the names of these: `text0`, `text1`, `image0` ..."""
    own = sorted((column for column in columns if isinstance(column, Content)), key=lambda column: column.order)
    counts: Counter[str] = Counter()
    modalities = {}
    for column in own:
        modalities[f"{column.kind}{counts[column.kind]}"] = column
        counts[column.kind] += 1
    return modalities


def by_modality(columns: Sequence[Column]) -> dict[str, tuple[Column, ...]]:
    """The columns of each modality, `table` first."""
    table = cells(columns)
    modalities: dict[str, tuple[Column, ...]] = {"table": table} if table else {}
    return modalities | {modality: (column,) for modality, column in contents(columns).items()}


def flag_positions(columns: Sequence[Column]) -> list[int]:
    """Where the flag of each column is, if the flags of all modalities stand side by side."""
    order = [column.name for own in by_modality(columns).values() for column in own]
    position = {name: index for index, name in enumerate(order)}
    return [position[column.name] for column in columns]


def rows_at_once(columns: Iterable[Column]) -> int:
    """The rows of a part, where a table is read in parts; fewer if it has large images.

    >>> from gauge.tabular.table.columns.image import Image
    >>> rows_at_once([]), rows_at_once([Image("photo", 224)])
    (5000, 445)
    """
    values = sum(column.values_per_row for column in contents(columns).values())
    return max(1, min(ROWS_AT_ONCE, 2**26 // max(1, values)))


def encode_rows(
    columns: Sequence[Column], frame: pd.DataFrame, files: ImageFiles = ImageFiles(), *, training: bool = False
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The values and flags of each modality; `training` as in `Schema.encode`."""
    if not training and (row := _only_row(columns, frame)) is not None:
        return _encode_row(columns, row, lambda column: frame[column.name], files)
    series = _series(columns, frame)
    encoded: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    if table := cells(columns):
        numbers = np.empty((len(frame), len(table)))
        for index, cell in enumerate(table):
            numbers[:, index] = cell.numbers(series[cell.name], training=training)
        encoded["table"] = _with_flags(numbers)
    for modality, column in contents(columns).items():
        encoded[modality] = column.encode(series[column.name], files, training=training)
    return encoded


def encode_row(
    columns: Sequence[Column], row: Mapping[str, Any], files: ImageFiles = ImageFiles()
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """What `encode_rows` gives for a table of this one row, whose values are objects."""
    return _encode_row(columns, row, lambda column: column_of(column, [row[column.name]]), files)


def _encode_row(
    columns: Sequence[Column], row: Mapping[str, Any], series: Callable[[Column], pd.Series], files: ImageFiles
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """One row, as values and as columns of one cell, which pandas is slow for: values that can be read without are."""
    encoded: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    if table := cells(columns):
        numbers = np.empty((1, len(table)))
        for index, cell in enumerate(table):
            quick = cell.quick_number(row[cell.name])
            if quick is None:
                quick = cell.numbers(cell.clean(series(cell)))[0]
            numbers[0, index] = quick
        encoded["table"] = _with_flags(numbers)
    for modality, column in contents(columns).items():
        encoded[modality] = column.encode(column.clean(series(column)), files)
    return encoded


def _with_flags(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cells with 0 where they are missing, and which of them are not."""
    known = ~np.isnan(numbers)
    return np.where(known, numbers, 0.0).astype(np.float32), known


def cycles(columns: Iterable[Column], given: Callable[[Column], pd.Series]) -> np.ndarray:
    """The `cycles` of all cells side by side, from the columns that are `given`."""
    parts = [cell.cycles(given(cell)) for cell in cells(columns) if cell.cycle_count]
    return np.concatenate(parts, 1) if parts else np.zeros((0, 0), np.float32)


def _only_row(columns: Sequence[Column], frame: pd.DataFrame) -> dict[str, Any] | None:
    """The values of a table that has one row and all columns of the model. Whatever the type of a column is, texts and
    numbers of Python mean the same in it, and `quick_number` leaves other values to it."""
    if len(frame) != 1 or not frame.columns.is_unique:
        return None
    row = dict(zip(cells_of(frame.columns), frame.to_numpy(object)[0], strict=True))
    return row if all(column.name in row for column in columns) else None


def column_of(column: Column, values: Sequence[Any]) -> pd.Series:
    return pd.Series(values, dtype=object, name=column.name)


def _series(columns: Sequence[Column], frame: pd.DataFrame) -> dict[str, pd.Series]:
    names = [column.name for column in columns]
    given = set(cells_of(frame.columns))
    lacking = [name for name in names if name not in given]
    if len(names) - len(lacking) < 0.5 * len(names):
        raise ValueError(
            f"the table has {len(names) - len(lacking)} of the model's {len(names)} columns, it lacks {lacking[0]!r}; its "
            f"columns are {', '.join(map(repr, frame.columns[:MAX_LISTED_COLUMNS])) or 'none'}. Check header, separator "
            "and names; a column that is really missing can be given empty"
        )
    if lacking:
        warn(f"column {lacking[0]!r} (first of {len(lacking)}) is not in the table; counted as missing")
    absent = {name: pd.Series(np.nan, frame.index, name=name) for name in lacking}
    return {
        name: column.clean(absent[name] if name in absent else frame[name])
        for name, column in zip(names, columns, strict=True)
    }


def columns_from_json(content: Sequence[Mapping[str, Any]], files: Path = Path()) -> tuple[Column, ...]:
    """The columns that `Schema.to_json` wrote; `files` holds a folder for each column that needs one."""
    return tuple(
        COLUMNS.get(column["kind"]).from_json(column, files / str(index)) for index, column in enumerate(content)
    )


def count_terms(texts: Iterable[str], vocabulary: Mapping[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the words and pairs of words of each text that the vocabulary has, and how often each occurs:
    [texts, terms], 0 after the last one. scikit-learn's TfidfVectorizer divides texts in the same way.

    >>> [each.tolist() for each in count_terms(["Sore, sore arm!"], {"arm": 0, "sore": 1, "sore arm": 2})]
    [[[1, 0, 2]], [[2, 1, 1]]]
    """
    counted = []
    for text in texts:
        words = re.findall(WORD, text.lower())
        terms = [*words, *map(" ".join, pairwise(words))]
        counted.append(Counter(vocabulary[term] for term in terms if term in vocabulary))
    longest = max((len(each) for each in counted), default=0) or 1
    numbers, counts = (np.zeros((len(counted), longest), np.int64) for _ in range(2))
    for row, each in enumerate(counted):
        numbers[row, : len(each)], counts[row, : len(each)] = list(each), list(each.values())
    return numbers, counts
