"""Sums of two digits: which digits a sample shows, and that one of them alone says nothing about the sum modulo 10."""

import numpy as np
import pytest
import torch
from official import digit_numbers, write_mnist, write_photos
from scipy import stats

from gauge.masks import mask_split
from gauge_lab.benchmarks import polysum, polysum_plain


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


def test_training_digits_are_in_no_other_split(data):
    corner = {split: polysum.BENCHMARK.load(split, data).inputs["a0"][:, 0, 0, 0] for split in polysum.SPLITS}
    inverted = {split: values != 0 for split, values in corner.items()}  # test digits carry ink in the first pixel
    assert not bool(inverted["train"].any())
    assert bool(inverted["val"].all() and inverted["test"].all())
    assert [len(corner[split]) for split in polysum.SPLITS] == [240, 72, 168]


def test_digits_are_paired_at_random_so_that_one_alone_says_nothing_about_the_sum_modulo_10(tmp_path):
    write_mnist(tmp_path, each=600)
    write_photos(tmp_path / "photos")
    train = polysum.BENCHMARK.load("train", tmp_path)
    for view in ("a0", "b0"):
        shown = digit_numbers(train.inputs[view]) % 10
        counts = torch.zeros(10, 10).index_put_((shown, train.labels), torch.ones(6000), accumulate=True)
        assert counts.sum(1).tolist() == [600] * 10
        assert stats.chisquare(counts.flatten().numpy(), ddof=18).pvalue > 1e-3


def test_reading_again_gives_the_same_pairs_and_splits_differ(data):
    first = [polysum.BENCHMARK.load(split, data).fingerprint for split in polysum.SPLITS]
    polysum.read.cache_clear()
    polysum.digit_pairs.cache_clear()
    assert [polysum.BENCHMARK.load(split, data).fingerprint for split in polysum.SPLITS] == first
    assert len(set(first)) == 3


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


def test_notes_name_a_part_of_mnist_and_photos_that_are_not_the_usual_ones(data, tmp_path):
    part = "MNIST prefix: 240 of 60,000 training digits"
    assert polysum.BENCHMARK.load("train", data).note == f"views on your own photos; {part}"
    write_mnist(tmp_path)
    assert polysum.BENCHMARK.load("val", tmp_path).note == "MNIST prefix: 100 of 10,000 test digits"


def test_a_folder_without_mnist_is_answered_with_what_was_looked_for(tmp_path):
    with pytest.raises(ValueError, match=r"holds no MNIST: .* in MNIST/raw, raw, ."):
        polysum.BENCHMARK.load("train", tmp_path)
    with pytest.raises(ValueError, match="polysum_plain needs data; give --data DIR with MNIST/raw"):
        polysum_plain.BENCHMARK.load("train")
