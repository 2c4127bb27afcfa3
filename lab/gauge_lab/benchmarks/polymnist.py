"""PolyMNIST in its published size: five views of a digit, from the published images or built from MNIST and photos."""

from functools import cache
from pathlib import Path

from gauge.data import Dataset
from gauge.data.images import read_images
from gauge.masks import parse_protocols
from gauge_lab.benchmarks import Benchmark, Modality
from gauge_lab.benchmarks._mopoe import mopoe_settings
from gauge_lab.benchmarks.readers.digits import MNIST_FILE, MNIST_FOLDERS, mnist_split, split_val_test
from gauge_lab.benchmarks.readers.folders import find_folder, first_folder
from gauge_lab.benchmarks.readers.notes import part_note
from gauge_lab.benchmarks.readers.polymnist import VIEWS, build_views, list_images, photos, read_masks, view_dataset

__all__ = ["BENCHMARK"]

SIZES = {"train": 60_000, "val": 3_000, "test": 7_000}


@cache
def read(split: str, data: Path) -> Dataset:
    published = first_folder(data, ("PolyMNIST", "."), f"train/{VIEWS[0]}")
    if published:
        return _published(split, published)
    mnist = find_folder(data, MNIST_FOLDERS, MNIST_FILE, "PolyMNIST (train/m0) and no MNIST")
    return _built(split, mnist, data / "photos")


def _published(split: str, folder: Path) -> Dataset:
    """A split of the published images; without a val folder, val and test divide the images of test."""
    divided = split != "train" and not (folder / "val").is_dir()
    root = folder
    folder /= "test" if divided else split
    names, labels = list_images(folder)
    if divided:
        rows = split_val_test(labels, folder)[split]
        names, labels = [names[row] for row in rows], labels[rows]
    views = [read_images([folder / view / name for name in names], 28) for view in VIEWS]
    note = part_note("PolyMNIST subset", len(names), SIZES[split], f"{split} samples")
    masks = {} if divided else read_masks(root, split, len(names))
    return view_dataset(split, views, labels, note, masks=masks)


def _built(split: str, mnist: Path, folder: Path) -> Dataset:
    digits, note = mnist_split(mnist, split)
    seed = 2025 + list(SIZES).index(split)
    views, labels = build_views(digits.images, digits.labels, photos(folder), seed=seed)
    source = "your own photos" if folder.is_dir() else "photos of ordinary packages"
    return view_dataset(split, views, labels, f"PolyMNIST built from {source}, not the published images", note)


PROTOCOLS = parse_protocols("complete", "eta=0.2", "eta=0.4", "eta=0.6", "eta=0.8")

BENCHMARK = Benchmark(
    name="polymnist",
    modalities={name: Modality((3, 28, 28), "conv_grid", vector="conv_flat") for name in VIEWS},
    num_classes=10,
    dim=128,
    heads=4,
    subsets_per_step=5,
    imputer="mopoe",
    imputer_options={"latent": 512},
    protocols=PROTOCOLS,
    settings=mopoe_settings(PROTOCOLS, imputer_epochs=300, epochs=100),
    read=read,
    files="the folder PolyMNIST as published, or with MNIST/raw and, if you have them, five photos in photos",
    vector_dim=512,
    small_init=True,
)
