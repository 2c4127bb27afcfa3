"""Leaf99: which of 99 plants a leaf is from, by its silhouette and 192 measures of margin, shape and texture."""

from functools import cache
from pathlib import Path
from typing import Any

import torch

from gauge.data import Dataset
from gauge.experiments.benchmarks import Benchmark, Modality, StageSettings
from gauge.experiments.benchmarks._image_table import image_table
from gauge.experiments.benchmarks.readers.notes import join_notes, part_note
from gauge.experiments.benchmarks.readers.squares import find, read_squares
from gauge.experiments.benchmarks.readers.tables import (
    GAMMA_PROTOCOLS,
    as_cells,
    divide,
    numbers,
    read_table,
    standardised,
)
from gauge.masks import AnyCells, RandomCells
from gauge.training.settings import TrainSettings

__all__ = ["BENCHMARK"]

LEAVES = 990
SPECIES = 99
SIDE = 64
FEATURES = [f"{part}{number}" for part in ("margin", "shape", "texture") for number in range(1, 65)]
FOLDERS = ("leaf", "leaf-classification", ".")


@cache
def read(split: str, data: Path | None = None, fold: int = 0) -> Dataset:
    """One split, in the order of the ids: 60, 20 and 20 % of each species, columns scaled by the training leaves.

    The 198 leaves of one test split decide little, so there are five such divisions.
    """
    if data is None:
        raise ValueError("leaf99 needs data; give --data DIR with leaf/train.csv and leaf/images")
    folder = next((data / name for name in FOLDERS if (data / name / "images").is_dir()), None)
    if folder is None:
        raise ValueError(f"{data} holds no leaves: there is no images folder in {', '.join(FOLDERS)}")
    path = folder / "train.csv"
    table = read_table(path, ["id", "species", *FEATURES], key="id", filled=["species"])
    species = table["species"].astype("category")
    if len(species.cat.categories) != SPECIES:
        raise ValueError(f"{path} has {len(species.cat.categories)} species; the labelled leaves are of {SPECIES}")
    labels = species.cat.codes.to_numpy()
    parts = divide(labels, path, val=0.2, test=0.2, fold=fold)
    rows = parts[split]
    cells, observed = as_cells(standardised(numbers(table[FEATURES], path), parts["train"])[rows])
    pictures = read_squares(
        find([folder / "images"], [f"{number}.jpg" for number in table["id"][rows]]), SIDE, pad=True
    )
    return Dataset(
        split,
        {"image": torch.from_numpy(pictures), "table": cells},
        torch.from_numpy(labels[rows]).long(),
        {"table": observed},
        join_notes(part_note("Leaf subset", len(table), LEAVES, "leaves")),
    )


SHARED: dict[str, Any] = {"schedule": "cosine", "patience": None, "precision": "tf32"}
SELECTED: dict[str, Any] = {"augment": "leaves", "selection": GAMMA_PROTOCOLS, "batch_size": 16}

# Small networks, for 594 leaves and for a CPU.
BENCHMARK = Benchmark(
    name="leaf99",
    **image_table(
        Modality((3, SIDE, SIDE), "conv_grid", vector="conv_flat"),
        dict.fromkeys(FEATURES, 1),
        width=64,
        depth=2,
        heads=4,
        resnet=0,
        waves=8,
    ),
    num_classes=SPECIES,
    dim=64,
    heads=4,
    depth=2,
    projection=32,
    settings=StageSettings(
        imputer=TrainSettings(epochs=11, batch_size=32, learning_rate=3e-3, augment="leaves-tip", **SHARED),
        # nearly whole tables teach faster than any rate of gaps does
        backbone=TrainSettings(epochs=36, learning_rate=4e-3, masks=RandomCells(0.3), **SELECTED, **SHARED),
        own_baseline=TrainSettings(epochs=36, learning_rate=1e-3, masks=RandomCells(0.3), **SELECTED, **SHARED),
        experts=TrainSettings(epochs=60, batch_size=32, learning_rate=1e-3, augment="leaves", **SHARED),
        finetune=TrainSettings(epochs=7, learning_rate=1e-3, masks=AnyCells(), **SELECTED, **SHARED),
    ),
    read=read,
    vector_dim=128,
    folds=5,
    small_init=False,
)
