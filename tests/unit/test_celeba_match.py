"""Faces and descriptions: what belongs together, and that neither alone says anything about the class."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
import torch
from official import write_celeba

from gauge_lab.benchmarks import celeba_match

PARTS = {"train": 20, "val": 10, "test": 10}


def described(number):
    """The description of a face: its number modulo 7 in binary, in three of the ten attributes."""
    return [float(number % 7 >> bit & 1) for bit in range(3)] + [0.0] * 7


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    attributes = pd.DataFrame(map(described, range(40)), columns=celeba_match.DESCRIBED)
    return write_celeba(tmp_path_factory.mktemp("data"), attributes, np.repeat([0, 1, 2], list(PARTS.values())))


def faces(part):
    return torch.round(part.inputs["image"][:, 0, 30, 30] / 6).int().tolist()


@pytest.mark.parametrize("split", PARTS)
def test_the_class_says_whether_the_description_is_that_of_the_face(data, split):
    part = celeba_match.BENCHMARK.load(split, data)
    assert part.shapes == {"image": (3, 64, 64), "table": (10,)}
    assert len(part) == 2 * PARTS[split]
    own = [described(number) for number in faces(part)]
    assert [
        given == mine for given, mine in zip(part.inputs["table"].tolist(), own, strict=True)
    ] == part.labels.tolist()


@pytest.mark.parametrize("split", PARTS)
def test_every_face_and_every_description_is_as_often_in_one_class_as_in_the_other(data, split):
    part = celeba_match.BENCHMARK.load(split, data)
    matching = part.labels == 1
    for values in (torch.tensor(faces(part))[:, None], part.inputs["table"]):
        counts = [Counter(map(tuple, values[chosen].tolist())) for chosen in (matching, ~matching)]
        assert counts[0] == counts[1]
    start = sum(list(PARTS.values())[: list(PARTS).index(split)])
    assert sorted(set(faces(part))) == list(range(start, start + PARTS[split])), "no face is in two splits"


def test_both_samples_of_a_face_are_one_group(data):
    part = celeba_match.BENCHMARK.load("test", data)
    assert part.groups.tolist() == [number - 30 for number in faces(part)]
