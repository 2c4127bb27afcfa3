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
from collections import Counter
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import ParseError
from zipfile import BadZipFile, ZipFile

import numpy as np
import pandas as pd

from gauge.tabular.table.cells import cells_of
from gauge.tabular.table.guard import warn
from gauge.tabular.table.packed import check_unpacked, open_table
from gauge.tabular.table.paths import LINES, SEPARATORS, SHEETS, kind, packing, table_files

logger = logging.getLogger(__name__)

# what is missing in every file: the words of pandas without None, which is a level, such as that of alcohol
MISSING = ["", "NA", "N/A", "n/a", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "<NA>", "#NA", "#N/A", "#N/A N/A"]
MISSING += ["1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"]


class Dialect(NamedTuple):
    """How a file of text is written, as it was found once: its encoding, what separates columns, whether spaces that follow
    are part of nothing, and how many columns there are."""

    encoding: str
    sep: str = ","
    skipinitialspace: bool = False
    columns: int = 0

    def read_csv(self, file: Any, **options: Any) -> Any:
        spaces = self.skipinitialspace
        options |= {"dtype": str, "keep_default_na": False, "na_values": MISSING}
        return pd.read_csv(file, sep=self.sep, encoding=self.encoding, skipinitialspace=spaces, **options)

    def first_lines(self, path: Path, count: int) -> pd.DataFrame:
        with open_table(path) as file:
            return self.read_csv(file, header=None, nrows=count)

    def reader(self, file: io.TextIOWrapper, *, strict: bool = False) -> Any:
        """That of Python, which checks what pandas reads."""
        return csv.reader(file, delimiter=self.sep, skipinitialspace=self.skipinitialspace, strict=strict)


def read_rows(table: Path, rows: int = sys.maxsize) -> Iterator[pd.DataFrame]:
    """The table, at most `rows` at a time, with one index over all its files. The cells of text files are texts: what they
    mean does not depend on the other cells of their part."""
    start, first, files = 0, None, table_files(table)
    for path in files:
        try:
            for part in _parts(path, kind(path), rows):
                first = part.columns if first is None else first
                if len(other := first.symmetric_difference(part.columns)) and kind(path) not in LINES:
                    warn(f"{path} and {files[0]} do not have the same columns: {other[0]!r} is in one of them alone")
                part = part if kind(path) in SEPARATORS else part.apply(_without_words)
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


def _without_words(column: pd.Series) -> pd.Series:
    """What pandas reads as missing in text is missing in other files, too: otherwise NA would be a class in some of them."""
    if column.dtype.kind in "biufMm":
        return column
    words = np.array([isinstance(cell, str) and cell in MISSING for cell in cells_of(column)], bool)
    return column.mask(words) if words.any() else column


def _parts(path: Path, suffix: str, rows: int) -> Iterator[pd.DataFrame]:
    if suffix == ".parquet":
        return _parquet(path, rows)
    if suffix in SHEETS:
        return _sheet(path, rows)
    return _json_lines(path, rows) if suffix in LINES else _csv(path, SEPARATORS[suffix], rows)


def _csv(path: Path, separator: str, rows: int) -> Iterator[pd.DataFrame]:
    dialect = _sniff(path, separator)
    several = dialect.columns > 1  # in a single column an empty line is a missing value
    with (
        open_table(path) as file,
        dialect.read_csv(file, index_col=False, skip_blank_lines=several, chunksize=rows) as parts,
    ):
        quotes_checked = fields_checked = not several
        for part in parts:
            if not quotes_checked and _long_quotes(part):
                _check_quotes(path, dialect)
                quotes_checked = True
            if not fields_checked and part.iloc[:, -1].isna().any():
                _check_fields(path, dialect)
                fields_checked = True
            _check_repeated(part)
            yield part


def _start(path: Path) -> tuple[bytes, str]:
    """The first bytes of a file and its encoding: UTF-8, or UTF-16 with its mark; an error for what is no text."""
    with open_table(path) as file:
        start = file.read(4096)
        while packing(path) and path.stat().st_size < 2**22 and file.read(2**20):
            pass  # a small file that unpacks to far too much is refused before it is parsed, which takes longer
    for magic, what, ending in (
        (b"\x1f\x8b", "a gzip file", ".csv.gz"),
        (b"BZh", "a bzip2 file", ".csv.bz2"),
        (b"\xfd7zXZ", "an xz file", ".csv.xz"),
        (b"PK\x03\x04", "an Excel sheet or a zip archive", ".xlsx or .csv.zip"),
        (b"\xd0\xcf\x11\xe0", "an old Excel sheet, which has to be saved as .xlsx", ".xlsx"),
        (b"PAR1", "a Parquet file", ".parquet"),
    ):
        if start.startswith(magic):
            raise ValueError(
                f"its content is that of {what}, whatever its name; if it is one, let its name end in {ending}"
            )
    if start[:2] in (b"\xff\xfe", b"\xfe\xff") and b"\0\0" not in start[:4]:
        return start, "utf-16"
    if b"\0" in start:
        raise ValueError("it has zero bytes, which text has not; if it is UTF-16 or UTF-32, save it in UTF-8")
    if re.match(rb"(?:\xef\xbb\xbf)?sep=.\s", start, re.IGNORECASE):
        raise ValueError("its first line, sep=, is not part of the table, and for Excel alone; remove the line")
    return start, "utf-8-sig"


def _sniff(path: Path, separator: str) -> Dialect:
    """The dialect of a file. The separator is that of its ending, or another one where the header has none of it:
    spreadsheets write semicolons where commas are decimal. Values in quotes may stand after a space (1, "a"), and so may all
    names but the first: pandas would take the quotes and spaces for a part of the value. It would also rename the second of
    two equal names, and take the first column for an index where the first row has more fields than the header."""
    start, encoding = _start(path)
    with _text(path, encoding) as file:
        if max(file.readline(2**23).count(each) for each in (separator, ";", "\t")) >= 2**17:
            raise ValueError(
                f"its first line has more than {2**17} fields, which tables have not; check its line breaks"
            )
    dialect = Dialect(encoding, separator)
    names = dialect.first_lines(path, 1).iloc[0]
    others = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}
    other = max(others, key=str(names.iloc[0]).count)
    if len(names) == 1 and other in str(names.iloc[0]) and other != separator:
        logger.info("%s: columns are separated by %s", path, others[other])
        dialect = dialect._replace(sep=other)
        names = dialect.first_lines(path, 1).iloc[0]
    quoted = re.search(rf'{re.escape(dialect.sep)} +"[^"]', start.decode(encoding, "ignore"))
    spaced = len(names) > 1 and all(str(name).startswith(" ") for name in names[1:])
    dialect = dialect._replace(skipinitialspace=spaced or quoted is not None)
    names = dialect.first_lines(path, 1).iloc[0].dropna()
    if names.duplicated().any():
        raise ValueError(f"column {names[names.duplicated()].iloc[0]!r} occurs twice; rename one of them")
    return dialect._replace(columns=dialect.first_lines(path, 2).shape[1])


@contextlib.contextmanager
def _text(path: Path, encoding: str) -> Iterator[io.TextIOWrapper]:
    """The characters of a file, with the ends of lines as they are."""
    with open_table(path) as file, io.TextIOWrapper(file, encoding, newline="") as text:
        yield text


def _long_quotes(part: pd.DataFrame) -> bool:
    """Whether a value has both a line break and a quote, as what a quote that is not closed swallows has."""
    return any("\n" in cell and '"' in cell for name in part for cell in part[name] if isinstance(cell, str))


def _check_quotes(path: Path, dialect: Dialect) -> None:
    """Pandas takes all up to the next quote for one value where a quote is not closed, and all rows between for its text."""
    with _text(path, dialect.encoding) as file:
        reader, last = dialect.reader(file, strict=True), 0
        try:
            for _ in reader:
                last = reader.line_num
        except csv.Error as error:
            if reader.line_num > last + 1:
                raise ValueError(
                    f"the row of line {last + 1} has a quote that is not closed before line {reader.line_num}; close it, "
                    'and write quotes within quoted values twice ("")'
                ) from error


def _check_fields(path: Path, dialect: Dialect) -> None:
    """Pandas takes the values that a line lacks for missing ones, also where the file ends within a line."""
    with _text(path, dialect.encoding) as file:
        reader = dialect.reader(file)
        with contextlib.suppress(csv.Error):  # of what pandas has read
            lines = (fields for fields in reader if len(fields) > 1 or "".join(fields).strip())
            header = len(next(lines))
            for fields in lines:
                if len(fields) < header:
                    raise ValueError(
                        f"line {reader.line_num} has {len(fields)} fields, but the header has {header}; if the file is "
                        f"complete, write a separator ({dialect.sep!r}) for each value that is missing"
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
    exact = numbers.dtype.kind == "f" or len(values) == len(column) or numbers.abs().max() <= 2**53
    return pd.to_numeric(column) if exact else column  # floats, beside blanks, do not know the last digits


def _json_lines(path: Path, rows: int) -> Iterator[pd.DataFrame]:
    """Every line an object; types are those of JSON (pandas would turn "007" into 7 and some columns into dates)."""
    with _text(path, _start(path)[1]) as file:
        lines = ((number, line) for number, line in enumerate(file, 1) if line.strip())
        while part := [_json_object(number, line) for number, line in itertools.islice(lines, rows)]:
            _check_cells(len(part) * len(set().union(*part)), sum(map(len, part)))
            yield pd.DataFrame(part, dtype=object)


def _check_cells(cells: int, written: int) -> None:
    """Rows in which values are far apart take memory and minutes for the empty cells between them."""
    if cells > max(2**24, 100 * written):
        raise ValueError(
            f"its rows have {written} values in {cells} cells, which tables have not; remove empty columns"
        )


def _json_object(number: int, line: str) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Of two values for one key Python would keep the last."""
        repeated.extend(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        return dict(pairs)

    repeated: list[str] = []
    try:
        record = json.loads(line, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"line {number} is not JSON: {error}") from error
    if repeated:
        raise ValueError(f"line {number} has the key {repeated[0]!r} twice; remove one")
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
            if repeated := [name for name, count in Counter(file.schema_arrow.names).items() if count > 1]:
                raise ValueError(f"column {repeated[0]!r} occurs twice; rename one of them")
            for batch in file.iter_batches(min(rows, max(1, file.metadata.num_rows))):
                batch.validate(full=True)
                part = batch.to_pandas()
                yield part.reset_index([name for name in part.index.names if name is not None])
    except OSError as error:
        raise ValueError(f"it is damaged: {error}; write it again") from error


def _sheet(path: Path, rows: int) -> Iterator[pd.DataFrame]:
    """The first visible sheet of a workbook: the names of the columns in the first row that has values, then the rows, of
    which blank ones are left out. Types are those of Excel; its errors, such as #N/A, are missing."""
    try:
        with contextlib.ExitStack() as stack:
            book = stack.enter_context(_workbook(path, values=True))
            shown = [number for number, sheet in enumerate(book.worksheets) if sheet.sheet_state == "visible"] or [0]
            sheet, written = book.worksheets[shown[0]], None
            if len(shown) > 1:
                logger.warning("%s: sheet %r is read, the first of %d", path, sheet.title, len(shown))
            content = _sheet_rows(path, sheet.title)
            if any(re.search(rb"<(?:\w+:)?f[ />]", row) for row in content):  # reading both takes twice as long
                written = stack.enter_context(_workbook(path)).worksheets[shown[0]]
            lines = _cells(sheet, written)
            header, first = next(lines, (0, ()))
            if merged := _merged_cells(content[-1], header):
                raise ValueError(
                    f"cells {merged} are merged, and only the first of them has the value; unmerge them, and fill each"
                )
            names = [f"Unnamed: {index}" if cell is None else str(cell) for index, cell in enumerate(first)]
            if repeated := [name for index, name in enumerate(names) if name in names[:index]]:
                raise ValueError(f"column {repeated[0]!r} occurs twice; rename one of them")
            while part := list(itertools.islice(lines, rows)):
                blank = len(names) * (None,)
                yield pd.DataFrame([(*cells, *blank)[: len(names)] for _, cells in part], columns=names, dtype=object)
    except (AttributeError, BadZipFile, KeyError, OSError, ParseError, TypeError) as error:
        raise ValueError(f"it is damaged, or has a password ({error}); save it again") from error


def _workbook(path: Path, *, values: bool = False) -> Any:
    """A workbook to read once, with the `values` of formulas that Excel has stored, or as it is written."""
    with ZipFile(path) as archive:
        size = sum(each.file_size for each in archive.infolist())
        # openpyxl takes minutes for what gzip does in one
        check_unpacked(path.stat().st_size, size, ratio=50, always=2**22)
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise ValueError(
            "reading Excel sheets needs openpyxl; install it with: pip install 'gauge-ml[excel]'"
        ) from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of styles, which are not read
        return contextlib.closing(load_workbook(path, read_only=True, data_only=values))


def _sheet_rows(path: Path, title: str) -> list[bytes]:
    """The rows of a sheet as they are written, with what follows them; an error for those that no sheet of Excel has, of
    which openpyxl would make as many."""
    with ZipFile(path) as archive:
        book, links = (
            ElementTree.fromstring(archive.read(f"xl/{name}")) for name in ("workbook.xml", "_rels/workbook.xml.rels")
        )
        sheets = {each.get("name"): each for each in book.iter() if each.tag.endswith("}sheet")}
        own = next(value for name, value in sheets[title].items() if name.endswith("}id"))
        target = next(each.get("Target", "") for each in links if each.get("Id") == own)
        content = archive.read(target.removeprefix("/") if target.startswith("/") else f"xl/{target}")
    rows = content.split(b"<row")
    last = max((int(match[1]) for row in rows if (match := re.match(rb'[^>]*?\br="(\d{1,12})', row))), default=0)
    if max(last, len(rows)) > 2**20 + 1 or max(max(len(row) >> 9, row.count(b"<c")) for row in rows) > 2**14:
        raise ValueError("it has more rows, or longer ones, than sheets of Excel have; save it again")
    _check_cells(sum(map(_width, rows)), content.count(b"<c"))
    return rows


def _width(row: bytes) -> int:
    """The column of the last cell of a row, up to which openpyxl makes all."""
    match = re.search(rb'r="([A-Z]{1,3})\d', row[row.rfind(b"<c") :])
    return reduce(lambda number, letter: 26 * number + letter - 64, match[1] if match else b"", 0)


def _merged_cells(content: bytes, header: int) -> str:
    """The first cells that are merged, in the header or below it at least with the last one; empty if there are none."""
    for match in re.finditer(rb'mergeCell [^>]*?ref="(\D+\d+:\D+(\d+))"', content):
        if int(match[2]) >= header:
            return match[1].decode()
    return ""


def _cells(values: Any, written: Any | None) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """The number and the cells of each row that has any, up to the last one; an error where a formula has no value, if any
    is `written`."""
    errors = ["#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#N/A", "#GETTING_DATA", "#SPILL!", "#CALC!"]
    rows = []
    for sheet in filter(None, (values, written)):
        sheet.reset_dimensions()  # what a file says of its own size may be wrong
        rows.append(sheet.iter_rows(values_only=True))
    width = 0
    for number, (cells, *others) in enumerate(zip(*rows, strict=True), 1):
        for cell, given in zip(cells, *others, strict=True) if others else ():
            if cell is None and given is not None:
                raise ValueError(
                    f"row {number} has a formula without its value ({str(given)[:50]}); open the file in Excel and save "
                    "it, or put values in the place of formulas"
                )
        known = [None if isinstance(cell, str) and cell in errors else cell for cell in cells]
        while known and (known[-1] is None or known[-1] == ""):
            known.pop()
        width = width or len(known)
        if len(known) > width:
            raise ValueError(
                f"row {number} has {len(known)} values, but the first row names {width} columns; remove titles above the "
                "names, and values beside the table"
            )
        if known:
            yield number, tuple(known)
