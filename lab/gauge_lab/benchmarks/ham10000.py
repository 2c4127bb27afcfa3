"""HAM10000: is a skin lesion a melanoma, from its image and the patient's age, sex and the site of the lesion."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import torch

from gauge.data import Dataset
from gauge.training.metrics import AUC
from gauge_lab.benchmarks import Benchmark, Modality
from gauge_lab.benchmarks._image_table import SMALL, image_table, image_table_settings
from gauge_lab.benchmarks.readers import tables
from gauge_lab.benchmarks.readers.folders import find_folder
from gauge_lab.benchmarks.readers.notes import part_note
from gauge_lab.benchmarks.readers.squares import find_images, read_squares
from gauge_lab.benchmarks.readers.tables import codes

__all__ = ["BENCHMARK"]

SIDE = 128
TABLE = "HAM10000_metadata.csv"
SEXES = ("female", "male")
PLACES = (
    *("abdomen", "acral", "back", "chest", "ear", "face", "foot", "genital", "hand"),
    *("lower extremity", "neck", "scalp", "trunk", "upper extremity"),
)
FOLDERS = ("images", "HAM10000_images_part_1", "HAM10000_images_part_2")


@cache
def read(split: str, data: Path) -> Dataset:
    """One split, in the order of the image names; all images of a lesion are in one split."""
    folder = find_folder(data, ("HAM10000", "."), TABLE, "HAM10000")
    folders = [folder / name for name in FOLDERS if (folder / name).is_dir()]
    if not folders:
        raise ValueError(f"{folder} has no images: there is none of the folders {', '.join(FOLDERS)}")
    path = folder / TABLE
    table_columns = ("lesion_id", "image_id", "dx", "age", "sex", "localization")  # dx_type hints at the diagnosis
    table = tables.read_table(path, table_columns, key="image_id", filled=("lesion_id", "dx"))
    diagnoses = ("akiec", "bcc", "bkl", "df", "mel", "nv", "vasc")
    labels = (codes(table["dx"], diagnoses, path, unknown=None) == diagnoses.index("mel")).astype(np.int64)
    lesions = table["lesion_id"].astype("category").cat.codes.to_numpy()
    parts = split_lesions(lesions, labels, path)
    age = tables.standardised(tables.numbers(table[["age"]], path), parts["train"])
    values = np.column_stack([age, codes(table["sex"], SEXES, path), codes(table["localization"], PLACES, path)])
    rows = parts[split]
    images = read_squares(find_images(folders, [f"{name}.jpg" for name in table["image_id"][rows]]), SIDE)
    note = part_note("HAM10000 subset", len(table), 10_015, "images")
    dataset = tables.image_table_dataset(split, images, values[rows], labels[rows], note)
    return replace(dataset, groups=torch.from_numpy(lesions[rows]).long())


def split_lesions(lesions: np.ndarray, labels: np.ndarray, source: Path) -> dict[str, np.ndarray]:
    """The rows of each split: 70, 10 and 20 % of the lesions, stratified by melanoma, with all their images."""
    melanoma = np.zeros(lesions.max() + 1, dtype=np.int64)
    np.maximum.at(melanoma, lesions, labels)
    parts = tables.divide(melanoma, source, val=0.1, test=0.2)
    return {split: np.flatnonzero(np.isin(lesions, chosen)) for split, chosen in parts.items()}


COLUMNS = {"age": 1, "sex": len(SEXES), "localization": len(PLACES)}
BENCHMARK = Benchmark(
    name="ham10000",
    **image_table(
        Modality((3, SIDE, SIDE), "resnet_grid", {"depth": 18}, "resnet_vector"), COLUMNS, resnet=18, **SMALL
    ),
    num_classes=2,
    settings=image_table_settings(
        "lesions", {"imputer": 60, "backbone": 50, "experts": 30, "finetune": 20}, batch_size=128, precision="bf16"
    ),
    read=read,
    files=f"{TABLE} and the folders of images",
    metric=AUC,
    small_init=True,
)
