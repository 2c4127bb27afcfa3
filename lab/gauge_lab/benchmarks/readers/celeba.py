"""The tables of CelebA, from official .csv or .txt files, and its attributes as texts."""

import hashlib
from itertools import compress
from pathlib import Path

import numpy as np
import pandas as pd

TEXT_LENGTH = 256


def read_attributes(folder: Path) -> pd.DataFrame:
    """The attributes of each image, True where present, in the order of the names."""
    path = _table_path(folder, "list_attr_celeba")
    if path.suffix == ".txt":  # the number of images, the names of the attributes, and a line for each image
        table = _read(path, sep=r"\s+", skiprows=1)
        count = path.read_text(encoding="utf-8", errors="replace").partition("\n")[0].strip()
        if count != str(len(table)):
            raise ValueError(f"{path} says {count!r} in its first line but has {len(table)} images; download it again")
    else:
        table = _read(path, index_col="image_id")
    wrong = np.argwhere(~table.isin([-1, 1]).to_numpy())
    if len(wrong):
        row, column = wrong[0]
        value = table.to_numpy()[row, column]
        raise ValueError(f"{path}: {table.columns[column]} of {table.index[row]} is {value}; attributes are -1 or 1")
    return _by_image(table, path) > 0


def read_partition(folder: Path, label: str) -> pd.Series:
    """The part of each image, 0 train, 1 val or 2 test, in the order of the names: DyMo's balanced partition for the label
    if it is there, or the official one.

    NOTE[PAPER] celeba-partition: the paper's sizes of val and test are those of the official partition swapped, and DyMo's
    code reads a partition file of its own, which is not published; without it the official one is used as it is.
    """
    balanced = f"list_eval_partition_{label}_balanced"
    path = _table_path(folder, balanced if (folder / f"{balanced}.csv").is_file() else "list_eval_partition")
    layout = {"sep": r"\s+", "header": None, "names": ["image_id", "partition"]} if path.suffix == ".txt" else {}
    table = _read(path, index_col="image_id", **layout)
    if "partition" not in table:
        raise ValueError(f"{path} has the columns {list(table)} and no partition; give the official file")
    wrong = table.index[~table["partition"].isin([0, 1, 2])]
    if len(wrong):
        value = table["partition"][wrong[0]]
        raise ValueError(f"{path}: the partition of {wrong[0]} is {value}; it is 0 (train), 1 (val) or 2 (test)")
    return _by_image(table, path)["partition"]


def read_texts(folder: Path, images: pd.Index) -> list[str] | None:
    """DyMo's text of each of these images, if the file is there."""
    path = folder / f"list_attr_text_{TEXT_LENGTH}_False_True_celeba.csv"
    if not path.is_file():
        return None
    table = _by_image(_read(path, index_col="image_id", keep_default_na=False), path)
    lacking = images.difference(table.index)
    if "text" not in table or len(lacking):
        what = f"no text of {lacking[0]} ({len(lacking)} such)" if len(lacking) else f"{list(table)} and no text"
        raise ValueError(f"{path} has {what}; give the texts of all images, in the columns image_id and text")
    return [str(text) for text in table["text"][images]]


def attribute_texts(attributes: pd.DataFrame) -> list[str]:
    """The attributes of each image in words, as in "bangs, blond hair, smiling", somewhere in 256 characters.

    NOTE[PAPER] celeba-text: the generator of the published texts is not available. Without their file (`read_texts`) the
    attributes follow the order of the table, padded with '*' on both sides; a hash of the file name decides the start.
    """
    words = [name.replace("_", " ").lower() for name in attributes.columns]
    rows = zip(attributes.index, attributes.to_numpy(), strict=True)
    return [_padded(", ".join(compress(words, present)), name) for name, present in rows]


def _padded(text: str, name: str) -> str:
    room = max(TEXT_LENGTH - len(text), 0)
    draw = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")
    filler = "*"
    return (filler * (draw % (room + 1)) + text).ljust(TEXT_LENGTH, filler)


def _table_path(folder: Path, stem: str) -> Path:
    for suffix in (".csv", ".txt"):
        if (folder / f"{stem}{suffix}").is_file():
            return folder / f"{stem}{suffix}"
    raise ValueError(f"{folder} has neither {stem}.csv nor {stem}.txt; put one of them there")


def _read(path: Path, **options: object) -> pd.DataFrame:
    try:
        return pd.read_csv(path, **options)  # type: ignore[call-overload]
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as a table of images ({error}); download it again") from error


def _by_image(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    twice = table.index[table.index.duplicated()]
    if len(twice):
        raise ValueError(f"{path} has {twice[0]} twice; keep one line for each image")
    return table.sort_index()
