"""The embedded benchmark: real digits and photos, no digit in two parts."""

import numpy as np
import torch

from gauge_lab.benchmarks import polymnist5k
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


def test_reading_twice_gives_the_same_fingerprint():
    first = polymnist5k.read("val").fingerprint
    polymnist5k.read.cache_clear()
    assert polymnist5k.read("val").fingerprint == first
