"""The folder of a data set, under the one that the user gives."""

from collections.abc import Sequence
from pathlib import Path


def first_folder(data: Path, folders: Sequence[str], pattern: str) -> Path | None:
    """The first of the folders under `data` that has something with this name."""
    return next((data / folder for folder in folders if any((data / folder).glob(pattern))), None)


def find_folder(data: Path, folders: Sequence[str], pattern: str, what: str) -> Path:
    """The first such folder; if there is none, an error that names `what` is raised."""
    folder = first_folder(data, folders, pattern)
    if folder is None:
        raise ValueError(f"{data} holds no {what}: nothing named {pattern} in {', '.join(folders)}")
    return folder
