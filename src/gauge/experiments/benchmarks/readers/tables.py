"""Tables beside pictures: columns as numbers or category codes with a flag for each cell, rows divided into splits."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from sklearn.model_selection import train_test_split
from torch import Tensor

from gauge.masks import parse_protocols

SPLIT_SEED = 2025

GAMMA_PROTOCOLS = parse_protocols(
    "complete", "gamma=0.1", "gamma=0.3", "gamma=0.5", "gamma=0.7", "gamma=0.9", "gamma=1"
)


def read_table(path: Path, columns: Sequence[str], *, key: str, filled: Sequence[str] = ()) -> pd.DataFrame:
    """Those columns of a .csv file, one row for each `key`, in its order; no cell of `key` and `filled` is empty."""
    if not path.is_file():
        raise ValueError(f"{path} is not there; unpack it there with the pictures")
    try:
        table = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as a table ({error}); download it again") from error
    absent = [name for name in columns if name not in table]
    if absent:
        raise ValueError(f"{path} has no column {absent[0]!r} ({len(absent)} such); give the official table")
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
    """The place of each cell's word among the categories; NaN where the cell is empty or holds the word for `unknown`.

    >>> codes(pd.Series(["male", "unknown", "female"], name="sex"), ("female", "male"), Path("people.csv"))
    array([ 1., nan,  0.])
    """
    words = (*categories, unknown) if unknown else tuple(categories)
    other = column[column.notna() & ~column.isin(words)]
    if len(other):
        raise ValueError(f"{path}: {column.name} is {other.iloc[0]!r}; it is one of {', '.join(words)}")
    return column.map({word: float(place) for place, word in enumerate(categories)}).to_numpy(np.float64)


def standardised(values: Float[np.ndarray, "n f"], fit: Int[np.ndarray, "rows"]) -> Float[np.ndarray, "n f"]:
    """Each column less its mean, over its deviation (unbiased), both taken from the rows `fit` alone.

    A column that is the same in all of them is only centred; NaN stays NaN.
    """
    chosen = pd.DataFrame(values[fit])
    deviation = chosen.std().fillna(0.0).to_numpy()
    centred: np.ndarray = values - chosen.mean().fillna(0.0).to_numpy()
    return centred / np.where(deviation > 0, deviation, 1.0)


def as_cells(values: Float[np.ndarray, "n f"]) -> tuple[Float[Tensor, "n f"], Tensor]:
    """The table as a modality: its values with 0 in the gaps, and which cells are there."""
    observed = ~np.isnan(values)
    return torch.from_numpy(np.where(observed, values, 0.0).astype(np.float32)), torch.from_numpy(observed)


def divide(strata: np.ndarray, source: Path, *, val: float, test: float, fold: int = 0) -> dict[str, np.ndarray]:
    """The numbers of the entries that each split has, in order: those shares of every stratum, by a fixed draw for each
    `fold`."""
    seed = SPLIT_SEED + fold
    entries = np.arange(len(strata))
    try:
        rest, held_out = train_test_split(entries, test_size=test, stratify=strata, random_state=seed)
        count = round(val * len(entries))
        fit, chosen = train_test_split(rest, test_size=count, stratify=strata[rest], random_state=seed)
    except ValueError as error:
        raise ValueError(
            f"the {len(strata)} entries of {source} cannot be divided into train, val and test ({error}); give more of them"
        ) from error
    return {"train": np.sort(fit), "val": np.sort(chosen), "test": np.sort(held_out)}
