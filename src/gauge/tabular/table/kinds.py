"""What a column probably holds: numbers, categories, texts, images, or nothing to learn from; and every guess in words."""

import re

import pandas as pd

from gauge.choices import pick
from gauge.tabular.table.columns import COLUMNS, IMAGE_SUFFIXES, missing
from gauge.tabular.table.numbers import Writing, looks_like_codes

ENOUGH = 20  # values; with fewer, that all are different means little
UUID = r"\{?[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\}?"
IMAGE_BYTES = r"b['\"](?:\\x89PNG|\\xff\\xd8|GIF8|RIFF|II\*|MM\\x00)"  # the files of images, as Python writes bytes
IDENTIFIER = r"(?:^|[\s_.-])(?:id|ids|uuid|guid|index|key)$|^[a-z]+I[dD]$|^unnamed: 0$"  # names of columns
CODE = r"(?:^|[\s_.-])(?:zip|zipcode|zip code|postal|postcode|plz|code)$"


def pick_kind(name: str) -> None:
    """An error if there is no kind of column with this name."""
    pick({**COLUMNS, "ignore": None}, name, "kind of column")


def infer_kind(column: pd.Series) -> tuple[str, str]:
    """The kind of a column, and the reason if it is ignored or had to be guessed.

    >>> infer_kind(pd.Series(["a.png", None, "b.png"])), infer_kind(pd.Series([1.5, 2.0]))
    (('image', ''), ('number', ''))
    >>> infer_kind(pd.Series(["3.10.2020", "24.12.2021"]))
    ('number', 'dates, day first (%d.%m.%Y)')
    """
    values = column[~missing(column)]
    if not len(values):
        return "ignore", "it is empty"
    if values.astype(str).nunique() == 1 and not _images(values):
        return "ignore", "it is constant"
    if pd.api.types.is_bool_dtype(values) or isinstance(column.dtype, pd.CategoricalDtype):
        return "category", ""
    if (_named(values, CODE) and _whole(values)) or looks_like_codes(values):
        return _category(values, "digits are read as codes, not as a number")
    if writing := Writing.of(values):
        identifier = "" if writing.date else _running(values)
        return ("ignore", identifier) if identifier else ("number", writing.note)
    return _kind_of_text(values.astype(str))


def _kind_of_text(words: pd.Series) -> tuple[str, str]:
    if _images(words):
        return "image", ""
    if words.str.fullmatch(UUID).mean() > 0.9:
        return "ignore", "its values are UUIDs"
    if words.nunique() > ENOUGH and words.str.count(r"\w+").mean() >= 3:
        return "text", ""
    return _category(words, "")


def _category(values: pd.Series, note: str) -> tuple[str, str]:
    words = values.astype(str)
    if words.nunique() == len(words) > ENOUGH and not words.str.contains(r"\s").any():
        return "ignore", "every value is different, as in an identifier"
    return "category", note


def _images(values: pd.Series) -> bool:
    words = values.astype(str)
    return bool((words.str.lower().str.endswith(IMAGE_SUFFIXES) | words.str.match(IMAGE_BYTES)).mean() > 0.8)


def _running(values: pd.Series) -> str:
    """Why integers that are all different are an identifier, empty if they are not."""
    if len(values) <= ENOUGH or not _whole(values) or values.nunique() < len(values):
        return ""
    steps = pd.to_numeric(values, errors="coerce").diff().iloc[1:]
    if (steps == 1).all():
        return "its values are running numbers, as in an identifier"
    return "every value is different, and its name is that of an identifier" if _named(values, IDENTIFIER) else ""


def _whole(values: pd.Series) -> bool:
    numbers = pd.to_numeric(values.astype(object), errors="coerce")
    return bool((numbers % 1 == 0).all())


def _named(values: pd.Series, pattern: str) -> bool:
    name = str(values.name)
    return bool(re.search(pattern, name) or re.search(pattern, name.lower()))
