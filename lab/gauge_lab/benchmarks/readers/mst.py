"""MNIST-SVHN-Text as DyMo's preparation leaves it: digits in .pt files, house numbers in .mat files, pairs as indices."""

from pathlib import Path

import numpy as np
from jaxtyping import Int
from torch import Tensor

from gauge_lab.benchmarks.readers.digits import Digits, read_svhn
from gauge_lab.benchmarks.readers.folders import first_folder
from gauge_lab.benchmarks.readers.pt import load_pt

MNIST_FILES = {"train": "training.pt", "val": "val.pt", "test": "test.pt"}
Pairs = tuple[Int[np.ndarray, "n"], Int[np.ndarray, "n"]]


def prepared_folder(data: Path) -> Path | None:
    folders = ("MoPoE/MNIST_SVHN_TEXT", "MNIST_SVHN_TEXT", ".")
    return first_folder(data, folders, f"MNIST/processed/{MNIST_FILES['train']}")


def prepared_digits(folder: Path, split: str) -> tuple[Digits, Digits]:
    """The digits of MNIST and of SVHN, divided into splits as the files are."""
    path = folder / "MNIST" / "processed" / MNIST_FILES[split]
    content = load_pt(path, "a pair of tensors")
    pair = isinstance(content, tuple | list) and len(content) == 2 and all(isinstance(part, Tensor) for part in content)
    if not pair or content[0].shape != (len(content[1]), 28, 28) or content[1].max() > 9:
        raise ValueError(f"{path} holds no images [n, 28, 28] and n labels from 0 to 9; give the prepared file")
    images, labels = content
    mnist = Digits(images.numpy().astype(np.uint8), labels.numpy().astype(np.uint8))
    return mnist, read_svhn(folder / "SVHN" / f"{split}_32x32.mat")


def prepared_pairs(folder: Path, split: str, mnist: Digits, svhn: Digits) -> Pairs | None:
    """Which digits make a sample together, if the preparation has left its indices.

    NOTE[PAPER] mst-pairs: DyMo's code draws the pairs and leaves their indices in files; with these files the samples are
    the published ones, without them the same rule draws other pairs.
    """
    paths = [folder / "MNIST_SVHN" / "processed" / f"{split}-ms-{name}-idx.pt" for name in ("mnist", "svhn")]
    if not all(path.is_file() for path in paths):
        return None
    left, right = (np.asarray(load_pt(path, "a tensor of indices")).astype(np.int64) for path in paths)
    for path, rows, digits in zip(paths, (left, right), (mnist, svhn), strict=True):
        if rows.ndim != 1 or len(left) != len(right) or rows.min() < 0 or rows.max() >= len(digits.labels):
            raise ValueError(
                f"{path} holds {list(rows.shape)} indices up to {rows.max()}, for {len(digits.labels)} digits and "
                f"{len(left)} pairs; take all files from one preparation"
            )
    wrong = np.flatnonzero(mnist.labels[left] != svhn.labels[right])
    if len(wrong):
        raise ValueError(
            f"{paths[1]} pairs different digits in row {wrong[0]} ({len(wrong)} such); take all files from one preparation"
        )
    return left, right
