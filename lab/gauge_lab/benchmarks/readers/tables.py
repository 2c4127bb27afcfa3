"""Tables of image-and-table data sets: columns as numbers or category codes, rows divided into splits."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int, UInt8
from sklearn.model_selection import StratifiedKFold, train_test_split

from gauge.data import Dataset
from gauge.masks import parse_protocols
from gauge_lab.benchmarks.readers.notes import join_notes

SPLIT_SEED = 2025

GAMMA_PROTOCOLS = parse_protocols("complete", *(f"gamma={rate}" for rate in (0.1, 0.3, 0.5, 0.7, 0.9, 1)))


def read_table(path: Path, columns: Sequence[str], *, key: str, filled: Sequence[str] = ()) -> pd.DataFrame:
    """These columns of a .csv file, sorted by `key`, which is unique; no cell of `key` and `filled` is empty."""
    if not path.is_file():
        raise ValueError(f"{path} does not exist; unpack it there with the images")
    try:
        table = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as a table ({error}); download it again") from error
    missing = [name for name in columns if name not in table]
    if missing:
        raise ValueError(f"{path} has no column {missing[0]!r} ({len(missing)} such); give the official table")
    for name in (key, *filled):
        if table[name].isna().any():
            row = int(table[name].isna().argmax()) + 1
            raise ValueError(f"{path}: {name} is empty in row {row}; fill it in, or leave the row out")
    twice = table[key][table[key].duplicated()]
    if len(twice):
        raise ValueError(f"{path} has the {key} {twice.iloc[0]} twice; keep one row for each")
    return table.sort_values(key, ignore_index=True)[list(columns)]


def numbers(table: pd.DataFrame, path: Path) -> Float[np.ndarray, "n f"]:
    """Continuous columns; NaN where a cell is empty."""
    values = table.apply(pd.to_numeric, errors="coerce")
    wrong = np.argwhere((values.isna() & table.notna()).to_numpy() | np.isinf(values.to_numpy(float)))
    if len(wrong):
        row, column = wrong[0]
        value = table.iat[row, column]
        raise ValueError(f"{path}: {table.columns[column]} is {value!r}, not a number; leave unknown cells empty")
    return values.to_numpy(np.float64)


def codes(
    column: pd.Series, categories: Sequence[str], path: Path, *, unknown: str | None = "unknown"
) -> Float[np.ndarray, "n"]:
    """The index of each cell's category; NaN where the cell is empty or `unknown`.

    >>> codes(pd.Series(["male", "unknown", "female"], name="sex"), ("female", "male"), Path("people.csv"))
    array([ 1., nan,  0.])
    """
    words = (*categories, unknown) if unknown else tuple(categories)
    other = column[column.notna() & ~column.isin(words)]
    if len(other):
        raise ValueError(f"{path}: {column.name} is {other.iloc[0]!r}; it is one of {', '.join(words)}")
    return column.map({word: float(index) for index, word in enumerate(categories)}).to_numpy(np.float64)


def standardised(values: Float[np.ndarray, "n f"], fit: Int[np.ndarray, "rows"]) -> Float[np.ndarray, "n f"]:
    """Each column minus its mean, over its unbiased standard deviation, both from the rows `fit` alone. A column that is
    constant there is only centred; NaN stays NaN."""
    chosen = pd.DataFrame(values[fit])
    deviation = chosen.std().fillna(0.0).to_numpy()
    centred: np.ndarray = values - chosen.mean().fillna(0.0).to_numpy()
    return centred / np.where(deviation > 0, deviation, 1.0)


def image_table_dataset(
    split: str, images: UInt8[np.ndarray, "n 3 h w"], values: Float[np.ndarray, "n f"], labels: np.ndarray, note: str
) -> Dataset:
    """The modalities `image` and `table`; cells that are NaN are missing, with the value 0."""
    observed = ~np.isnan(values)
    cells = np.where(observed, values, 0.0).astype(np.float32)
    inputs = {"image": torch.from_numpy(images), "table": torch.from_numpy(cells)}
    flags = {"table": torch.from_numpy(observed)}
    return Dataset(split, inputs, torch.from_numpy(labels).long(), flags, join_notes(note))


def divide(
    strata: np.ndarray, source: Path, *, val: float, test: float, fold: int = 0, disjoint: bool = False
) -> dict[str, np.ndarray]:
    """The indices of each split, sorted: the shares `val` and `test` of every stratum. Each `fold` has its own seed; with
    `disjoint`, the test splits of the folds 0, 1, ... do not overlap."""
    seed = SPLIT_SEED + fold
    entries = np.arange(len(strata))
    try:
        if disjoint:
            folds = StratifiedKFold(round(1 / test), shuffle=True, random_state=SPLIT_SEED)
            rest, held_out = list(folds.split(entries, strata))[fold]
        else:
            rest, held_out = train_test_split(entries, test_size=test, stratify=strata, random_state=seed)
        count = round(val * len(entries))
        fit, chosen = train_test_split(rest, test_size=count, stratify=strata[rest], random_state=seed)
    except ValueError as error:
        raise ValueError(
            f"the {len(strata)} entries of {source} cannot be split ({error}); give more of them"
        ) from error
    return {"train": np.sort(fit), "val": np.sort(chosen), "test": np.sort(held_out)}
