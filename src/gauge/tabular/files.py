"""Tables in files: CSV, TSV, JSON Lines and Parquet, whole or some rows at a time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

SEPARATORS = {".csv": ",", ".tsv": "\t"}
LINES = (".jsonl", ".ndjson")
SUFFIXES = (*SEPARATORS, *LINES, ".parquet")


def read_rows(path: Path, rows: int | None = None) -> Iterator[pd.DataFrame]:
    """The table, `rows` at a time (all at once when None); the index goes on from part to part."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"{path} is no table this program reads; give a file that ends in {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    try:
        if suffix == ".parquet":
            parts = _parquet(path, rows)
        elif suffix in LINES:
            parts = _parts(pd.read_json(path, lines=True, chunksize=rows))
        else:
            _check_header(path, SEPARATORS[suffix])
            parts = _parts(pd.read_csv(path, sep=SEPARATORS[suffix], chunksize=rows, low_memory=False))
        empty = True
        for part in parts:
            empty = empty and not len(part)
            yield part
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not written in UTF-8 (byte {error.start}); save it as such") from error
    except ValueError as error:  # pandas' own errors are such
        raise ValueError(f"{path} cannot be read as a table ({' '.join(str(error).split())})") from error
    if empty:
        raise ValueError(f"{path} has no rows; give a table with some")


def read_table_file(path: Path) -> pd.DataFrame:
    """The whole table."""
    (table,) = read_rows(path)
    return table


def _parts(found: Any) -> Iterator[pd.DataFrame]:
    return iter([found]) if isinstance(found, pd.DataFrame) else iter(found)


def _check_header(path: Path, separator: str) -> None:
    """Pandas would rename the second of two equal names, and take a foreign separator for a part of the only name."""
    names = pd.read_csv(path, sep=separator, header=None, nrows=1, dtype=str).iloc[0].dropna()
    if len(names) == 1 and ";" in names.iloc[0]:
        raise ValueError(f"its only column is {names.iloc[0]!r}; separate columns by {separator!r}, not by semicolons")
    twice = names[names.duplicated()]
    if len(twice):
        raise ValueError(f"column {twice.iloc[0]!r} is there twice; rename one of them")


def _parquet(path: Path, rows: int | None) -> Iterator[pd.DataFrame]:
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ValueError("reading Parquet needs pyarrow; install it with: pip install 'gauge-ml[parquet]'") from error
    file = ParquetFile(path)
    start = 0
    for batch in file.iter_batches(rows or max(1, file.metadata.num_rows)):
        part = batch.to_pandas()
        part.index = range(start, start + len(part))
        start += len(part)
        yield part
