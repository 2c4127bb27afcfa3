"""CelebA as image and table: balanced rows for the classifier, all rows for the imputer, natural prevalence at test."""

import numpy as np
import pandas as pd
import pytest
import torch
from official import write_celeba

from gauge_lab.benchmarks import Overrides, celeba_table

FACES = 40
NECKLACE = celeba_table.ATTRIBUTES.index("Wearing_Necklace")

pytestmark = pytest.mark.usefixtures("warnings_anew")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Of forty faces every fifth wears a necklace, and the table is the number in binary."""
    values = np.array([[number >> bit & 1 for bit in range(40)] for number in range(FACES)])
    values[:, NECKLACE] = np.arange(FACES) % 5 == 0
    attributes = pd.DataFrame(values, columns=celeba_table.ATTRIBUTES)
    return write_celeba(tmp_path_factory.mktemp("data"), attributes, [0] * 20 + [1] * 10 + [2] * 10)


def numbers(part):
    return torch.round(part.inputs["image"][:, 0, 60, 60] / 6).int()


def test_the_training_rows_are_balanced_and_the_others_as_they_are(data):
    parts = {name: celeba_table.BENCHMARK.load(name, data) for name in ("train", "imputer", "val", "test")}
    assert numbers(parts["train"])[parts["train"].labels == 1].tolist() == [0, 5, 10, 15]
    assert parts["train"].labels.bincount().tolist() == [4, 4]
    assert numbers(parts["imputer"]).tolist() == list(range(20))
    assert [len(parts[name]) for name in ("val", "test")] == [10, 10]
    assert parts["test"].labels.tolist() == [1, 0, 0, 0, 0] * 2


def test_the_table_has_the_39_other_attributes_in_the_official_order(data):
    for split in ("train", "imputer", "test"):
        part = celeba_table.BENCHMARK.load(split, data)
        assert part.shapes == {"image": (3, 128, 128), "table": (39,)}
        binary = [sum(int(bit) << place for place, bit in enumerate(row[:6])) for row in part.inputs["table"]]
        assert binary == numbers(part).tolist(), "rows and columns belong to the face"
        assert bool(part.observed["table"].all())
    assert len(set(celeba_table.ATTRIBUTES)) == 40
    assert celeba_table.ATTRIBUTES[5] == "Bangs"


def test_disjoint_folds_test_every_face_once_and_the_official_division_stays(data):
    official = celeba_table.BENCHMARK
    divided = [official.with_overrides(Overrides(folds="disjoint")).for_seed(seed) for seed in range(5)]
    assert [each.division("test") for each in divided] == [f"disjoint fold {fold}" for fold in range(5)]
    tested = [each.load("test", data) for each in divided]
    assert sorted(torch.cat([numbers(each) for each in tested]).tolist()) == list(range(FACES))
    assert {int(each.labels.sum()) for each in tested} <= {1, 2}, "eight necklaces in five test splits"
    for each, test in zip(divided, tested, strict=True):
        parts = [each.load("imputer", data), each.load("val", data), test]
        assert [len(part) for part in parts] == [28, 4, 8]
        assert sorted(torch.cat([numbers(part) for part in parts]).tolist()) == list(range(FACES))
        train = each.load("train", data)
        assert len(set(train.labels.bincount().tolist())) == 1
        assert set(numbers(train).tolist()) <= set(numbers(parts[0]).tolist())
    assert official.for_seed(3).division("test") == "fold 0"
    assert numbers(official.for_seed(3).load("test", data)).tolist() == list(range(30, 40))
