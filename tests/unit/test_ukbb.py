"""CAD and Infarction: each target has its balanced training rows, both share the people that they are tested on."""

import numpy as np
import pytest
import torch
from official import write_hearts

from gauge.masks import mask_split, parse_protocol
from gauge.training.metrics import AUC
from gauge_lab.benchmarks import BENCHMARKS as ALL
from gauge_lab.benchmarks import STAGES, Overrides, cad, infarction
from gauge_lab.benchmarks.readers.ukbb import COLUMNS, FOLDERS
from gauge_lab.plans import last_stage

BENCHMARKS = {"CAD": cad, "Infarction": infarction}

pytestmark = pytest.mark.usefixtures("warnings_anew")


@pytest.fixture
def data(tmp_path):
    write_hearts(tmp_path)
    return tmp_path


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
def test_the_target_decides_the_learning_rate_and_nothing_else_of_the_settings(name):
    benchmark = BENCHMARKS[name].BENCHMARK
    assert benchmark.settings.finetune.learning_rate == {"CAD": 1e-3, "Infarction": 3e-4}[name]
    assert benchmark.settings.backbone == cad.BENCHMARK.settings.backbone
    assert {getattr(benchmark.settings, stage).metric for stage in STAGES} == {AUC}
    assert benchmark.name == name.lower()


def test_gamma_1_takes_all_75_measures_and_leaves_the_heart(data):
    test = cad.read("test", data)
    keep = mask_split(parse_protocol("gamma=1"), test.feature_counts, len(test), seed=0, split="test")
    batch = next(test.batches(3, keep=keep)).check()
    assert not bool(batch.observed["table"].any())
    assert bool(batch.observed["image"].all())


def test_a_part_of_the_rows_is_noted(data):
    assert cad.read("train", data).note == "part of the published rows: 4 of 3,482 train rows"
    assert infarction.read("train", data).note == "part of the published rows: 2 of 1,552 train rows"
    assert infarction.read("test", data).note == "part of the published rows: 3 of 3,617 test rows"


def test_the_folder_may_be_given_itself(data):
    (data / FOLDERS[0] / "hearts").symlink_to(data / "hearts")
    assert cad.read("val", data / FOLDERS[0]).fingerprint == cad.read("val", data).fingerprint


def test_absent_data_and_a_wrong_label_are_answered_with_the_cure(data, tmp_path):
    with pytest.raises(ValueError, match="infarction needs data; give --data DIR with UKBB/cardiac_segmentations/"):
        infarction.BENCHMARK.load("train")
    with pytest.raises(ValueError, match="holds no data of cad: nothing named tabular_lengths_reordered.pt in UKBB/c"):
        cad.read("train", tmp_path / "nowhere")
    torch.save([0, 2, 1], data / FOLDERS[0] / "cardiac_labels_CAD_val.pt")
    with pytest.raises(ValueError, match="the label in row 2 is 2; give classes from 0 to 1"):
        cad.read("val", data)


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


def test_dymo_is_calibrated_by_the_ratio_of_probabilities_on_hearts_alone():
    chosen = {
        name: last_stage(ALL.get(name), "dymo", "dymo", 0).arguments["calibration"]
        for name in ("cad", "infarction", "dvm", "ham10000", "polymnist")
    }
    assert chosen == {"cad": "ratio", "infarction": "ratio", "dvm": "log", "ham10000": "log", "polymnist": "log"}
