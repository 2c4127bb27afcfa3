"""Tables in files: CSV, TSV, JSON Lines and Parquet, read whole or in parts."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

SEPARATORS = {".csv": ",", ".tsv": "\t"}
LINES = (".jsonl", ".ndjson")
SUFFIXES = (*SEPARATORS, *LINES, ".parquet")


def read_rows(path: Path, rows: int = sys.maxsize) -> Iterator[pd.DataFrame]:
    """The table, `rows` at a time, with one index over all parts."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"{path} is not a supported table; give a file that ends in {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    empty = True
    try:
        for part in _parts(path, suffix, rows):
            empty = empty and not len(part)
            yield part
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not written in UTF-8 (byte {error.start}); save it in UTF-8") from error
    except ValueError as error:  # those of pandas, too
        raise ValueError(f"{path} cannot be read as a table ({' '.join(str(error).split())})") from error
    if empty:
        raise ValueError(f"{path} has no rows; give a table with some")


def read_table_file(path: Path) -> pd.DataFrame:
    """The whole table."""
    (table,) = read_rows(path)
    return table


def _parts(path: Path, suffix: str, rows: int) -> Iterator[pd.DataFrame]:
    if suffix == ".parquet":
        yield from _parquet(path, rows)
    elif suffix in LINES:
        with pd.read_json(path, lines=True, chunksize=rows) as parts:
            yield from parts
    else:
        _check_header(path, SEPARATORS[suffix])
        with pd.read_csv(path, sep=SEPARATORS[suffix], chunksize=rows, low_memory=False) as parts:
            yield from parts


def _check_header(path: Path, separator: str) -> None:
    """Pandas would rename the second of two equal names, and read a file with another separator as a single column."""
    names = pd.read_csv(path, sep=separator, header=None, nrows=1, dtype=str).iloc[0].dropna()
    if len(names) == 1 and ";" in names.iloc[0]:
        raise ValueError(f"its only column is {names.iloc[0]!r}; separate columns by {separator!r}, not by semicolons")
    if names.duplicated().any():
        raise ValueError(f"column {names[names.duplicated()].iloc[0]!r} occurs twice; rename one of them")


def _parquet(path: Path, rows: int) -> Iterator[pd.DataFrame]:
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ValueError("reading Parquet needs pyarrow; install it with: pip install 'gauge-ml[parquet]'") from error
    start = 0
    with ParquetFile(path) as file:
        for batch in file.iter_batches(min(rows, max(1, file.metadata.num_rows))):
            part = batch.to_pandas()
            part.index = range(start, start + len(part))
            start += len(part)
            yield part
