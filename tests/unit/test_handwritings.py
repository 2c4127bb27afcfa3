"""Embedded digits without photos: images show the digit that is said, and no image is in two splits."""

import numpy as np
import pytest
import torch

from gauge_lab.benchmarks import hands5k, polymnist5k, sums5k
from gauge_lab.benchmarks._handwritings import SAMPLES, SIDE


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


def test_reading_twice_gives_the_same_samples_and_splits_differ():
    first = sums5k.read("val").fingerprint
    sums5k.read.cache_clear()
    assert sums5k.read("val").fingerprint == first != sums5k.read("test").fingerprint
