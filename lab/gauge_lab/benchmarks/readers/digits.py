"""Digits from the official files of MNIST (IDX) and SVHN (.mat), as byte images and labels 0 to 9."""

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import UInt8
from sklearn.model_selection import train_test_split

from gauge_lab.benchmarks.readers.notes import part_note

MNIST_FOLDERS = ("MNIST/raw", "raw", ".")
MNIST_FILE = "train-images-idx3-ubyte*"  # plain or .gz
MNIST_SIZES = {"train": 60_000, "t10k": 10_000}


class Digits(NamedTuple):
    """Images [n, height, width] or [n, channels, height, width] and their labels."""

    images: UInt8[np.ndarray, "n ..."]
    labels: UInt8[np.ndarray, "n"]


def read_mnist(folder: Path, part: str) -> Digits:
    """One part of MNIST, `train` or `t10k`."""
    images = read_idx(folder / f"{part}-images-idx3-ubyte", 3)
    labels = read_idx(folder / f"{part}-labels-idx1-ubyte", 1)
    if len(images) != len(labels):
        raise ValueError(f"{folder} has {len(images):,} {part} images but {len(labels):,} labels; download both again")
    shape, most = list(images.shape[1:]), labels.max(initial=0)
    if shape != [28, 28] or most > 9:
        raise ValueError(f"{folder}: {part} images are {shape} with labels up to {most}; MNIST has [28, 28] and 0 to 9")
    return Digits(images, labels)


def read_idx(path: Path, axes: int) -> UInt8[np.ndarray, "..."]:
    """The array in an IDX file, or in `path`.gz if only that exists: a magic number, big-endian sizes, bytes."""
    path, content = _content(path)
    header, magic = 4 + 4 * axes, bytes((0, 0, 8, axes))  # 8: unsigned bytes
    if content[:4] != magic:
        raise ValueError(f"{path} starts with {content[:4].hex()}, not {magic.hex()}; give the official IDX file")
    if len(content) < header:
        raise ValueError(f"{path} ends inside its header, after {len(content)} of {header} bytes; download it again")
    shape, size = struct.unpack_from(f">{axes}I", content, 4), len(content) - header
    if size != math.prod(shape):
        raise ValueError(f"{path} holds {size:,} bytes, but its header says {list(shape)}; download it again")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def _content(path: Path) -> tuple[Path, bytes]:
    packed = path.with_name(f"{path.name}.gz")
    if path.is_file():
        return path, path.read_bytes()
    if not packed.is_file():
        raise ValueError(f"there is neither {path} nor {packed.name}; put one of them in {path.parent}")
    try:
        return packed, gzip.decompress(packed.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{packed} is damaged ({error}); download it again") from error


def read_svhn(path: Path) -> Digits:
    """The cropped digits ("format 2") in a .mat file; its label 10 means the digit 0."""
    arrays = _load_mat(path)
    missing = {"X", "y"} - set(arrays)
    if missing:
        raise ValueError(f"{path} has no {' and no '.join(sorted(missing))}; give the file of SVHN's cropped digits")
    pixels, labels = arrays["X"], arrays["y"].ravel()
    if pixels.dtype != np.uint8 or pixels.shape[:-1] != (32, 32, 3) or pixels.shape[-1] != len(labels):
        content = f"X of shape {list(pixels.shape)} ({pixels.dtype}) and {len(labels):,} labels y"
        raise ValueError(f"{path} holds {content}; SVHN's cropped digits are bytes [32, 32, 3, {len(labels)}]")
    outside = labels[~np.isin(labels, np.arange(1, 11))]
    if len(outside):
        raise ValueError(f"{path} has the label {outside[0]}; SVHN's go from 1 to 10, where 10 means the digit 0")
    return Digits(np.ascontiguousarray(pixels.transpose(3, 2, 0, 1)), (labels % 10).astype(np.uint8))


def mnist_split(folder: Path, split: str) -> tuple[Digits, str]:
    """The digits of one split, and a note about them; val and test divide MNIST's test digits."""
    part = "train" if split == "train" else "t10k"
    return _part_of(read_mnist(folder, part), split, folder, "MNIST prefix", MNIST_SIZES[part])


def svhn_split(folder: Path, split: str) -> tuple[Digits, str]:
    """The digits of one split, and a note; without a val file, val and test divide SVHN's test digits."""
    if split != "train" and (folder / "val_32x32.mat").is_file():
        digits = read_svhn(folder / f"{split}_32x32.mat")
        return digits, f"SVHN: {len(digits.labels):,} {split} digits, as the given val and test files divide them"
    part = "train" if split == "train" else "test"
    path = folder / f"{part}_32x32.mat"
    return _part_of(read_svhn(path), split, path, "SVHN prefix", {"train": 73_257, "test": 26_032}[part])


def _part_of(digits: Digits, split: str, source: Path, lead: str, official: int) -> tuple[Digits, str]:
    what = "training digits" if split == "train" else "test digits"
    note = part_note(lead, len(digits.labels), official, what)
    if split == "train":
        return digits, note
    rows = split_val_test(digits.labels, source)[split]
    return Digits(digits.images[rows], digits.labels[rows]), note


def split_val_test(labels: np.ndarray, source: Path) -> dict[str, np.ndarray]:
    """The rows of val (30 %) and test (70 %) among the test digits of a file, sorted.

    NOTE[PAPER] polymnist-split: 3,000 and 7,000 of MNIST's test digits are validation and test, but which ones is not
    published; here the draw is stratified by class and has a fixed seed.
    """
    rows = np.arange(len(labels))
    try:
        # 7,000 of MNIST's 10,000 test digits; the others are for validation
        val, test = train_test_split(rows, test_size=0.7, stratify=labels, random_state=2025)
    except ValueError as error:
        raise ValueError(f"the {len(rows)} digits of {source} cannot be divided into val and test: {error}") from error
    return {"val": np.sort(val), "test": np.sort(test)}


def _load_mat(path: Path) -> dict[str, Any]:
    from scipy.io import loadmat

    if not path.is_file():
        raise ValueError(f"{path} does not exist; download SVHN's cropped digits (format 2) into {path.parent}")
    try:
        return loadmat(path, variable_names=["X", "y"])
    except Exception as error:  # a damaged file raises anything, from IndexError to zlib.error
        raise ValueError(f"{path} cannot be read as a .mat file ({error}); download it again") from error
