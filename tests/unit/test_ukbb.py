"""CAD and Infarction: each target has its balanced training rows, both share the people that they are tested on."""

import numpy as np
import pytest
import torch
from official import write_hearts, written_by

from gauge_lab.benchmarks import Overrides, cad, infarction
from gauge_lab.benchmarks.readers.ukbb import COLUMNS

BENCHMARKS = {"CAD": cad, "Infarction": infarction}

pytestmark = pytest.mark.usefixtures("warnings_anew")
data = written_by(write_hearts)


def test_each_target_has_its_own_training_rows_and_labels_and_shares_the_other_people(data):
    people = {
        name: {split: part.read(split, data) for split in ("train", "val", "test")} for name, part in BENCHMARKS.items()
    }
    for parts in people.values():
        for part in parts.values():
            assert part.shapes == {"image": (3, 128, 128), "table": (75,)}
            number = (part.inputs["table"][:, 26] * 100).round()
            assert torch.equal(part.inputs["image"][:, 2, 5, 5], (number * 2.55).round().to(torch.uint8))
    assert (people["CAD"]["train"].inputs["table"][:, 26] * 100).round().tolist() == [3, 4, 5, 6]
    assert (people["Infarction"]["train"].inputs["table"][:, 26] * 100).round().tolist() == [3, 7]
    assert people["CAD"]["train"].labels.tolist() == [1, 0, 1, 0]
    assert people["CAD"]["test"].labels.tolist() == [1, 1, 0]
    assert people["Infarction"]["test"].labels.tolist() == [1, 0, 0]
    for split in ("val", "test"):
        mine, other = (people[name][split].inputs["image"] for name in BENCHMARKS)
        assert torch.equal(mine, other)


def test_26_columns_are_categories_with_90_words_together_and_49_are_numbers():
    sizes = np.array(list(COLUMNS.values()))
    assert len(sizes) == 75
    assert (sizes[:26] > 1).all()
    assert (sizes[26:] == 1).all()
    assert sizes[:26].sum() == 90
    assert np.cumsum(sizes)[[12, 13, 18, 24]].tolist() == [26, 29, 53, 87]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_imputer_learns_from_everybody_and_the_classifier_from_balanced_rows(data, name):
    benchmark = BENCHMARKS[name].BENCHMARK
    everybody = benchmark.load("imputer", data)
    assert benchmark.imputer_reads_more
    assert (everybody.inputs["table"][:, 26] * 100).round().tolist() == [3, 4, 5, 6, 7, 8, 9]
    assert everybody.note == "part of the published rows: 7 of 26,040 imputer rows"
    assert len(benchmark.load("train", data)) < 7
    restricted = benchmark.with_overrides(Overrides(imputer_split="train"))
    assert restricted.load("imputer", data).fingerprint == benchmark.load("train", data).fingerprint
