"""Small files in the official layouts of benchmarks; every value tells where it belongs."""

import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from gauge_lab.benchmarks import dvm, ham10000, leaf99
from gauge_lab.benchmarks.readers.ukbb import COLUMNS, FOLDERS

CARS = {"train": 6, "val": 2, "test": 4}
CAR_TABLE = "dvm_features_train_noOH_all_views_physical_jittered_50_reordered.csv"
CAR_LABELS = "labels_model_all_train_all_views.pt"
CAR_PATHS = "train_paths_all_views.pt"
LESIONS = 60  # every third with two images, every fourth a melanoma
LEAF_IDS = 3 * np.arange(99 * 5)[::-1] + 1  # with gaps, in no order
SPECIES = [f"Species_{row % 99:02d}" for row in range(len(LEAF_IDS))]


def written_by(write: Callable[[Path], None]) -> Callable[[Path], Path]:
    """A fixture: a folder with these files, of which a test may change any."""

    @pytest.fixture
    def data(tmp_path: Path) -> Path:
        write(tmp_path)
        return tmp_path

    return data


def check_refused(read: Callable[..., object], data: Path, table: str, old: str, new: str, message: str) -> None:
    """Reading names what is wrong in a table of the data, the first `old` text of which is a `new` one."""
    text = (data / table).read_text()
    assert old in text
    (data / table).write_text(text.replace(old, new, 1))
    with pytest.raises(ValueError) as caught:
        [read(split, data) for split in ("train", "val", "test")]
    assert message in str(caught.value)


def write_dvm(root: Path) -> None:
    """Adverts whose mileage is their number, whose images are as bright as ten times it."""
    features = root / "DVM" / "features"
    features.mkdir(parents=True)
    torch.save(list(dvm.COLUMNS.values()), features / dvm.LENGTHS)
    for split, rows in CARS.items():
        values = np.zeros((rows, 17))
        values[:, 0], values[:, 3], values[:, 11] = 21, np.arange(rows), np.arange(rows)
        np.savetxt(features / CAR_TABLE.replace("train", split), values, delimiter=",", fmt="%.6f")
        torch.save([285 - row for row in range(rows)], features / CAR_LABELS.replace("train", split))
        folder = root / "DVM" / "images" / split
        folder.mkdir(parents=True)
        paths = [f"/home/somebody/data/DVM/images/{split}/Car$$20.5$$a {row}.jpg" for row in range(rows)]
        torch.save(paths, features / CAR_PATHS.replace("train", split))
        for row in range(rows):
            np.save(folder / f"Car$$20.5$$a {row}.npy", np.full((30, 40, 3), 10 * row, np.uint8))


def write_hearts(root: Path) -> None:
    """Hearts whose first measure is their number over a hundred, which is also how bright they are."""
    folder = root / FOLDERS[0]
    folder.mkdir(parents=True)
    torch.save(list(COLUMNS.values()), folder / "tabular_lengths_reordered.pt")
    for number in range(20):
        (root / "hearts" / str(number)).mkdir(parents=True)
        np.save(root / "hearts" / str(number) / "sa.npy", np.full((21, 21, 3), number / 100, np.float32))
    lead = "cardiac_features_{}_imputed_noOH_tabular_imaging"
    for target, numbers in (("CAD", [3, 4, 5, 6]), ("Infarction", [3, 7])):
        table = f"{lead.format('train')}_{target}_balanced_reordered"
        paths = f"cardiac_train_paths_imaging_{target}_balanced"
        _write_people(folder, table, f"cardiac_labels_{target}_train_balanced", paths, numbers, {3, 5})
        everybody = ("train", [3, 4, 5, 6, 7, 8, 9], {3, 5})
        for split, people, positives in (everybody, ("val", [10, 11, 12], {11}), ("test", [15, 16, 17], {15, 16})):
            sick = positives if target == "CAD" else {min(positives)}
            table, paths = f"{lead.format(split)}_reordered", f"cardiac_{split}_paths_imaging"
            _write_people(folder, table, f"cardiac_labels_{target}_{split}", paths, people, sick)


def _write_people(folder: Path, table: str, labels: str, paths: str, numbers: list[int], positives: set[int]) -> None:
    values = np.ones((len(numbers), 75))
    values[:, 26] = np.array(numbers) / 100
    np.savetxt(folder / f"{table}.csv", values, delimiter=",", fmt="%.4f")
    torch.save([int(number in positives) for number in numbers], folder / f"{labels}.pt")
    torch.save([f"/vol/biomedic/hearts/{number}/sa.npy" for number in numbers], folder / f"{paths}.pt")


def write_lesions(root: Path) -> None:
    """Images that are as red as the number of their lesion times four."""
    folder = root / "HAM10000"
    (folder / "images").mkdir(parents=True)
    columns = ["lesion_id", "image_id", "dx", "dx_type", "age", "sex", "localization"]
    table = pd.DataFrame(_lesions(), columns=columns)
    table.iloc[::-1].to_csv(folder / "HAM10000_metadata.csv", index=False)
    for lesion, name in zip(table["lesion_id"], table["image_id"], strict=True):
        image = Image.new("RGB", (16, 12), (4 * int(lesion[-7:]), 0, 0))
        image.save(folder / "images" / f"{name}.jpg", quality=95, subsampling=0)


def _lesions() -> Iterator[tuple[str, ...]]:
    for lesion in range(LESIONS):
        dx = "mel" if lesion % 4 == 0 else "nv"
        age = "" if lesion % 10 == 1 else f"{lesion % 17 * 5}.0"
        sex = ("male", "female", "unknown")[lesion % 3] if lesion < 30 else "male"
        place = (*ham10000.PLACES, "unknown")[lesion % 15]
        for image in range(2 if lesion % 3 == 0 else 1):
            yield f"HAM_{lesion:07d}", f"ISIC_{lesion + 100 * image:07d}", dx, "histo", age, sex, place


def write_leaves(root: Path) -> None:
    """Leaves of 99 species; margin1 is the id, every image as bright as its id modulo 200."""
    folder = root / "leaf"
    (folder / "images").mkdir(parents=True)
    values = np.random.default_rng(0).normal(5, 3, (len(LEAF_IDS), 192)).round(3)
    values[:, 0], values[:, 1] = LEAF_IDS, 7
    table = pd.DataFrame(values, columns=leaf99.FEATURES)
    table.insert(0, "id", LEAF_IDS)
    table.insert(1, "species", SPECIES)
    table.to_csv(folder / "train.csv", index=False)
    for number in LEAF_IDS:
        Image.new("L", (8, 4), int(number) % 200).save(folder / "images" / f"{number}.jpg", quality=95)


def write_celeba(root: Path, attributes: pd.DataFrame, parts: Sequence[int]) -> Path:
    """Faces that are as bright as their number, with attributes that are 0 or 1, in these parts."""
    folder = root / "CelebA"
    (folder / "img_align_celeba").mkdir(parents=True)
    names = [f"{number:06d}.jpg" for number in range(len(parts))]
    table = (2 * attributes - 1).astype(int).assign(image_id=names)
    table[table.columns[::-1]].to_csv(folder / "list_attr_celeba.csv", index=False)  # columns in another order
    pd.DataFrame({"image_id": names, "partition": parts}).to_csv(folder / "list_eval_partition.csv", index=False)
    for number, name in enumerate(names):
        Image.new("RGB", (178, 218), (6 * number, 0, 0)).save(folder / "img_align_celeba" / name, quality=95)
    return root


def write_idx(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes())


def write_mnist(folder: Path, *, each: int = 10) -> None:
    """As many digits of each class for training as for testing, no two alike: each carries its number in its ink."""
    for index, part in enumerate(("train", "t10k")):
        labels = np.tile(np.arange(10, dtype=np.uint8), each)
        images = np.zeros((len(labels), 28, 28), np.uint8)
        images[:, 0, 0] = 255 * index
        images[:, 1, :16] = 255 * ((np.arange(len(labels))[:, None] >> np.arange(16)) & 1)
        write_idx(folder / f"{part}-images-idx3-ubyte", images)
        write_idx(folder / f"{part}-labels-idx1-ubyte", labels)


def digit_numbers(view: torch.Tensor) -> torch.Tensor:
    """The numbers of these digits in a view on a photo of a single colour; the class of a digit is its last decimal."""
    red = view[:, 0]
    return ((red[:, 1, :16] != red[:, 5, 5][:, None]) * 2 ** torch.arange(16)).sum(1)


def write_photos(folder: Path, *, count: int = 5) -> None:
    folder.mkdir(parents=True)
    for number in range(count):
        Image.new("RGB", (40, 50), (10 * number, 0, 0)).save(folder / f"{number}.png")
