"""PolyMNIST in its published size: both layouts of its files, and what is said when they are not as they should be."""

import logging

import numpy as np
import pytest
import torch
from official import digit_numbers, write_mnist, write_photos
from PIL import Image

from gauge_lab.benchmarks import polymnist
from gauge_lab.benchmarks.readers.digits import MNIST_SIZES, split_val_test
from gauge_lab.benchmarks.readers.polymnist import VIEWS, list_images, package_photos, photos

BUILT = "PolyMNIST built from photos of ordinary packages, not the published images"

pytestmark = pytest.mark.usefixtures("warnings_anew")


def write_published(
    folder, *, names=("10.1.png", "9.1.png", "3.0.png"), splits=("train", "val", "test"), size=(28, 28)
):
    for split in splits:
        for view in VIEWS:
            target = folder / split / view
            target.mkdir(parents=True)
            for name in names:
                index, label, _ = name.split(".")
                Image.new("RGB", size, (int(index), int(label), int(view[1]))).save(target / name)


def test_published_images_come_ordered_by_label_and_index_and_paired_by_name(tmp_path):
    write_published(tmp_path / "PolyMNIST")
    data = polymnist.read("train", tmp_path)
    assert data.labels.tolist() == [0, 1, 1]
    for number, view in enumerate(VIEWS):
        assert data.inputs[view].shape == (3, 3, 28, 28)
        assert data.inputs[view][:, :, 5, 5].tolist() == [[3, 0, number], [9, 1, number], [10, 1, number]]
    assert data.note == "PolyMNIST subset: 3 of 60,000 train samples"


def test_published_images_may_lie_in_the_folder_itself(tmp_path):
    write_published(tmp_path)
    assert len(polymnist.read("val", tmp_path)) == 3


def test_without_a_val_folder_val_and_test_divide_the_published_test_images(tmp_path):
    names = [f"{index}.{index % 2}.png" for index in range(20)]
    write_published(tmp_path, names=names, splits=("train", "test"))
    parts = {split: polymnist.read(split, tmp_path).inputs["m3"][:, 0, 0, 0].tolist() for split in ("val", "test")}
    assert (len(parts["val"]), len(parts["test"])) == (6, 14)
    assert sorted(parts["val"] + parts["test"]) == list(range(20))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda view: (view / "9.1.png").unlink(), "m0 has 9.1.png (1 such) but m2 has not; unpack all views"),
        (lambda view: (view / "9.1.png").rename(view / "8.1.png"), "m2 has 8.1.png (2 such) but m0 has not"),
        (lambda view: (view / "9.1.png").rename(view / "nine.png"), "nine.png is not named INDEX.LABEL.png"),
        (lambda view: (view / "9.1.png").write_bytes(b"no"), "9.1.png cannot be read as an image"),
        (
            lambda view: Image.new("RGB", (28, 27)).save(view / "9.1.png"),
            "9.1.png is 28x27 pixels; give images of 28x28",
        ),
        (lambda view: view.rename(view.parent / "m9"), "every split of PolyMNIST has the views m0, m1, m2, m3, m4"),
    ],
)
def test_a_view_that_differs_from_the_others_is_named(tmp_path, change, message):
    write_published(tmp_path)
    change(tmp_path / "train" / "m2")
    with pytest.raises(ValueError) as caught:
        polymnist.read("train", tmp_path)
    assert message in str(caught.value)


def test_other_files_beside_the_images_do_not_matter(tmp_path):
    write_published(tmp_path)
    (tmp_path / "train" / "m1" / "Thumbs.db").touch()
    assert list_images(tmp_path / "train")[0] == ["3.0.png", "9.1.png", "10.1.png"]


@pytest.mark.parametrize("folder", ["MNIST/raw", "raw", "."])
def test_views_built_from_mnist_show_one_class_each_with_another_handwriting(tmp_path, folder):
    write_mnist(tmp_path / folder)
    write_photos(tmp_path / "photos")
    data = polymnist.read("train", tmp_path)
    assert data.labels.tolist() == sorted(list(range(10)) * 10)
    numbers = []
    for number, view in enumerate(VIEWS):
        red = data.inputs[view][:, 0]
        assert red[:, 5, 5].unique().tolist() == [10 * number]
        numbers.append(digit_numbers(data.inputs[view]))
        assert torch.equal(numbers[-1] % 10, data.labels)
    assert len({tuple(order.tolist()) for order in numbers}) == 5


def test_val_and_test_divide_the_test_digits_three_to_seven_in_every_class(tmp_path):
    write_mnist(tmp_path)
    for split, each in (("train", 10), ("val", 3), ("test", 7)):
        assert torch.bincount(polymnist.read(split, tmp_path).labels).tolist() == [each] * 10
    labels = np.tile(np.arange(10), 1000)
    rows = split_val_test(labels, tmp_path)
    assert {split: len(part) for split, part in rows.items()} == {"val": 3000, "test": 7000}
    assert sorted(np.concatenate(list(rows.values()))) == list(range(10_000))
    assert MNIST_SIZES["t10k"] == polymnist.SIZES["val"] + polymnist.SIZES["test"]


def test_reading_again_gives_the_same_images_and_splits_differ(tmp_path):
    write_mnist(tmp_path)
    first = [polymnist.read(split, tmp_path).fingerprint for split in ("train", "val", "test")]
    polymnist.read.cache_clear()
    assert [polymnist.read(split, tmp_path).fingerprint for split in ("train", "val", "test")] == first
    assert len(set(first)) == 3


def test_what_a_reader_has_to_know_is_noted_and_logged_once(tmp_path, caplog):
    write_mnist(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert polymnist.read("train", tmp_path).note == f"{BUILT}; MNIST prefix: 100 of 60,000 training digits"
        assert polymnist.read("val", tmp_path).note == f"{BUILT}; MNIST prefix: 100 of 10,000 test digits"
    assert [record.message for record in caplog.records] == [
        BUILT,
        "MNIST prefix: 100 of 60,000 training digits",
        "MNIST prefix: 100 of 10,000 test digits",
    ]


def test_own_photos_are_taken_in_the_order_of_their_names_and_are_five(tmp_path):
    write_photos(tmp_path / "photos")
    assert [photo[0, 0, 0] for photo in photos(tmp_path / "photos")] == [0, 10, 20, 30, 40]
    write_photos(tmp_path / "few", count=4)
    with pytest.raises(ValueError, match="holds 4 photos; put exactly 5 there, one for each view"):
        photos(tmp_path / "few")


def test_the_package_photos_are_five_and_large_enough():
    assert [photo.ndim for photo in package_photos()] == [3] * 5
    assert all(min(photo.shape[:2]) > 28 for photo in package_photos())


def test_a_folder_with_neither_layout_is_answered_with_what_was_looked_for(tmp_path):
    with pytest.raises(ValueError, match=r"holds no PolyMNIST \(train/m0\) and no MNIST: .* in MNIST/raw, raw, ."):
        polymnist.read("train", tmp_path)
    with pytest.raises(
        ValueError, match="polymnist needs data; give --data DIR with the folder PolyMNIST as published"
    ):
        polymnist.BENCHMARK.load("train")


def test_too_few_digits_to_divide_are_answered_with_their_folder(tmp_path):
    write_mnist(tmp_path, each=1)
    with pytest.raises(ValueError, match="the 10 digits of .* cannot be divided into val and test"):
        polymnist.read("val", tmp_path)
