"""PolyMNIST in its published size: five views of a digit, from the published pictures or built from MNIST and photos."""

from functools import cache
from pathlib import Path

import numpy as np
import torch

from gauge.data import Dataset
from gauge.data.images import read_images
from gauge.experiments.benchmarks import Benchmark, Modality, StageSettings
from gauge.experiments.benchmarks.readers.digits import MNIST_FOLDERS, find_mnist, mnist_split, split_val_test
from gauge.experiments.benchmarks.readers.notes import join_notes, part_note
from gauge.experiments.benchmarks.readers.polymnist import (
    VIEWS,
    build_views,
    folder_photos,
    list_pictures,
    package_photos,
)
from gauge.masks import AnyModalities, parse_protocols
from gauge.training.settings import TrainSettings

__all__ = ["BENCHMARK"]

SIZES = {"train": 60_000, "val": 3_000, "test": 7_000}
SEED = 2025


@cache
def read(split: str, data: Path | None = None) -> Dataset:
    """One split, always the same for the same files under `data`."""
    if data is None:
        raise ValueError(
            "polymnist needs data; give --data DIR with the folder PolyMNIST as published, or with MNIST/raw and, if you "
            "have them, five photos in photos"
        )
    published = next((path for path in (data / "PolyMNIST", data) if (path / "train" / VIEWS[0]).is_dir()), None)
    if published:
        return _published(split, published)
    mnist = find_mnist(data)
    if mnist:
        return _built(split, mnist, data / "photos")
    raise ValueError(
        f"{data} holds no PolyMNIST: there is neither PolyMNIST/train/m0 nor train/m0 (the published pictures), nor "
        f"train-images-idx3-ubyte (MNIST, plain or .gz) in {', '.join(MNIST_FOLDERS)}"
    )


def _published(split: str, folder: Path) -> Dataset:
    """A split of the published pictures; where there is no val folder, val and test divide the pictures of test."""
    divided = split != "train" and not (folder / "val").is_dir()
    place = folder / ("test" if divided else split)
    names, labels = list_pictures(place)
    if divided:
        rows = split_val_test(labels, place)[split]
        names, labels = [names[row] for row in rows], labels[rows]
    views = [read_images([place / view / name for name in names], 28) for view in VIEWS]
    return _dataset(split, views, labels, part_note("PolyMNIST subset", len(names), SIZES[split], f"{split} samples"))


def _built(split: str, mnist: Path, photos: Path) -> Dataset:
    digits, note = mnist_split(mnist, split)
    own = photos.is_dir()
    backgrounds = folder_photos(photos) if own else package_photos()
    views, labels = build_views(digits.images, digits.labels, backgrounds, seed=SEED + list(SIZES).index(split))
    source = "photos of your own" if own else "photos of ordinary packages"
    return _dataset(split, views, labels, f"PolyMNIST built from {source}, not the published pictures", note)


def _dataset(split: str, views: list[np.ndarray], labels: np.ndarray, *notes: str) -> Dataset:
    inputs = {name: torch.from_numpy(view) for name, view in zip(VIEWS, views, strict=True)}
    return Dataset(split, inputs, torch.from_numpy(labels).long(), note=join_notes(*notes))


PROTOCOLS = parse_protocols("complete", "eta=0.2", "eta=0.4", "eta=0.6", "eta=0.8")

BENCHMARK = Benchmark(
    name="polymnist",
    modalities={name: Modality((3, 28, 28), "conv_grid", vector="conv_flat") for name in VIEWS},
    num_classes=10,
    dim=128,
    heads=4,
    depth=2,
    subsets_per_step=5,
    projection=64,
    imputer="mopoe",
    imputer_options={"latent": 512},
    protocols=PROTOCOLS,
    settings=StageSettings(
        imputer=TrainSettings(epochs=300, learning_rate=5e-4, patience=None, precision="tf32"),
        own_pretrain=TrainSettings(epochs=300, patience=None, precision="tf32"),
        backbone=TrainSettings(epochs=100, selection=PROTOCOLS, precision="tf32"),
        finetune=TrainSettings(epochs=100, masks=AnyModalities(), selection=PROTOCOLS, precision="tf32"),
    ),
    read=read,
    vector_dim=512,
)
