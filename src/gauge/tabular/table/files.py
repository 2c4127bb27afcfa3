"""Tables in files: CSV, TSV and JSON Lines, packed or not, Parquet and Excel sheets, one or many, read whole or in parts."""

import contextlib
import csv
import io
import itertools
import json
import logging
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError
from zipfile import BadZipFile

import pandas as pd

from gauge.tabular.table.packed import open_table
from gauge.tabular.table.paths import LINES, SEPARATORS, SHEETS, kind, packing, table_files

logger = logging.getLogger(__name__)

OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}
EXCEL_ERRORS = (
    "#NULL!",
    "#DIV/0!",
    "#VALUE!",
    "#REF!",
    "#NAME?",
    "#NUM!",
    "#N/A",
    "#GETTING_DATA",
    "#SPILL!",
    "#CALC!",
)
OTHER_CONTENTS = {  # by their first bytes
    b"\x1f\x8b": ("a gzip file", ".csv.gz"),
    b"BZh": ("a bzip2 file", ".csv.bz2"),
    b"\xfd7zXZ": ("an xz file", ".csv.xz"),
    b"PK\x03\x04": ("an Excel sheet or a zip archive", ".xlsx or .csv.zip"),
    b"\xd0\xcf\x11\xe0": ("an old Excel sheet, which has to be saved as .xlsx", ".xlsx"),
    b"PAR1": ("a Parquet file", ".parquet"),
}
MAX_START = 4096  # bytes that are looked at for what a file is
BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff")  # of UTF-16


def read_rows(table: Path, rows: int = sys.maxsize) -> Iterator[pd.DataFrame]:
    """The table, at most `rows` at a time, with one index over all its files. The cells of text files are texts: what they
    mean does not depend on the other cells of their part."""
    start = 0
    for path in table_files(table):
        try:
            for part in _parts(path, kind(path), rows):
                part.index = pd.RangeIndex(start, start + len(part))
                start += len(part)
                yield part
        except UnicodeDecodeError as error:
            plain = path.stem if packing(path) else path.name
            raise ValueError(
                f"{path} is not written in UTF-8 (byte {error.start}); save it in UTF-8 (of a spreadsheet: CSV UTF-8), or "
                f"convert it: iconv -f WINDOWS-1252 -t UTF-8 {plain} > utf8{kind(path)}"
            ) from error
        except ValueError as error:  # those of pandas, too
            raise ValueError(f"{path} cannot be read as a table ({_reason(error)})") from error
    if not start:
        raise ValueError(f"{table} has no rows; give a table with some")


def read_table_file(table: Path) -> pd.DataFrame:
    """The whole table; a column of texts that are all numbers, or all True and False, has that type."""
    parts = list(read_rows(table))
    return with_types(table, pd.concat(parts) if len(parts) > 1 else parts[0])


def with_types(table: Path, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of a table, with types where its files have none."""
    return rows.apply(_typed) if kind(table_files(table)[0]) in SEPARATORS else rows


def _parts(path: Path, suffix: str, rows: int) -> Iterator[pd.DataFrame]:
    if suffix == ".parquet":
        yield from _parquet(path, rows)
    elif suffix in LINES:
        yield from _json_lines(path, rows)
    elif suffix in SHEETS:
        yield from _sheet(path, rows)
    else:
        options: dict[str, Any] = {"sep": SEPARATORS[suffix], "dtype": str, "encoding": _encoding(path)}
        options["sep"] = _separator(path, options)
        options["skipinitialspace"] = _has_spaces(path, options)
        several = _check_header(path, options) > 1  # in a single column an empty line is a missing value
        with (
            open_table(path) as file,
            pd.read_csv(file, **options, index_col=False, skip_blank_lines=several, chunksize=rows) as parts,
        ):
            quotes_checked = fields_checked = not several
            for part in parts:
                if not quotes_checked and _long_quotes(part):
                    _check_quotes(path, options)
                    quotes_checked = True
                if not fields_checked and part.iloc[:, -1].isna().any():
                    _check_fields(path, options)
                    fields_checked = True
                _check_repeated(part)
                yield part


def _encoding(path: Path) -> str:
    """UTF-8, or UTF-16 where the file begins with its mark; an error for what is no text."""
    with open_table(path) as file:
        start = file.read(MAX_START)
    for magic, (what, ending) in OTHER_CONTENTS.items():
        if start.startswith(magic):
            raise ValueError(
                f"its content is that of {what}, whatever its name; if it is one, let its name end in {ending}"
            )
    if start[:2] in BYTE_ORDER_MARKS and b"\0\0" not in start[:4]:
        return "utf-16"
    if b"\0" in start:
        raise ValueError("it has zero bytes, which text has not; if it is UTF-16 or UTF-32, save it in UTF-8")
    if re.match(rb"(?:\xef\xbb\xbf)?sep=.\s", start, re.IGNORECASE):
        raise ValueError("its first line, sep=, is not part of the table, and for Excel alone; remove the line")
    return "utf-8-sig"


def _separator(path: Path, options: dict[str, Any]) -> str:
    """That of the file's ending, or another one where the header has none of it: spreadsheets write semicolons where commas
    are decimal."""
    own = str(options["sep"])
    names = _first_lines(path, options, 1).iloc[0]
    other = max(OTHER_SEPARATORS, key=str(names.iloc[0]).count)
    if len(names) > 1 or other not in str(names.iloc[0]) or other == own:
        return own
    logger.info("%s: columns are separated by %s", path, OTHER_SEPARATORS[other])
    return other


def _has_spaces(path: Path, options: dict[str, Any]) -> bool:
    """Whether values in quotes stand after a space (1, "a"), or all names but the first: pandas would take the quotes and
    spaces for a part of the value."""
    names = [str(name) for name in _first_lines(path, options, 1).iloc[0]]
    if len(names) > 1 and all(name.startswith(" ") for name in names[1:]):
        return True
    with _text(path, options["encoding"]) as file:
        return re.search(rf'{re.escape(options["sep"])} +"[^"]', file.read(MAX_START)) is not None


def _check_header(path: Path, options: dict[str, Any]) -> int:
    """The number of columns. Pandas would rename the second of two equal names, and take the first column for an index
    where the first row has more fields than the header."""
    names = _first_lines(path, options, 1).iloc[0].dropna()
    if names.duplicated().any():
        raise ValueError(f"column {names[names.duplicated()].iloc[0]!r} occurs twice; rename one of them")
    return _first_lines(path, options, 2).shape[1]


def _first_lines(path: Path, options: dict[str, Any], count: int) -> pd.DataFrame:
    with open_table(path) as file:
        return pd.read_csv(file, **options, header=None, nrows=count)


@contextlib.contextmanager
def _text(path: Path, encoding: str) -> Iterator[io.TextIOWrapper]:
    """The characters of a file, with the ends of lines as they are."""
    with open_table(path) as file, io.TextIOWrapper(file, encoding, newline="") as text:
        yield text


def _long_quotes(part: pd.DataFrame) -> bool:
    """Whether a value has both a line break and a quote, as what a quote that is not closed swallows has."""
    return any("\n" in cell and '"' in cell for name in part for cell in part[name] if isinstance(cell, str))


def _dialect(options: dict[str, Any]) -> dict[str, Any]:
    """For the reader of Python, which checks what pandas reads."""
    return {"delimiter": options["sep"], "skipinitialspace": options["skipinitialspace"]}


def _check_quotes(path: Path, options: dict[str, Any]) -> None:
    """Pandas takes all up to the next quote for one value where a quote is not closed, and all rows between for its text."""
    with _text(path, options["encoding"]) as file:
        reader, last = csv.reader(file, **_dialect(options), strict=True), 0
        try:
            for _ in reader:
                last = reader.line_num
        except csv.Error as error:
            if reader.line_num > last + 1:
                raise ValueError(
                    f"the row of line {last + 1} has a quote that is not closed before line {reader.line_num}; close it, "
                    'and write quotes within quoted values twice ("")'
                ) from error


def _check_fields(path: Path, options: dict[str, Any]) -> None:
    """Pandas takes the values that a line lacks for missing ones, also where the file ends within a line."""
    with _text(path, options["encoding"]) as file:
        reader = csv.reader(file, **_dialect(options))
        with contextlib.suppress(csv.Error):  # of what pandas has read
            lines = (fields for fields in reader if len(fields) > 1 or "".join(fields).strip())
            header = len(next(lines))
            for fields in lines:
                if len(fields) < header:
                    raise ValueError(
                        f"line {reader.line_num} has {len(fields)} fields, but the header has {header}; if the file is "
                        f"complete, write a separator ({options['sep']!r}) for each value that is missing"
                    )


def _check_repeated(part: pd.DataFrame) -> None:
    """Files that were joined have their header more than once."""
    again = part.index[part.iloc[:, 0] == part.columns[0]]
    again = again[(part.loc[again] == part.columns).all(axis=1)]
    if len(again) and len(part.columns) > 1:
        raise ValueError(f"row {again[0]} repeats the header, as in files that were joined; remove it")


def _reason(error: ValueError) -> str:
    text = " ".join(str(error).split())
    if "No columns to parse" in text:
        return "it is empty; give a header and rows"
    if "EOF inside string" in text:
        return "its last row has a quote that is not closed; the file may have been cut off"
    fields = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", text)
    if not fields:
        return text
    return (
        f"line {fields[2]} has {fields[3]} fields, but the header has {fields[1]}; remove titles above the header and "
        "separators at the end of lines, and put quotes around values that contain one"
    )


def _typed(column: pd.Series) -> pd.Series:
    """Numbers, if all texts are written as Python writes them: 007 and 1.50 stay texts."""
    values = column.dropna()
    if len(values) and values.isin(["True", "False"]).all():
        return column.map({"True": True, "False": False}).astype(bool) if len(values) == len(column) else column
    numbers = pd.to_numeric(values, errors="coerce")
    if not len(values) or numbers.isna().any() or not (numbers.astype(str) == values).all():
        return column
    return pd.to_numeric(column)


def _json_lines(path: Path, rows: int) -> Iterator[pd.DataFrame]:
    """Every line an object; types are those of JSON (pandas would turn "007" into 7 and some columns into dates)."""
    with _text(path, _encoding(path)) as file:
        lines = ((number, line) for number, line in enumerate(file, 1) if line.strip())
        while part := [_json_object(number, line) for number, line in itertools.islice(lines, rows)]:
            yield pd.DataFrame(part, dtype=object)


class RepeatedKeyError(ValueError):
    """Of two values for one key Python would keep the last."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise RepeatedKeyError(next(name for index, name in enumerate(names) if name in names[:index]))
    return dict(pairs)


def _json_object(number: int, line: str) -> dict[str, Any]:
    try:
        record = json.loads(line, object_pairs_hook=_unique)
    except RepeatedKeyError as error:
        raise ValueError(f"line {number} has the key {str(error)!r} twice; remove one") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"line {number} is not JSON: {error}") from error
    if not isinstance(record, dict):
        raise ValueError(f'line {number} is not an object; write one for each row, {{"column": value, ...}}')
    return record


def _parquet(path: Path, rows: int) -> Iterator[pd.DataFrame]:
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ValueError("reading Parquet needs pyarrow; install it with: pip install 'gauge-ml[parquet]'") from error
    try:
        with ParquetFile(path, page_checksum_verification=True) as file:
            for batch in file.iter_batches(min(rows, max(1, file.metadata.num_rows))):
                batch.validate(full=True)
                yield batch.to_pandas()
    except OSError as error:
        raise ValueError(f"it is damaged: {error}; write it again") from error


def _sheet(path: Path, rows: int) -> Iterator[pd.DataFrame]:
    """The first visible sheet of a workbook: the names of the columns in the first row that has values, then the rows, of
    which blank ones are left out. Types are those of Excel; its errors, such as #N/A, are missing."""
    try:
        with contextlib.closing(_workbook(path, values=True)) as book, contextlib.closing(_workbook(path)) as written:
            shown = [number for number, sheet in enumerate(book.worksheets) if sheet.sheet_state == "visible"] or [0]
            sheet, other = (each.worksheets[shown[0]] for each in (book, written))
            if len(shown) > 1:
                logger.warning("%s: sheet %r is read, the first of %d", path, sheet.title, len(shown))
            lines = _cells(sheet, other)
            _, first = next(lines, (0, ()))
            names = [f"Unnamed: {index}" if cell is None else str(cell) for index, cell in enumerate(first)]
            if repeated := [name for index, name in enumerate(names) if name in names[:index]]:
                raise ValueError(f"column {repeated[0]!r} occurs twice; rename one of them")
            while part := list(itertools.islice(lines, rows)):
                for number, cells in part:
                    if len(cells) > len(names):
                        raise ValueError(
                            f"row {number} has {len(cells)} values, but the first row names {len(names)} columns; remove "
                            "titles above the names, and values beside the table"
                        )
                blank = len(names) * (None,)
                yield pd.DataFrame([(*cells, *blank)[: len(names)] for _, cells in part], columns=names, dtype=object)
    except (BadZipFile, KeyError, OSError, ParseError, TypeError) as error:
        raise ValueError(f"it is damaged, or has a password ({error}); save it again") from error


def _workbook(path: Path, *, values: bool = False) -> Any:
    """A workbook to read once, with the `values` of formulas that Excel has stored, or as it is written."""
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise ValueError(
            "reading Excel sheets needs openpyxl; install it with: pip install 'gauge-ml[excel]'"
        ) from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of styles, which are not read
        return load_workbook(path, read_only=True, data_only=values)


def _cells(values: Any, written: Any) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """The number and the cells of each row that has any, up to the last one; an error where a formula has no value."""
    for sheet in (values, written):
        sheet.reset_dimensions()  # what a file says of its own size may be wrong
    both = zip(values.iter_rows(values_only=True), written.iter_rows(values_only=True), strict=True)
    for number, (cells, formulas) in enumerate(both, 1):
        if any(cell is None and given is not None for cell, given in zip(cells, formulas, strict=True)):
            given = next(
                given for cell, given in zip(cells, formulas, strict=True) if cell is None and given is not None
            )
            raise ValueError(
                f"row {number} has a formula without its value ({str(given)[:50]}); open the file in Excel and save it, or "
                "put values in the place of formulas"
            )
        known = [None if isinstance(cell, str) and cell in EXCEL_ERRORS else cell for cell in cells]
        while known and (known[-1] is None or known[-1] == ""):
            known.pop()
        if known:
            yield number, tuple(known)
