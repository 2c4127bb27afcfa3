"""PolyMNIST and its sums: published images or views built from MNIST, paired by name and class."""

import numpy as np
import pytest
import torch
from official import digit_numbers, write_mnist, write_photos
from PIL import Image
from scipy import stats

from gauge.masks import mask_split
from gauge_lab.benchmarks import polymnist, polysum, polysum_plain
from gauge_lab.benchmarks.readers.digits import MNIST_SIZES, split_val_test
from gauge_lab.benchmarks.readers.polymnist import VIEWS

pytestmark = pytest.mark.usefixtures("warnings_anew")


def write_published(to, *, names=("10.1.png", "9.1.png", "3.0.png"), splits=("train", "val", "test"), size=(28, 28)):
    for split in splits:
        for view in VIEWS:
            target = to / split / view
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
        (lambda view: Image.new("RGB", (28, 27)).save(view / "9.1.png"), "9.1.png is 28x27 pixels; give images of"),
        (lambda view: view.rename(view.parent / "m9"), "every split of PolyMNIST has the views m0, m1, m2, m3, m4"),
    ],
)
def test_a_view_that_differs_from_the_others_is_named(tmp_path, change, message):
    write_published(tmp_path)
    change(tmp_path / "train" / "m2")
    with pytest.raises(ValueError) as caught:
        polymnist.read("train", tmp_path)
    assert message in str(caught.value)


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


def test_a_folder_with_neither_layout_is_answered_with_what_was_looked_for(tmp_path):
    with pytest.raises(ValueError, match=r"holds no PolyMNIST \(train/m0\) and no MNIST: .* in MNIST/raw, raw, ."):
        polymnist.read("train", tmp_path)
    with pytest.raises(ValueError, match="needs data; give --data DIR with the folder PolyMNIST as published"):
        polymnist.BENCHMARK.load("train")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    write_mnist(root / "MNIST" / "raw", each=24)
    write_photos(root / "photos")
    return root


@pytest.mark.parametrize("split", polysum.SPLITS)
def test_the_three_views_of_a_digit_show_its_class_and_the_label_is_the_sum(data, split):
    part, plain = (each.BENCHMARK.load(split, data) for each in (polysum, polysum_plain))
    shown = {view: digit_numbers(part.inputs[view]) for view in polysum.VIEWS}
    classes = {digit: shown[f"{digit}0"] % 10 for digit in "ab"}
    for view, digits in shown.items():
        assert torch.equal(digits % 10, classes[view[0]])
        assert part.inputs[view].dtype == torch.uint8
        assert part.inputs[view][:, 0, 5, 5].unique().tolist() == [10 * int(view[1])], "each view has its own photo"
    assert torch.equal(plain.labels, classes["a"] + classes["b"])
    assert torch.equal(part.labels, plain.labels % 10)


def test_every_digit_is_in_each_view_once_and_views_differ_in_handwriting(data):
    train = polysum.BENCHMARK.load("train", data)
    shown = [digit_numbers(train.inputs[view]).tolist() for view in polysum.VIEWS]
    assert all(sorted(each) == list(range(240)) for each in shown)
    for first, second in ((0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5), (0, 3)):
        same = np.mean(np.array(shown[first]) == np.array(shown[second]))
        assert same < 0.2


def test_digits_are_paired_at_random_so_that_one_alone_says_nothing_about_the_sum_modulo_10(tmp_path):
    write_mnist(tmp_path, each=600)
    write_photos(tmp_path / "photos")
    train = polysum.BENCHMARK.load("train", tmp_path)
    for view in ("a0", "b0"):
        shown = digit_numbers(train.inputs[view]) % 10
        counts = torch.zeros(10, 10).index_put_((shown, train.labels), torch.ones(6000), accumulate=True)
        assert counts.sum(1).tolist() == [600] * 10
        assert stats.chisquare(counts.flatten().numpy(), ddof=18).pvalue > 1e-3


def test_every_protocol_fits_the_six_views(data):
    test = polysum.BENCHMARK.load("test", data)
    kept = {
        str(protocol): torch.stack(
            list(mask_split(protocol, test.feature_counts, 100, seed=0, split="test").values()), 1
        )
        for protocol in polysum.PROTOCOLS
    }
    for text, each in (("complete", 3), ("views=2", 2), ("views=1", 1)):
        assert kept[text].reshape(100, 2, 3).sum(2).unique().tolist() == [each]
    assert kept["eta=0.5"].sum(1).unique().tolist() == [3]
    assert not kept["eta=0.5"].reshape(100, 2, 3).any(2).all(), "a whole digit may be missing"
