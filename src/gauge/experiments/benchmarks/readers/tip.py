"""Files in TIP's layout: lists in .pt files, tables without header, pictures as .npy arrays that a list points to."""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from gauge.data.dataset import Dataset
from gauge.experiments.benchmarks.readers.notes import join_notes, part_note
from gauge.experiments.benchmarks.readers.squares import read_arrays
from gauge.experiments.benchmarks.readers.tables import as_cells

SIDE = 128
NUMPY_SCALAR = np.int64(0).__reduce__()[0]
NUMPY_GLOBALS = [  # lists of numpy's numbers, written by any numpy
    np.dtype,
    *{type(np.dtype(kind)) for kind in ("int32", "int64", "float32", "float64", "bool", "str")},
    *((NUMPY_SCALAR, f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")),
]


@dataclass(frozen=True)
class Files:
    """The four files of one split, by their names in the folder of features."""

    table: str
    labels: str
    pictures: str
    lengths: str


def find_folder(data: Path | None, name: str, folders: Sequence[str], example: str) -> Path:
    """The first of the folders under `data` that holds the file `example`."""
    if data is None:
        raise ValueError(f"{name} needs data; give --data DIR with {folders[0]}/{example}")
    folder = next((data / place for place in folders if (data / place / example).is_file()), None)
    if folder is None:
        raise ValueError(f"{data} holds no data of {name}: there is no {example} in {', '.join(folders)}")
    return folder


def read_split(
    split: str,
    folder: Path,
    files: Files,
    *,
    cardinalities: tuple[int, ...],
    num_classes: int,
    official: int,
    data: Path,
) -> Dataset:
    """One split in the order of its files; pictures that are not where their list says are looked for under `data`."""
    lengths = tuple(read_list(folder / files.lengths))
    if lengths != cardinalities:
        raise ValueError(
            f"{folder / files.lengths} says that the columns have {list(lengths)} categories (1: a number), the benchmark "
            f"{list(cardinalities)}; give the published table"
        )
    values = read_features(folder / files.table, cardinalities)
    labels = read_labels(folder / files.labels, num_classes)
    names = read_list(folder / files.pictures)
    if not len(values) == len(labels) == len(names):
        raise ValueError(
            f"{folder}: {files.table} has {len(values)} rows, {files.labels} {len(labels)} and {files.pictures} "
            f"{len(names)}; take all three from one preparation"
        )
    cells, observed = as_cells(values)
    pictures = read_arrays(find_arrays(names, (folder, folder.parent, data), folder / files.pictures), SIDE)
    return Dataset(
        split,
        {"image": torch.from_numpy(pictures), "table": cells},
        labels,
        {"table": observed},
        join_notes(part_note("part of the published rows", len(labels), official, f"{split} rows")),
    )


def read_list(path: Path) -> list[Any]:
    """The list in a .pt file, of plain values or of numpy's; nothing in the file is executed."""
    if not path.is_file():
        raise ValueError(f"{path} is not there; put the published files into one folder")
    try:
        with torch.serialization.safe_globals(NUMPY_GLOBALS):  # type: ignore[arg-type]
            content = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{path} cannot be read as a list ({reason}); save a plain list there: torch.save") from error
    if isinstance(content, torch.Tensor):
        content = content.tolist()
    if not isinstance(content, list) or not content:
        raise ValueError(
            f"{path} holds {type(content).__name__} and not a list with entries; save one there: torch.save"
        )
    return content


def read_labels(path: Path, num_classes: int) -> torch.Tensor:
    """The class numbers in a .pt file."""
    labels = read_list(path)
    for row, label in enumerate(labels):
        if label not in range(num_classes):
            raise ValueError(
                f"{path}: the label in row {row + 1} is {label!r}; classes are 0 to {num_classes - 1}, so give labels that "
                "are numbered anew without gaps"
            )
    return torch.tensor([int(label) for label in labels])


def read_features(path: Path, cardinalities: tuple[int, ...]) -> Float[np.ndarray, "n f"]:
    """The table in a .csv file without header; an empty cell is NaN, codes fit their number of categories."""
    try:
        table = pd.read_csv(path, header=None, dtype=np.float64)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{path} cannot be read as numbers without a header ({error}); give the published table"
        ) from error
    if table.shape[1] != len(cardinalities):
        raise ValueError(f"{path} has {table.shape[1]} columns; the published table has {len(cardinalities)}")
    values = table.to_numpy()
    sizes = np.array(cardinalities)
    wrong = (values != np.floor(values)) | (values < 0) | (values >= sizes)
    found = np.argwhere(wrong & (sizes > 1) & ~np.isnan(values))
    if len(found):
        row, column = found[0]
        raise ValueError(
            f"{path}: row {row + 1} has {values[row, column]:g} in column {column}, whose categories are 0 to "
            f"{sizes[column] - 1}; give the table of codes, reordered with the categories first"
        )
    return values


def find_arrays(names: Sequence[Any], roots: Sequence[Path], source: Path) -> list[Path]:
    """The .npy file beside each named picture: where the name says or, with leading folders left out, under a root.

    The place of the first decides for all.
    """
    written = [Path(str(name)).with_suffix(".npy") for name in names]
    if written[0].is_absolute() and written[0].is_file():
        return written
    for left_out in range(len(written[0].parts)):
        for root in roots:
            if root.joinpath(*_tail(written[0], left_out)).is_file():
                paths = [root.joinpath(*_tail(path, left_out)) for path in written]
                if len(set(paths)) < len(set(written)):
                    raise ValueError(
                        f"{source} lists different pictures that would all be {paths[0]}; keep their folders under {root}"
                    )
                return paths
    places = ", ".join(str(root) for root in dict.fromkeys(roots))
    raise ValueError(
        f"{source} lists {names[0]}, but there is no {written[0].name} there or, with the end of that path, under {places}; "
        "put the .npy pictures there"
    )


def _tail(path: Path, left_out: int) -> tuple[str, ...]:
    return path.relative_to(path.anchor).parts[left_out:] or (path.name,)
