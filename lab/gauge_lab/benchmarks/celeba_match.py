"""CelebA, matching: does a description of ten attributes fit a face; image or description alone says nothing about it."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int

from gauge.data import Dataset
from gauge.data.images import read_images
from gauge.masks import AnyCells
from gauge.training.settings import TrainSettings
from gauge_lab.benchmarks import Benchmark, Modality, StageSettings
from gauge_lab.benchmarks._image_table import SMALL, image_table
from gauge_lab.benchmarks.celeba import BENCHMARK as CELEBA
from gauge_lab.benchmarks.celeba import CROPS, FACES, PARTS, SIDE, all_attributes
from gauge_lab.benchmarks.celeba_table import attribute_values, column_names
from gauge_lab.benchmarks.readers.squares import find_images
from gauge_lab.benchmarks.readers.tables import GAMMA_PROTOCOLS, image_table_dataset

__all__ = ["BENCHMARK"]

DESCRIBED = (
    *("Bangs", "Black_Hair", "Blond_Hair", "Brown_Hair", "Eyeglasses", "Male", "Mouth_Slightly_Open", "Smiling"),
    *("Wearing_Hat", "Young"),
)


@cache
def read(split: str, data: Path) -> Dataset:
    """One split: all faces with their own descriptions (class 1), then all faces with those of others (class 0).

    Every face and every description is as often in one class as in the other, so neither alone says anything about it.
    """
    folder, attributes, partition, note = all_attributes(data, DESCRIBED[0])
    faces = attributes[partition == PARTS[split]]
    descriptions = attribute_values(faces, DESCRIBED, folder)
    images = read_images(find_images([folder / FACES], list(faces.index)), SIDE, crops=CROPS)
    own, other = np.arange(len(faces)), other_rows(descriptions, seed=2025 + PARTS[split])
    shown, described, labels = np.tile(own, 2), np.concatenate([own, other]), np.repeat([1, 0], len(own))
    pairs = image_table_dataset(split, images[shown], descriptions[described], labels, note)
    return replace(pairs, groups=torch.from_numpy(shown))


def other_rows(descriptions: Float[np.ndarray, "n f"], *, seed: int) -> Int[np.ndarray, "n"]:
    """A random permutation under which every row gets a description that is not its own."""
    draw = np.random.default_rng(seed)
    kind = np.unique(descriptions, axis=0, return_inverse=True)[1].reshape(-1)
    order = draw.permutation(len(kind))
    for row in np.flatnonzero(kind[order] == kind):
        if kind[order[row]] != kind[row]:
            continue  # it has been the partner of another
        swappable = np.flatnonzero((kind[order] != kind[row]) & (kind != kind[row]))
        if not len(swappable):
            raise ValueError("more than half of the faces of a split have one description; give more of them")
        partner = draw.choice(swappable)
        order[[row, partner]] = order[[partner, row]]
    return order


SHARED: dict[str, Any] = {"schedule": "cosine", "patience": None, "precision": "tf32", "augment": "faces"}
SELECTED: dict[str, Any] = SHARED | {"selection": GAMMA_PROTOCOLS}

BENCHMARK = Benchmark(
    name="celeba_match",
    **image_table(
        Modality((3, SIDE, SIDE), "conv_grid", vector="conv_flat"), column_names(DESCRIBED), resnet=0, waves=8, **SMALL
    ),
    num_classes=2,
    settings=StageSettings(
        imputer=TrainSettings(epochs=60, batch_size=128, **SHARED),
        backbone=TrainSettings(epochs=50, batch_size=128, masks=AnyCells(), **SELECTED),
        experts=TrainSettings(epochs=50, batch_size=128, **SHARED),
        finetune=TrainSettings(epochs=50, batch_size=128, masks=AnyCells(), **SELECTED),
        own_plus=TrainSettings(epochs=50, batch_size=128, masks=AnyCells(), **SHARED),
    ),
    read=read,
    files=CELEBA.files,
    vector_dim=128,
)
