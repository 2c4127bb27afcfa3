"""Sums of two real digits, each in two handwritings, from digits that come with an ordinary package; nothing to download."""

from functools import cache
from pathlib import Path

import numpy as np
import torch

from gauge.data import Dataset
from gauge.experiments.benchmarks import Benchmark, Modality, StageSettings
from gauge.experiments.benchmarks.polymnist5k import SEED, digits_by_split
from gauge.masks import AnyModalities, parse_protocols
from gauge.training.settings import TrainSettings

__all__ = ["BENCHMARK", "SIDE", "VIEWS"]

PAIRS = {"train": 12000, "val": 1000, "test": 2000}
VIEWS = ("a0", "a1", "b0", "b1")  # two handwritings of each digit
SIDE = 14  # of the images, from 28 by averaging 2 x 2 pixels


@cache
def read(split: str, data: Path | None = None) -> Dataset:
    """One split, always the same; `data` is not needed. Every image is drawn anew from those of its digit in the split, so
    images return in many pairs, but none is in two splits."""
    images, labels = digits_by_split()[split]
    halved = images.reshape(-1, SIDE, 2, SIDE, 2).mean((2, 4)).round().astype(np.uint8).reshape(len(images), SIDE**2)
    draw = np.random.default_rng([SEED, list(PAIRS).index(split)])
    digits = draw.integers(10, size=(PAIRS[split], 2))
    by_class = [np.flatnonzero(labels == label) for label in range(10)]
    inputs = {}
    for number, name in enumerate(VIEWS):
        rows = [draw.choice(by_class[digit]) for digit in digits[:, number // 2]]
        inputs[name] = torch.from_numpy(halved[rows])
    return Dataset(split, inputs, torch.from_numpy(digits.sum(1)))


PROTOCOLS = parse_protocols("complete", "views=1")
SHARED = {"batch_size": 128, "learning_rate": 2e-3, "schedule": "cosine", "patience": None}
EPOCHS = 12
TRAINED = TrainSettings(epochs=EPOCHS, **SHARED)

# One hidden layer for each image and one block of attention: every row trains within a minute on one CPU core.
BENCHMARK = Benchmark(
    name="sums5k",
    modalities={name: Modality((SIDE**2,), "mlp", {"hidden": 256}) for name in VIEWS},
    num_classes=19,
    dim=64,
    heads=4,
    depth=1,
    imputer="nearest",
    imputer_options={"donors": 1000},
    protocols=PROTOCOLS,
    settings=StageSettings(
        imputer=TRAINED.model_copy(update={"epochs": 0}),
        backbone=TRAINED,
        experts=TRAINED,
        finetune=TRAINED.model_copy(update={"epochs": EPOCHS // 4, "masks": AnyModalities()}),
    ),
    read=read,
)
