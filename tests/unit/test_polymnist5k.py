"""Digits of the package: views of one class in different handwritings, no image in two splits."""

import numpy as np
import pytest
import torch

from gauge_lab.benchmarks import hands5k, polymnist5k, sums5k
from gauge_lab.benchmarks._handwritings import SAMPLES, SIDE
from gauge_lab.benchmarks.readers.polymnist import build_views


def test_no_digit_is_in_two_parts_and_every_digit_is_in_one():
    parts = polymnist5k.digits_by_split()
    rows = {split: {image.tobytes() for image in images} for split, (images, _) in parts.items()}
    assert {split: len(images) for split, (images, _) in parts.items()} == polymnist5k.SIZES
    assert not rows["train"] & rows["val"]
    assert not rows["train"] & rows["test"]
    assert not rows["val"] & rows["test"]


def test_classes_are_balanced_in_every_part():
    for split, size in polymnist5k.SIZES.items():
        assert torch.bincount(polymnist5k.read(split).labels).tolist() == [size // 10] * 10


def test_views_show_one_class_in_different_handwriting_inverted_into_their_own_photo():
    draw = np.random.default_rng(0)
    photos = [draw.integers(0, 120, (36, 40, 3), dtype=np.uint8) + np.uint8(120 * bright) for bright in (0, 1)]
    digits, labels = polymnist5k.digits_by_split()["val"]
    views, shown = build_views(digits, labels, photos, seed=1)
    again, _ = build_views(digits, labels, photos, seed=1)
    assert all(np.array_equal(view, other) for view, other in zip(views, again, strict=True))
    assert shown.tolist() == sorted(labels.tolist())
    inks = []
    for view, photo in zip(views, photos, strict=True):
        assert view.shape == (500, 3, 28, 28)
        crops = np.lib.stride_tricks.sliding_window_view(photo, (28, 28), axis=(0, 1)).reshape(-1, 3, 28, 28)
        corner = (crops[:, :, 0, 0] == view[7, :, 0, 0]).all(1)  # no digit reaches the corner of its image
        ink = [
            (crop != view[7]).any(0) for crop in crops[corner] if ((crop == view[7]) | (255 - crop == view[7])).all()
        ]
        same_class = digits[labels == shown[7]]
        matching = [
            row for row, digit in enumerate(same_class) if any(np.array_equal(mask, digit > 128) for mask in ink)
        ]
        assert len(matching) == 1
        inks += matching
    assert inks[0] != inks[1]


@pytest.fixture(scope="module")
def digit_of():
    """The digit of every image, by split and pixels."""
    known = {}
    for split, (images, labels) in polymnist5k.digits_by_split().items():
        halves = [image.reshape(SIDE, 2, SIDE, 2).mean((1, 3)).round().astype(np.uint8) for image in images]
        known[split] = {half.tobytes(): int(label) for half, label in zip(halves, labels, strict=True)}
    return known


@pytest.mark.parametrize("split", ["val", "test"])
@pytest.mark.parametrize("benchmark", [sums5k, hands5k])
def test_every_view_shows_its_digit_in_a_handwriting_of_the_split(benchmark, split, digit_of):
    data = benchmark.read(split)
    assert len(data) == SAMPLES[split]
    shown = {
        name: torch.tensor([digit_of[split][row.numpy().tobytes()] for row in values])
        for name, values in data.inputs.items()
    }
    if benchmark is hands5k:
        assert all(torch.equal(digits, data.labels) for digits in shown.values())
        counts = torch.bincount(data.labels, minlength=10)
    else:
        assert torch.equal(shown["a0"], shown["a1"])
        assert torch.equal(shown["b0"], shown["b1"])
        assert torch.equal(shown["a0"] + shown["b0"], data.labels)
        counts = torch.bincount(10 * shown["a0"] + shown["b0"], minlength=100)
    assert counts.min() > 0.2 * counts.float().mean(), "every digit, and every pair of digits, is there"
    first, second = list(data.inputs.values())[:2]
    assert (first == second).all(1).float().mean() < 0.03, "in different handwriting"


def test_no_image_is_in_two_splits(digit_of):
    assert len(set().union(*digit_of.values())) == sum(map(len, digit_of.values()))
