"""Cells of any type as those that columns read: texts, numbers, dates, durations, arrays of numbers, missing ones."""

import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from datetime import date, timedelta
from fractions import Fraction
from operator import is_
from typing import Any

import numpy as np
import pandas as pd

from gauge.tabular.table.dates import NUMERIC_TYPES

MIN_SAMPLES = 8  # of an array that is kept as one; shorter ones are texts
HIDDEN = "[\u200b-\u200d\u2060\ufeff\u00ad]"
# characters of scripts without spaces between words: Thai, Lao, Khmer, Japanese and Chinese; each is read as a word
SINGLE = "\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
WORD = rf"[{SINGLE}]|[^\W{SINGLE}]+"
# in lower case
MISSING = frozenset({"", ".", "?", "na", "n/a", "#n/a", "nan", "nat", "null", "unknown", "missing", "-", "--"})


def missing(column: pd.Series) -> np.ndarray:
    """True where a cell is NaN, None, NaT, blank, or a word such as "NA", "?" and "unknown"."""
    absent = pd.isna(column.to_numpy() if isinstance(column.dtype, np.dtype) else column.array)
    if column.dtype.kind in "biufMm":
        return np.asarray(absent)
    cells = column.tolist()
    words = (isinstance(cell, str) and cell.strip().lower() in MISSING for cell in cells)
    return np.asarray(absent) | np.fromiter(words, bool, len(cells))


def is_missing(cell: Any) -> bool:
    """`missing` of one cell."""
    if isinstance(cell, str):
        return cell.strip().lower() in MISSING
    return bool(pd.api.types.is_scalar(cell) and pd.isna(cell))


def written_alike(names: Iterable[str]) -> list[str]:
    """Those of different names that differ from another one only in spaces or capital letters.

    >>> written_alike(["red", "blue", "Red "])
    ['Red ', 'red']
    """
    written = sorted(names)
    alike = [normal_form(name) for name in written]
    count = Counter(alike)
    return [name for name, each in zip(written, alike, strict=True) if count[each] > 1]


def normal_form(name: str) -> str:
    """A name that is `visible`, without capital letters and with single spaces.

    >>> normal_form("  Rot\u200b  weiß")
    'rot weiß'
    """
    return " ".join(visible(name).split()).lower()


def visible(text: str) -> str:
    """A text without characters that nobody sees, with accents as one character each (NFC), and in UTF-8 where that was
    read in the code page of Western Europe.

    >>> visible("ZÃ¼rich")
    'Zürich'
    """
    if text.isascii():
        return text
    with suppress(UnicodeError):
        text = text.encode("cp1252").decode()
    return unicodedata.normalize("NFC", re.sub(HIDDEN, "", text))


def has_category_type(values: pd.Series) -> bool:
    """Whether pandas holds the values as categories or truth values, whatever they look like."""
    return pd.api.types.is_bool_dtype(values) or isinstance(values.dtype, pd.CategoricalDtype)


def as_words(values: pd.Series) -> pd.Series:
    """Values as texts that Python's regular expressions read: those of Arrow know fewer escapes and no letters but ASCII."""
    return values.astype(str).astype(object)


def without_fraction(value: Any) -> str:
    """A value as text without spaces around it, that of 1.0 is 1, since pandas turns integers into floats where cells are
    missing.

    >>> without_fraction(-7.0), without_fraction(" 7.10")
    ('-7', '7.10')
    """
    return re.sub(r"^(-?\d+)\.0$", r"\1", str(value).strip())


def written(value: Any) -> str:
    """A cell as people write it, without the noise of binary fractions."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def plain(column: pd.Series) -> pd.Series:
    """The column with texts, numbers, dates, durations, arrays of numbers and missing cells only: other objects become
    text."""
    kind = column.dtype
    if isinstance(kind, np.dtype) and kind.kind in "biufM":
        return column
    if isinstance(kind, pd.SparseDtype):
        return pd.Series(np.asarray(column), column.index, name=column.name)
    if column.dtype.kind == "m":
        return column if isinstance(kind, np.dtype) else pd.to_timedelta(column.astype(object))
    if isinstance(kind, pd.PeriodDtype | pd.IntervalDtype | pd.ArrowDtype) or column.dtype.kind == "c":
        column = column.astype(object)
    if isinstance(kind, pd.CategoricalDtype):
        categories = [value if isinstance(value, str | int | float) else str(value) for value in kind.categories]
        return column if categories == list(kind.categories) else column.map(str, na_action="ignore").astype("category")
    return column if column.dtype != object else plain_cells(column).infer_objects()


def plain_cells(column: pd.Series) -> pd.Series:
    """As `plain`, but texts and other objects are a column of objects: finding a type for them takes longer than reading
    them, and the arrays that pandas keeps texts in are slow to read."""
    if isinstance(column.dtype, pd.StringDtype):
        return pd.Series(cells_of(column), column.index, object, column.name)
    if column.dtype != object:
        return plain(column)
    given = column.tolist()
    cells = [_plain_cell(value) for value in given]
    return column if all(map(is_, cells, given)) else pd.Series(cells, column.index, object, column.name)


def cells_of(column: pd.Series | pd.Index) -> list[Any]:
    """The cells of a column, None for texts that are missing. `tolist` takes a hundred times as long for the texts that
    pandas keeps in Arrow."""
    kind = column.dtype
    if isinstance(kind, pd.StringDtype) and kind.storage == "pyarrow":
        cells: list[Any] = column.array.__arrow_array__().to_pylist()  # the protocol of Arrow
        return cells
    return column.tolist()


def absent_files(values: pd.Series, kind: str) -> list[str]:
    """How many files do not exist, in a sentence, if there are any of these."""
    return [f"{len(values)} {kind} files do not exist, first {values.iloc[0]!r}"] if len(values) else []


def paths_or_bytes(column: pd.Series, *kept: type) -> pd.Series:
    """The column of images or signals with bytes, and other types that are kept, as they are, and anything else as in
    `plain`."""
    cells = [value if isinstance(value, (bytes, *kept)) else _plain_cell(value) for value in column]
    return pd.Series(cells, column.index, object, column.name)


def is_pixels(value: Any) -> bool:
    """Whether it is an array of pixels with colours: [height, width, colours]."""
    return isinstance(value, np.ndarray) and value.ndim == 3 and value.shape[2] in (1, 3, 4)


def _samples(values: Any) -> np.ndarray | None:
    """The numbers of an array or a list; None if it is none."""
    try:
        samples = np.asarray(values)
        samples = samples.astype(np.float64) if samples.dtype == object else samples  # None becomes NaN
    except (TypeError, ValueError):
        return None
    return samples if samples.dtype.kind in "biuf" and samples.ndim in (1, 2) else None


def _as_array(value: Any) -> np.ndarray:
    """A tensor or a series, also one with gradients, on a GPU or in bfloat16, which NumPy does not have."""
    value = value.detach().cpu() if hasattr(value, "detach") else value
    try:
        return np.asarray(value.float() if str(getattr(value, "dtype", "")) == "torch.bfloat16" else value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"a cell is a {type(value).__name__} that is no array ({error}); give arrays of NumPy"
        ) from error


def _plain_cell(value: Any) -> Any:
    value = float(value) if isinstance(value, Fraction) else value
    if isinstance(value, int) and value.bit_length() > 1000:
        return "an integer beyond 1e300"  # it cannot be a float, and Python may refuse to print it
    if isinstance(value, str):  # lone surrogates cannot be written anywhere
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if hasattr(value, "__array__") and not isinstance(value, np.ndarray | np.generic):  # of torch, or a series
        array = _as_array(value)
        value = array if array.ndim else array.item()
    kept = (*NUMERIC_TYPES, date) if not isinstance(value, np.complexfloating | np.timedelta64) else ()
    if value is None or is_pixels(value) or (isinstance(value, kept) and value is not pd.NaT):
        return value
    if value is pd.NA or value is pd.NaT or (isinstance(value, np.datetime64) and np.isnat(value)):
        return None
    if isinstance(value, np.ndarray | list | tuple) and (samples := _samples(value)) is not None:
        return samples if samples.size >= MIN_SAMPLES else str(samples.tolist())  # as JSON has it
    if isinstance(value, bytes) and len(value) > 100:  # a file, whose start says of which kind it is
        return f"{value[:16]!r}, {len(value)} bytes, {zlib.crc32(value):08x}"
    if isinstance(value, timedelta | np.timedelta64):
        return str(pd.Timedelta(value))  # 0 days 06:00:00, as 6:00:00 is a time of day
    if isinstance(value, set | frozenset):  # whose order changes with every process
        value = sorted(value, key=str)
    return _plain_cell(str(list(value) if isinstance(value, tuple) else value))  # (5,) is not -5
