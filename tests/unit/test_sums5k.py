"""Sums of embedded digits: images show the digits whose sum is asked for, and none is in two splits."""

import numpy as np
import pytest
import torch

from gauge.experiments.benchmarks import polymnist5k, sums5k


@pytest.mark.parametrize("split", sums5k.PAIRS)
def test_the_sum_is_that_of_the_digits_whose_images_are_shown(split):
    images, labels = polymnist5k.digits_by_split()[split]
    halved = np.stack([image.reshape(14, 2, 14, 2).mean((1, 3)).round().astype(np.uint8).ravel() for image in images])
    digit_of = {image.tobytes(): int(label) for image, label in zip(halved, labels, strict=True)}
    data = sums5k.read(split)
    assert len(data) == sums5k.PAIRS[split]
    shown = [torch.tensor([digit_of[row.numpy().tobytes()] for row in data.inputs[name]]) for name in sums5k.VIEWS]
    assert torch.equal(shown[0], shown[1])
    assert torch.equal(shown[2], shown[3])
    assert torch.equal(shown[0] + shown[2], data.labels)
    assert not torch.equal(data.inputs["a0"], data.inputs["a1"]), "in another handwriting"
    one = torch.bincount(10 * shown[0] + shown[2], minlength=100) / len(data)
    assert one.min() > 0.002, "every pair of digits is there"


def test_reading_twice_gives_the_same_pairs_and_splits_differ():
    first = sums5k.read("val").fingerprint
    sums5k.read.cache_clear()
    assert sums5k.read("val").fingerprint == first != sums5k.read("test").fingerprint
