"""Polysum: the sum of two digits modulo 10, from three views of each digit; one digit alone says nothing about it."""

from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from gauge.data import Dataset
from gauge.masks import parse_protocols
from gauge_lab.benchmarks import EXPERTS, Benchmark
from gauge_lab.benchmarks._mopoe import mopoe_settings
from gauge_lab.benchmarks.polymnist import BENCHMARK as POLYMNIST
from gauge_lab.benchmarks.readers.digits import MNIST_FILE, MNIST_FOLDERS, mnist_split
from gauge_lab.benchmarks.readers.folders import find_folder
from gauge_lab.benchmarks.readers.polymnist import build_views, photos, view_dataset

__all__ = ["BENCHMARK", "digit_sum"]

DIGITS = ("a", "b")
VIEWS_OF_DIGIT = 3
VIEWS = tuple(f"{digit}{view}" for digit in DIGITS for view in range(VIEWS_OF_DIGIT))
SPLITS = ("train", "val", "test")
SEED = 2025


@cache
def read(split: str, data: Path, *, num_classes: int) -> Dataset:
    """One split, always the same for the same files under `data`; the sum is taken modulo the number of classes."""
    views, sums, note = digit_pairs(split, data)
    source = "views on your own photos" if (data / "photos").is_dir() else ""
    return view_dataset(split, views, sums % num_classes, source, note, names=VIEWS)


@cache
def digit_pairs(split: str, data: Path) -> tuple[list[np.ndarray], np.ndarray, str]:
    """The views of both digits, the sums and a note on the digits. There are as many pairs as digits in the split.

    The views of a digit are those of PolyMNIST: each shows another handwriting on a crop of the photo of that view. Every
    image of MNIST is in each view once, and digits are paired at random.
    """
    mnist = find_folder(data, MNIST_FOLDERS, MNIST_FILE, "MNIST")
    digits, note = mnist_split(mnist, split)
    backgrounds = photos(data / "photos")[:VIEWS_OF_DIGIT]
    pairs, sums = [], np.zeros(len(digits.labels), np.int64)
    for number in range(len(DIGITS)):
        seed = SEED + len(SPLITS) * number + SPLITS.index(split)
        views, labels = build_views(digits.images, digits.labels, backgrounds, seed=seed)
        order = np.random.default_rng([seed, SEED]).permutation(len(labels))
        pairs += [view[order] for view in views]
        sums += labels[order]
    return pairs, sums, note


PROTOCOLS = parse_protocols("complete", "views=2", "views=1", "eta=0.5")


def digit_sum(name: str, num_classes: int) -> Benchmark:
    """The benchmark that asks for the sum of two digits modulo the number of classes, with the networks of PolyMNIST."""
    return replace(
        POLYMNIST,
        name=name,
        modalities=dict.fromkeys(VIEWS, POLYMNIST.modalities["m0"]),
        num_classes=num_classes,
        protocols=PROTOCOLS,
        settings=replace(
            mopoe_settings(PROTOCOLS, imputer_epochs=60, epochs=15), experts=EXPERTS.model_copy(update={"epochs": 15})
        ),
        read=partial(read, num_classes=num_classes),
        files="MNIST/raw and, if you have them, five photos in photos",
        small_init=False,
    )


BENCHMARK = digit_sum("polysum", 10)
