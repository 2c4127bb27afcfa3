"""CelebA: tables and faces are aligned by name, faces cropped as published, attributes spelled out."""

import numpy as np
import pandas as pd
import pytest
from official import check_refused
from PIL import Image

from gauge_lab.benchmarks import celeba
from gauge_lab.benchmarks.readers.celeba import attribute_texts
from gauge_lab.benchmarks.readers.text import ALPHABET

ATTRIBUTES = ["5_o_Clock_Shadow", "Blond_Hair", "Smiling"]
ROWS = {  # in no order
    "000003.jpg": ([1, -1, 1], 0),
    "000001.jpg": ([-1, 1, 1], 0),
    "000002.jpg": ([-1, 1, -1], 1),
    "000004.jpg": ([-1, -1, -1], 2),
}

pytestmark = pytest.mark.usefixtures("warnings_anew")


def write_csv(folder):
    table = pd.DataFrame([[name, *values] for name, (values, _) in ROWS.items()], columns=["image_id", *ATTRIBUTES])
    table.to_csv(folder / "list_attr_celeba.csv", index=False)
    parts = pd.DataFrame([(name, of) for name, (_, of) in reversed(ROWS.items())], columns=["image_id", "partition"])
    parts.to_csv(folder / "list_eval_partition.csv", index=False)


def write_txt(folder):
    lines = [f"{name}  {' '.join(f'{value:2d}' for value in values)}" for name, (values, _) in ROWS.items()]
    (folder / "list_attr_celeba.txt").write_text("\n".join([str(len(ROWS)), " ".join(ATTRIBUTES) + " ", *lines, ""]))
    (folder / "list_eval_partition.txt").write_text("".join(f"{name} {part}\n" for name, (_, part) in ROWS.items()))


def write_faces(folder, size=(64, 64)):
    (folder / "img_align_celeba").mkdir(parents=True)
    for name in ROWS:
        Image.new("RGB", size, (20 * int(name[:6]), 0, 0)).save(folder / "img_align_celeba" / name, quality=95)


@pytest.fixture
def data(tmp_path):
    write_faces(tmp_path / "CelebA")
    write_csv(tmp_path / "CelebA")
    return tmp_path


def decoded(rows):
    return "".join(ALPHABET[int(row.argmax())] for row in rows)


def test_faces_texts_and_labels_are_aligned_by_name_and_ordered_by_it(data):
    train = celeba.read("train", data)
    assert train.labels.tolist() == [1, 0]
    assert train.shapes == {"img": (3, 64, 64), "text": (256, 71)}
    assert [round(float(face) / 20) for face in train.inputs["img"][:, 0, 30, 30]] == [1, 3]
    assert [decoded(text).strip("*") for text in train.inputs["text"]] == [
        "blond hair, smiling",
        "5 o clock shadow, smiling",
    ]
    assert [len(celeba.read(split, data)) for split in ("train", "val", "test")] == [2, 1, 1]
    assert decoded(celeba.read("test", data).inputs["text"][0]) == "*" * 256


def test_official_txt_tables_say_the_same_as_csv_tables(data, tmp_path):
    write_faces(tmp_path / "other")
    write_txt(tmp_path / "other")
    for split in ("train", "val", "test"):
        assert celeba.read(split, tmp_path / "other").fingerprint == celeba.read(split, data).fingerprint


def test_a_text_stands_where_its_file_name_says_and_nowhere_else():
    attributes = pd.DataFrame({"Smiling": True}, index=[f"{number:06d}.jpg" for number in range(2000)])
    texts = attribute_texts(attributes)
    starts = [text.index("smiling") for text in texts]
    assert {len(text) for text in texts} == {256}
    assert {text.replace("*", "") for text in texts} == {"smiling"}
    assert (min(starts), max(starts)) == (0, 256 - len("smiling"))
    assert starts[5:7] == [text.index("smiling") for text in attribute_texts(attributes.iloc[5:7])]


def test_an_aligned_face_is_cropped_to_rows_35_to_181_and_columns_15_to_161(data):
    pixels = np.full((218, 178, 3), 255, np.uint8)
    pixels[35:182, 15:162] = 0
    folder = data / "CelebA" / "img_align_celeba"
    Image.fromarray(pixels).save(folder / "000001.png")
    (folder / "000001.png").rename(folder / "000001.jpg")  # without loss
    assert celeba.read("train", data).inputs["img"][0].max() == 0
    pixels[35, 15] = pixels[181, 161] = 255
    Image.fromarray(pixels).save(folder / "000001.png")
    (folder / "000001.png").rename(folder / "000001.jpg")
    celeba.read.cache_clear()
    face = celeba.read("train", data).inputs["img"][0]
    assert face[:, 0, 0].min() > 0
    assert face[:, 63, 63].min() > 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Blond_Hair", "Blonde", "the attributes have no Blond_Hair, which is the label"),
        ("000003.jpg,1", "000003.jpg,7", "5_o_Clock_Shadow of 000003.jpg is 7; attributes are -1 or 1"),
        ("000003.jpg", "000001.jpg", "has 000001.jpg twice; keep one line for each image"),
        ("000003.jpg", "000009.jpg", "000003.jpg (2 such) is in one of the two tables only; give tables of the same"),
        ("image_id", "name", "cannot be read as a table of images"),
    ],
)
def test_a_wrong_attribute_table_is_answered_with_what_is_wrong(data, old, new, message):
    check_refused(celeba.read, data, "CelebA/list_attr_celeba.csv", old, new, message)
