"""Files in TIP's layout: lists in .pt files, tables without header, images as .npy arrays that a list points to."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int

from gauge.data.dataset import Dataset
from gauge_lab.benchmarks.readers.notes import part_note
from gauge_lab.benchmarks.readers.pt import load_pt
from gauge_lab.benchmarks.readers.squares import read_arrays
from gauge_lab.benchmarks.readers.tables import image_table_dataset

SIDE = 128


class Files(NamedTuple):
    table: str
    labels: str
    images: str
    lengths: str


def read_split(
    split: str, data: Path, folder: Path, files: Files, *, columns: Mapping[str, int], num_classes: int, official: int
) -> Dataset:
    """One split in the order of its files. Images that are not where their list says are searched under `data`."""
    path, cardinalities = folder / files.lengths, list(columns.values())
    if read_list(path) != cardinalities:
        raise ValueError(f"{path} lists {read_list(path)} categories, not {cardinalities}; give the published table")
    values = read_features(folder / files.table, np.array(cardinalities))
    labels = read_labels(folder / files.labels, num_classes)
    names = read_list(folder / files.images)
    rows = {files.table: len(values), files.labels: len(labels), files.images: len(names)}
    if len(set(rows.values())) > 1:
        raise ValueError(f"{folder} has different numbers of rows: {rows}; take all three files from one preparation")
    images = read_arrays(find_arrays(names, (folder, folder.parent, data), folder / files.images), SIDE)
    note = part_note("part of the published rows", len(labels), official, f"{split} rows")
    return image_table_dataset(split, images, values, labels, note)


def read_list(path: Path) -> list[Any]:
    """The list in a .pt file, of plain values or NumPy scalars; nothing in the file is executed."""
    content = load_pt(path, "a plain list")
    if isinstance(content, torch.Tensor):
        content = content.tolist()
    if not isinstance(content, list) or not content:
        raise ValueError(f"{path} holds {type(content).__name__}, not a list with entries; save one with torch.save")
    return content


def read_labels(path: Path, num_classes: int) -> np.ndarray:
    labels = read_list(path)
    for row, label in enumerate(labels, 1):
        if label not in range(num_classes):
            raise ValueError(f"{path}: the label in row {row} is {label!r}; give classes from 0 to {num_classes - 1}")
    return np.array(labels, dtype=np.int64)


def read_features(path: Path, cardinalities: Int[np.ndarray, "f"]) -> Float[np.ndarray, "n f"]:
    """The table in a .csv file without header; an empty cell is NaN."""
    try:
        values = pd.read_csv(path, header=None, dtype=np.float64).to_numpy()
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{path} cannot be read as numbers without header ({error}); give the published table"
        ) from error
    if values.shape[1] != len(cardinalities):
        raise ValueError(f"{path} has {values.shape[1]} columns; the published table has {len(cardinalities)}")
    wrong = (values != np.floor(values)) | (values < 0) | (values >= cardinalities)
    for row, column in np.argwhere(wrong & (cardinalities > 1) & ~np.isnan(values)):
        cell = f"row {row + 1} has {values[row, column]:g} in column {column}"
        raise ValueError(f"{path}: {cell}; give codes from 0 to {cardinalities[column] - 1}, with categories first")
    return values


def find_arrays(names: Sequence[Any], roots: Sequence[Path], source: Path) -> list[Path]:
    """The .npy file of each named image: at that path or, without some of its leading folders, under a root. The
    first image decides for all."""
    written = [Path(str(name)).with_suffix(".npy") for name in names]
    if written[0].is_absolute() and written[0].is_file():
        return written
    for left_out in range(len(written[0].parts)):
        for root in roots:
            if root.joinpath(*_tail(written[0], left_out)).is_file():
                paths = [root.joinpath(*_tail(path, left_out)) for path in written]
                if len(set(paths)) < len(set(written)):
                    raise ValueError(f"{source} lists several images that would be {paths[0]}; keep their folders")
                return paths
    searched = ", ".join(str(root) for root in dict.fromkeys(roots))
    raise ValueError(f"{source} lists {names[0]}, but there is no {written[0].name} under {searched}; put it there")


def _tail(path: Path, left_out: int) -> tuple[str, ...]:
    return path.relative_to(path.anchor).parts[left_out:] or (path.name,)
