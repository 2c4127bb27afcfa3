"""CelebA as image and table: does a face wear a necklace, from its image and 39 other attributes, on balanced rows."""

from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from gauge.data import Dataset
from gauge.data.images import read_images
from gauge.training.metrics import AUC
from gauge_lab.benchmarks import Benchmark, Modality
from gauge_lab.benchmarks._image_table import SMALL, image_table, image_table_settings
from gauge_lab.benchmarks.celeba import BENCHMARK as CELEBA
from gauge_lab.benchmarks.celeba import CROPS, FACES, PARTS, all_attributes
from gauge_lab.benchmarks.readers.squares import find_images
from gauge_lab.benchmarks.readers.tables import SPLIT_SEED, divide, image_table_dataset

__all__ = ["BENCHMARK", "attribute_values", "column_names", "face_table"]

SIDE, FOLDS = 128, 5
ATTRIBUTES = (
    *("5_o_Clock_Shadow", "Arched_Eyebrows", "Attractive", "Bags_Under_Eyes", "Bald", "Bangs", "Big_Lips", "Big_Nose"),
    *("Black_Hair", "Blond_Hair", "Blurry", "Brown_Hair", "Bushy_Eyebrows", "Chubby", "Double_Chin", "Eyeglasses"),
    *("Goatee", "Gray_Hair", "Heavy_Makeup", "High_Cheekbones", "Male", "Mouth_Slightly_Open", "Mustache"),
    *("Narrow_Eyes", "No_Beard", "Oval_Face", "Pale_Skin", "Pointy_Nose", "Receding_Hairline", "Rosy_Cheeks"),
    *("Sideburns", "Smiling", "Straight_Hair", "Wavy_Hair", "Wearing_Earrings", "Wearing_Hat", "Wearing_Lipstick"),
    *("Wearing_Necklace", "Wearing_Necktie", "Young"),
)


@cache
def read(split: str, data: Path, fold: int = 0, disjoint: bool = False, *, target: str) -> Dataset:
    """One split, in the order of the file names. Training rows are balanced: all faces of the rarer class and as many of the
    other, drawn once. The imputer reads all training rows, the others without their label; val and test have
    their natural prevalence.

    The division is the official one. Few of its test faces have the attribute, so there are also `FOLDS` that are
    `disjoint`: each tests a fifth of all faces, has a tenth of them for val and the others for train.
    """
    part = "train" if split == "imputer" else split
    folder, attributes, partition, note = all_attributes(data, target)
    chosen = attributes[partition == PARTS[part]]
    if disjoint:
        has_target = attributes[target].to_numpy()
        chosen = attributes.iloc[divide(has_target, folder, val=0.1, test=1 / FOLDS, fold=fold, disjoint=True)[part]]
    labelled = balanced(chosen[target].to_numpy(), target) if part == "train" else np.arange(len(chosen))
    if split == "train":
        chosen, labelled = chosen.iloc[labelled], np.arange(len(labelled))
    cropped = {(64, 64): (0, 0, 64, 64)}  # faces that are cropped and resized already, as in `celeba`
    images = read_images(find_images([folder / FACES], list(chosen.index)), SIDE, crops={**CROPS, **cropped})
    values = attribute_values(chosen, [name for name in ATTRIBUTES if name != target], folder)
    whole = image_table_dataset(split, images, values, chosen[target].to_numpy(np.int64), note)
    return whole.without_labels(torch.from_numpy(~np.isin(np.arange(len(chosen)), labelled)))


def attribute_values(faces: pd.DataFrame, columns: Sequence[str], folder: Path) -> Float[np.ndarray, "n f"]:
    """These attributes of the faces, 1 where present and 0 elsewhere."""
    missing = [name for name in columns if name not in faces]
    if missing:
        raise ValueError(
            f"{folder}: the attributes have no {missing[0]} ({len(missing)} such); give the official table"
        )
    return faces[list(columns)].to_numpy(np.float64)


def column_names(attributes: Sequence[str]) -> dict[str, int]:
    """The attributes in words, each with its number of categories."""
    return {name.replace("_", " ").lower(): 2 for name in attributes}


def balanced(present: np.ndarray, target: str) -> np.ndarray:
    """The rows of all samples of the rarer class and of as many of the other, in order."""
    sides = [np.flatnonzero(present), np.flatnonzero(~present)]
    count = min(map(len, sides))
    if not count:
        raise ValueError(f"all training faces agree on {target}; give more of them")
    draw = np.random.default_rng(SPLIT_SEED)
    return np.sort(np.concatenate([draw.choice(side, count, replace=False) for side in sides]))


def face_table(name: str, target: str) -> Benchmark:
    """The benchmark that asks for one attribute, given the others."""
    image = Modality((3, SIDE, SIDE), "resnet_grid", {"depth": 18}, "resnet_vector")
    columns = column_names([name for name in ATTRIBUTES if name != target])
    return Benchmark(
        name=name,
        **image_table(image, columns, resnet=18, **SMALL),
        num_classes=2,
        settings=image_table_settings(
            "cars", {"imputer": 60, "backbone": 50, "experts": 30, "finetune": 50}, batch_size=128, precision="bf16"
        ),
        read=partial(read, target=target),
        files=CELEBA.files,
        metric=AUC,
        imputer_split="own",
        backbones=10,
        disjoint_folds=FOLDS,
    )


BENCHMARK = face_table("celeba_table", "Wearing_Necklace")
