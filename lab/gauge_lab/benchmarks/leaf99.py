"""Leaf99: which of 99 plants a leaf is from, by its silhouette and 192 measures of margin, shape and texture."""

from functools import cache
from pathlib import Path
from typing import Any

from gauge.data import Dataset
from gauge.masks import AnyCells, RandomCells
from gauge.training.settings import TrainSettings
from gauge_lab.benchmarks import Benchmark, Modality, StageSettings
from gauge_lab.benchmarks._image_table import SMALL, image_table
from gauge_lab.benchmarks.readers import tables
from gauge_lab.benchmarks.readers.folders import find_folder
from gauge_lab.benchmarks.readers.notes import part_note
from gauge_lab.benchmarks.readers.squares import find_images, read_squares

__all__ = ["BENCHMARK"]

SPECIES = 99
SIDE = 64
FEATURES = [f"{part}{number}" for part in ("margin", "shape", "texture") for number in range(1, 65)]


@cache
def read(split: str, data: Path, fold: int = 0, disjoint: bool = False) -> Dataset:
    """One split, in the order of the ids: 60, 20 and 20 % of each species, columns scaled by the training leaves.

    The 198 leaves of one test split decide little, so there are five such divisions. Their test splits overlap; those of
    `disjoint` divisions do not.
    """
    folders = ("leaf", "leaf-classification", ".")
    folder = find_folder(data, folders, "images", "leaves")
    path = folder / "train.csv"
    table = tables.read_table(path, ["id", "species", *FEATURES], key="id", filled=["species"])
    species = table["species"].astype("category")
    if len(species.cat.categories) != SPECIES:
        raise ValueError(f"{path} has {len(species.cat.categories)} species; the labelled leaves are of {SPECIES}")
    labels = species.cat.codes.to_numpy()
    parts = tables.divide(labels, path, val=0.2, test=0.2, fold=fold, disjoint=disjoint)
    rows = parts[split]
    values = tables.standardised(tables.numbers(table[FEATURES], path), parts["train"])[rows]
    paths = find_images([folder / "images"], [f"{number}.jpg" for number in table["id"][rows]])
    note = part_note("Leaf subset", len(table), 990, "leaves")
    return tables.image_table_dataset(split, read_squares(paths, SIDE, pad=True), values, labels[rows], note)


SHARED: dict[str, Any] = {"schedule": "cosine", "patience": None, "precision": "tf32"}
SELECTED: dict[str, Any] = {"augment": "leaves", "selection": tables.GAMMA_PROTOCOLS, "batch_size": 16}

# Small networks, for 594 leaves and for a CPU.
BENCHMARK = Benchmark(
    name="leaf99",
    **image_table(
        Modality((3, SIDE, SIDE), "conv_grid", vector="conv_flat"),
        dict.fromkeys(FEATURES, 1),
        resnet=0,
        waves=8,
        **SMALL | {"dim": 64, "width": 64},
    ),
    num_classes=SPECIES,
    settings=StageSettings(
        imputer=TrainSettings(epochs=11, batch_size=32, learning_rate=3e-3, augment="leaves-tip", **SHARED),
        # nearly complete tables teach faster than all missing rates do
        backbone=TrainSettings(epochs=36, learning_rate=4e-3, masks=RandomCells(0.3), **SELECTED, **SHARED),
        own_baseline=TrainSettings(epochs=36, learning_rate=1e-3, masks=RandomCells(0.3), **SELECTED, **SHARED),
        experts=TrainSettings(epochs=60, batch_size=32, learning_rate=1e-3, augment="leaves", **SHARED),
        finetune=TrainSettings(epochs=7, learning_rate=1e-3, masks=AnyCells(), **SELECTED, **SHARED),
        own_plus=TrainSettings(epochs=100, batch_size=32, masks=AnyCells(), augment="leaves", **SHARED),
    ),
    read=read,
    files="leaf/train.csv and leaf/images",
    vector_dim=128,
    method_options={"gauge_plus": {"dim": 128}},
    folds=5,
)
