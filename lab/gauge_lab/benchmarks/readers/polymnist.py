"""The PolyMNIST recipe: a digit in several handwritings, each inverted into a random crop of its view's own photo."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_sample_image

from gauge.data import Dataset
from gauge.data.images import open_image
from gauge.masks import RandomModalities
from gauge_lab.benchmarks.readers.notes import join_notes

VIEWS = tuple(f"m{view}" for view in range(5))
Masks = Mapping[str, Mapping[str, torch.Tensor]]


def build_views(
    digits: np.ndarray, labels: np.ndarray, photos: Sequence[np.ndarray], *, seed: int
) -> tuple[list[np.ndarray], np.ndarray]:
    """One uint8 array [samples, 3, side, side] for each photo, and the labels. All views of a sample show the same class.

    Each class and view has its own random order of digits, so views differ in handwriting. Samples are ordered by class.
    """
    draw = np.random.default_rng(seed)
    by_class = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    views = []
    for photo in photos:
        chosen = np.concatenate([draw.permutation(rows) for rows in by_class])
        views.append(_ink_into_crops(digits[chosen], photo, draw))
    return views, np.concatenate([labels[rows] for rows in by_class])


@cache
def package_photos() -> tuple[np.ndarray, ...]:
    """One photo for each view, from the installed packages."""
    try:
        from skimage import data
    except ImportError as error:
        raise ValueError("the photos need scikit-image; install it with: pip install 'gauge-ml[demo]'") from error
    samples = (load_sample_image(name) for name in ("china.jpg", "flower.jpg"))
    return *samples, data.coffee(), data.astronaut(), data.stereo_motorcycle()[0]


def photos(folder: Path) -> tuple[np.ndarray, ...]:
    """One photo for each view, in the order of their names; those of packages if there is no such folder."""
    if not folder.is_dir():
        return package_photos()
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    if len(paths) != len(VIEWS):
        raise ValueError(f"{folder} holds {len(paths)} photos; put exactly {len(VIEWS)} there, one for each view")
    return tuple(np.asarray(open_image(path)) for path in paths)


def view_dataset(
    split: str,
    views: Sequence[np.ndarray],
    labels: np.ndarray,
    *notes: str,
    names: Sequence[str] = VIEWS,
    masks: Masks | None = None,
) -> Dataset:
    inputs = {name: torch.from_numpy(view) for name, view in zip(names, views, strict=True)}
    return Dataset(split, inputs, torch.from_numpy(labels).long(), note=join_notes(*notes), masks=masks or {})


def read_masks(folder: Path, split: str, rows: int) -> Masks:
    """The published masks of a split, by protocol, from those of the files missing_SPLIT_random_RATE.csv that are there:
    no header, a row for each sample, True for a view that is missing.

    NOTE[PAPER] polymnist-masks: published code gives row i to the i-th file as the file system lists them, which is not
    reproducible; here files are in the order of label and index. Without these files the masks are drawn by the same rule.
    """
    masks = {}
    for path in sorted((folder / "missing_modality").glob(f"missing_{split}_random_*.csv")):
        table = pd.read_csv(path, header=None)
        if table.shape != (rows, len(VIEWS)) or not table.isin([True, False]).all(axis=None):
            raise ValueError(
                f"{path} holds {list(table.shape)} values; give True or False for {rows} samples and {len(VIEWS)} views"
            )
        observed = torch.from_numpy(~table.to_numpy(bool))
        protocol = RandomModalities(float(path.stem.rpartition("_")[2]))
        masks[str(protocol)] = dict(zip(VIEWS, observed.unbind(1), strict=True))
    return masks


def list_images(folder: Path) -> tuple[list[str], np.ndarray]:
    """The file names that all views m0 to m4 in `folder` share, ordered by label and then index, and the labels."""
    names = _image_names(folder / VIEWS[0])
    for view in VIEWS[1:]:
        differing = sorted(names.keys() ^ _image_names(folder / view).keys())
        if differing:
            has, lacks = (VIEWS[0], view) if differing[0] in names else (view, VIEWS[0])
            name = f"{differing[0]} ({len(differing)} such)"
            raise ValueError(f"{folder}: {has} has {name} but {lacks} has not; unpack all views from one archive")
    ordered = sorted(names, key=names.__getitem__)
    return ordered, np.array([names[name][0] for name in ordered], dtype=np.int64)


def _image_names(folder: Path) -> dict[str, tuple[int, int]]:
    """Label and index of each image in the folder of a view."""
    if not folder.is_dir():
        raise ValueError(f"{folder} does not exist; every split of PolyMNIST has the views {', '.join(VIEWS)}")
    names = {}
    for path in folder.glob("*.png"):
        match = re.fullmatch(r"(\d+)\.(\d)\.png", path.name)  # index and label
        if match is None:
            raise ValueError(f"{path} is not named INDEX.LABEL.png, such as 17.3.png; rename or remove it")
        names[path.name] = int(match[2]), int(match[1])
    return names


def _ink_into_crops(digits: np.ndarray, photo: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    side = digits.shape[-1]
    height, width, channels = photo.shape
    if channels != 3 or min(height, width) <= side:
        raise ValueError(f"a background must be an RGB photo larger than {side} px, not of shape {list(photo.shape)}")
    crops = np.lib.stride_tricks.sliding_window_view(photo, (side, side), axis=(0, 1))
    top, left = draw.integers(0, height - side, len(digits)), draw.integers(0, width - side, len(digits))
    background = crops[top, left]
    # pixels above it belong to the digit
    return np.where(digits[:, None] > 128, 255 - background, background).astype(np.uint8)
