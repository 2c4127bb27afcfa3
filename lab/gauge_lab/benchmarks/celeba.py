"""CelebA: is the hair blond, from an image of a face and a text that lists its attributes."""

from functools import cache
from pathlib import Path

import pandas as pd
import torch

from gauge.data import Dataset
from gauge.data.images import read_images
from gauge.masks import parse_protocols
from gauge_lab.benchmarks import Benchmark, Modality
from gauge_lab.benchmarks._mopoe import mopoe_settings
from gauge_lab.benchmarks.readers.celeba import (
    TEXT_LENGTH,
    attribute_texts,
    read_attributes,
    read_partition,
    read_texts,
)
from gauge_lab.benchmarks.readers.folders import find_folder
from gauge_lab.benchmarks.readers.notes import join_notes, part_note
from gauge_lab.benchmarks.readers.squares import find_images
from gauge_lab.benchmarks.readers.text import ALPHABET, one_hot
from gauge_lab.coders import CODERS

__all__ = ["BENCHMARK"]

PARTS = {"train": 0, "val": 1, "test": 2}
LABEL = "Blond_Hair"
FACES = "img_align_celeba"
SIDE = 64
CROPS = {(178, 218): (15, 35, 162, 182)}  # DyMo's: 147 pixels a side


@cache
def read(split: str, data: Path) -> Dataset:
    """One split, in the order of the file names; tables and images are aligned by image_id."""
    folder, attributes, partition, note = all_attributes(data, LABEL)
    chosen = attributes[partition == PARTS[split]]
    texts = read_texts(folder, chosen.index) or attribute_texts(chosen)
    inputs = {
        "img": torch.from_numpy(read_images(find_images([folder / FACES], list(chosen.index)), SIDE, crops=CROPS)),
        "text": torch.from_numpy(one_hot(texts, TEXT_LENGTH)),
    }
    labels = torch.from_numpy(chosen[LABEL].to_numpy(copy=True)).long()
    return Dataset(split, inputs, labels, note=note)


def all_attributes(data: Path, label: str) -> tuple[Path, pd.DataFrame, pd.Series, str]:
    """The folder of the files, the attributes of all faces in the order of the file names, the official split of
    each, and a note on the data."""
    folder = find_folder(data, ("CelebA", "."), FACES, "CelebA")
    attributes, partition = read_attributes(folder), read_partition(folder, label)
    if label not in attributes:
        raise ValueError(f"{folder}: the attributes have no {label}, which is the label; give the official table")
    differing = attributes.index.symmetric_difference(partition.index)
    if len(differing):
        name = f"{differing[0]} ({len(differing)} such)"
        raise ValueError(f"{folder}: {name} is in one of the two tables only; give tables of the same images")
    note = join_notes(part_note("CelebA subset", len(attributes), 202_599, "images"))
    return folder, attributes, partition, note


PROTOCOLS = parse_protocols("complete", "missing=img", "missing=text")

BENCHMARK = Benchmark(
    name="celeba",
    modalities={
        "img": Modality((3, SIDE, SIDE), "residual_image"),
        "text": Modality((TEXT_LENGTH, len(ALPHABET)), "residual_text"),
    },
    num_classes=2,
    dim=32,
    heads=2,
    imputer="mopoe",
    imputer_options={
        "latent": 32,
        "style": 32,
        "beta_style": 2.0,
        "coders": {"img": CODERS["residual_image"], "text": CODERS["residual_text"]},
        "weights": {"img": 4096 / 12288, "text": 16.0},
        "style_weights": {"img": 1.0, "text": 5.0},
    },
    protocols=PROTOCOLS,
    settings=mopoe_settings(PROTOCOLS, imputer_epochs=200, epochs=20),
    read=read,
    method_options={"gauge_plus": {"dim": 128}},
    files=f"{FACES}, list_attr_celeba and list_eval_partition (.csv or .txt)",
    small_init=True,
)
