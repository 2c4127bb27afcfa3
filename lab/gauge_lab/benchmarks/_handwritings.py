"""What benchmarks of handwritten digits without photos share: images drawn from those of the digits, networks and training.

One hidden layer for each image and one block of attention: every method trains within a minute on one CPU core.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Int

from gauge.data import Dataset
from gauge_lab.benchmarks._views import vector_networks
from gauge_lab.benchmarks.polymnist5k import SEED, digits_by_split

SIDE = 14  # of the images, from 28 by averaging 2 x 2 pixels
SAMPLES = {"train": 12000, "val": 1000, "test": 2000}


def draw_digits(split: str, count: int) -> Int[np.ndarray, "n {count}"]:
    """So many random digits for every sample of a split, always the same."""
    return np.random.default_rng([SEED, list(SAMPLES).index(split)]).integers(10, size=(SAMPLES[split], count))


def handwritings(split: str, shown: Mapping[str, Int[np.ndarray, "n"]], labels: Int[np.ndarray, "n"]) -> Dataset:
    """Every view is an image of the digit that it shows, drawn anew from those in the split: images return in many samples,
    but none is in two splits."""
    images, written = digits_by_split()[split]
    halved = images.reshape(-1, SIDE, 2, SIDE, 2).mean((2, 4)).round().astype(np.uint8).reshape(len(images), SIDE**2)
    order, counts = np.argsort(written, kind="stable"), np.bincount(written)
    first = np.cumsum(counts) - counts
    inputs = {}
    for number, (name, digits) in enumerate(shown.items()):
        draw = np.random.default_rng([SEED, list(SAMPLES).index(split), number])
        inputs[name] = torch.from_numpy(halved[order[first[digits] + draw.integers(counts[digits])]])
    return Dataset(split, inputs, torch.from_numpy(labels))


def small_networks(views: Sequence[str], *, epochs: int) -> dict[str, Any]:
    """Fields of a `Benchmark` with these views, and 1,000 training samples to take missing images from."""
    sizes = dict.fromkeys(views, SIDE**2)
    return vector_networks(sizes, epochs=epochs, donors=1000, hidden=256, learning_rate=2e-3)
