"""MNIST-SVHN-Text: one digit handwritten, on a house wall and as a word."""

from functools import cache
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int, UInt8

from gauge.data import Dataset
from gauge.masks import AnyModalities, parse_protocols
from gauge.training.settings import TrainSettings
from gauge_lab.benchmarks import Benchmark, Modality, StageSettings
from gauge_lab.benchmarks.readers.digits import MNIST_FILE, MNIST_FOLDERS, mnist_split, svhn_split
from gauge_lab.benchmarks.readers.folders import find_folder
from gauge_lab.benchmarks.readers.mst import prepared_digits, prepared_folder, prepared_pairs
from gauge_lab.benchmarks.readers.notes import join_notes, part_note
from gauge_lab.benchmarks.readers.text import ALPHABET, one_hot
from gauge_lab.coders import CODERS

__all__ = ["BENCHMARK"]

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
TEXT_LENGTH = 8


@cache
def read(split: str, data: Path) -> Dataset:
    """One split, always the same for the same files under `data`: those that DyMo's preparation leaves, or official ones."""
    seeds = {"train": 2025, "val": 2026, "test": 2027}
    samples = {"train": 1_121_360, "val": 60_000, "test": 140_000}
    draw, prepared, pairs, note = np.random.default_rng(seeds[split]), prepared_folder(data), None, ""
    if prepared:
        mnist, svhn = prepared_digits(prepared, split)
        pairs = prepared_pairs(prepared, split, mnist, svhn)
    else:
        mnist, mnist_note = mnist_split(find_folder(data, MNIST_FOLDERS, MNIST_FILE, "MNIST"), split)
        svhn, svhn_note = svhn_split(data / "SVHN", split)
        note = join_notes(mnist_note, svhn_note)
    left, right = pairs or pair(mnist.labels, svhn.labels, draw)
    note = note or part_note("part of the published samples", len(left), samples[split], f"{split} samples")
    labels = torch.from_numpy(mnist.labels[left]).long()
    inputs = {
        "mnist": torch.from_numpy(mnist.images[left][:, None]),
        "svhn": torch.from_numpy(svhn.images[right]),
        "text": torch.from_numpy(words(mnist.labels[left], draw)),
    }
    photos = torch.from_numpy(right)  # the digits of MNIST are nearly always read; what is hard is the photo
    return Dataset(split, inputs, labels, note=note, groups=photos)


def pair(
    left: UInt8[np.ndarray, "m"], right: UInt8[np.ndarray, "s"], draw: np.random.Generator
) -> tuple[Int[np.ndarray, "n"], Int[np.ndarray, "n"]]:
    """Rows of two sets of digits that show the same class, ordered by class.

    For each class, the first digits of each set, as many as both sets have, in 20 independent random orders.
    """
    rows: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for digit in range(10):
        members = [np.flatnonzero(labels == digit) for labels in (left, right)]
        count = min(*map(len, members), 10_000)  # digits of one class that are paired
        for side, candidates in zip(rows, members, strict=True):
            side.append(draw.permuted(np.tile(candidates[:count], (20, 1)), axis=1).ravel())  # pairs made of each digit
    return np.concatenate(rows[0]), np.concatenate(rows[1])


def words(labels: UInt8[np.ndarray, "n"], draw: np.random.Generator) -> UInt8[np.ndarray, "n 8 71"]:
    """The digits as words between spaces, one-hot; the last position is always blank.

    NOTE[PAPER] mst-text-start: the published code draws the start of a word on every access, also at test time; here it is
    drawn once for each sample.
    """
    texts = [(" " * start + word).ljust(TEXT_LENGTH) for word in WORDS for start in range(TEXT_LENGTH)]
    lengths = np.array([len(word) for word in WORDS])
    starts = draw.integers(0, TEXT_LENGTH - lengths[labels])
    return one_hot(texts, TEXT_LENGTH)[labels.astype(np.int64) * TEXT_LENGTH + starts]


PROTOCOLS = parse_protocols(
    "complete", *(f"missing={names}" for names in ("svhn+text", "mnist+text", "svhn", "text", "mnist", "mnist+svhn"))
)

BENCHMARK = Benchmark(
    name="mst",
    modalities={
        "mnist": Modality((1, 28, 28), "mlp", {"hidden": 400}),
        "svhn": Modality((3, 32, 32), "conv_vector"),
        "text": Modality((TEXT_LENGTH, len(ALPHABET)), "conv_text"),
    },
    num_classes=10,
    dim=32,
    heads=2,
    protocols=PROTOCOLS,
    imputer="mopoe",
    imputer_options={
        "latent": 20,
        "coders": {"mnist": "mlp", "svhn": CODERS["conv_vector"], "text": CODERS["conv_text"]},
        "weights": {"mnist": 3072 / 784, "svhn": 1.0, "text": 3072 / 8},
    },
    settings=StageSettings(
        imputer=TrainSettings(epochs=200, patience=None, precision="tf32"),
        backbone=TrainSettings(epochs=20, selection=PROTOCOLS, precision="tf32"),
        finetune=TrainSettings(
            epochs=20, learning_rate=1e-4, masks=AnyModalities(), selection=PROTOCOLS, precision="tf32"
        ),
    ),
    read=read,
    method_options={"gauge_plus": {"dim": 128}},
    files="MNIST/raw and SVHN/train_32x32.mat, test_32x32.mat, or what DyMo's preparation leaves in MNIST_SVHN_TEXT",
    small_init=True,
)
