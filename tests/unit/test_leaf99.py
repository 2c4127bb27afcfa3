"""Leaf99: leaves and measures are aligned by id, divided within each species, scaled by the training leaves alone."""

from pathlib import Path

import numpy as np
import pytest
import torch
from official import LEAF_IDS, SPECIES, check_refused, write_leaves

from gauge_lab.benchmarks import Overrides, leaf99
from gauge_lab.benchmarks.readers.tables import divide

SHARES = {"train": 6, "val": 2, "test": 2}

pytestmark = pytest.mark.usefixtures("warnings_anew")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    write_leaves(root)
    return root


@pytest.fixture
def data(whole, tmp_path):
    """A copy whose table may be changed; the images are shared."""
    (tmp_path / "leaf").mkdir()
    (tmp_path / "leaf" / "images").symlink_to(whole / "leaf" / "images")
    (tmp_path / "leaf" / "train.csv").write_text((whole / "leaf" / "train.csv").read_text())
    return tmp_path


def test_leaves_measures_and_labels_are_aligned_by_id_and_species_have_the_order_of_the_alphabet(whole):
    parts = [leaf99.read(split, whole) for split in ("train", "val", "test")]
    ids = np.sort(LEAF_IDS)[torch.cat([part.inputs["table"][:, 0] for part in parts]).argsort().argsort()]
    species = dict(zip(LEAF_IDS, SPECIES, strict=True))
    assert torch.cat([part.labels for part in parts]).tolist() == [int(species[number][-2:]) for number in ids]
    images = torch.cat([part.inputs["image"] for part in parts])
    assert bool((images == images[:, :1]).all()), "grey"
    np.testing.assert_allclose(images[:, 0, 32, 32], ids % 200, atol=1)


def test_each_split_has_its_share_of_every_species(whole):
    for split, each in (("train", 3), ("val", 1), ("test", 1)):
        part = leaf99.read(split, whole)
        assert part.shapes == {"image": (3, 64, 64), "table": (192,)}
        assert torch.bincount(part.labels).tolist() == [each] * 99
        assert bool(part.observed["table"].all())


def test_columns_are_scaled_by_the_training_leaves_alone(whole):
    train, test = leaf99.read("train", whole).inputs["table"], leaf99.read("test", whole).inputs["table"]
    torch.testing.assert_close(train.mean(0), torch.zeros(192), atol=1e-5, rtol=0)
    torch.testing.assert_close(train[:, 2:].std(0), torch.ones(190))
    assert bool((train[:, 1] == 0).all()), "a column that never changes is only centred"
    assert float(test.mean(0)[2:].abs().max()) > 0.01


def test_no_leaf_is_in_two_splits_and_reading_again_gives_the_same(whole):
    firsts = [leaf99.read(split, whole).inputs["table"][:, 0] for split in ("train", "val", "test")]
    assert len(torch.cat(firsts).unique()) == len(LEAF_IDS), "margin1 is the id"
    assert all(bool((first.diff() > 0).all()) for first in firsts), "in the order of the ids"
    before = leaf99.read("val", whole).fingerprint
    leaf99.read.cache_clear()
    assert leaf99.read("val", whole).fingerprint == before


WRONG = {
    "has no column 'margin7' (1 such); give the official table": ("margin7,", "margin_7,"),
    "has the id 1 twice; keep one row for each": ("\n1483,", "\n1,"),
    "has 100 species; the labelled leaves are of 99": ("\n1483,Species_00", "\n1483,Other"),
    "species is empty in row 1; fill it in, or leave the row out": ("\n1483,Species_00", "\n1483,"),
    "margin2 is 'seven', not a number; leave unknown cells empty": (",7.0,", ",seven,"),
    "lacks 1484.jpg (1 such), which the table lists; unpack all images": ("\n1483,", "\n1484,"),
}


@pytest.mark.parametrize("message", WRONG)
def test_a_wrong_table_is_answered_with_what_is_wrong(data, message):
    check_refused(leaf99.read, data, "leaf/train.csv", *WRONG[message], message)


def test_every_seed_sees_a_division_of_its_own_and_the_sixth_the_first_again(whole):
    folds = [leaf99.BENCHMARK.for_seed(seed) for seed in range(6)]
    assert [benchmark.fold for benchmark in folds] == [0, 1, 2, 3, 4, 0]
    tests = [set(benchmark.load("test", whole).inputs["table"][:, 1:].sum(1).tolist()) for benchmark in folds]
    prints = [benchmark.load("test", whole).fingerprint for benchmark in folds]
    assert len(set(prints)) == 5
    assert prints[5] == prints[0]
    assert all(len(each) == len(tests[0]) for each in tests)


def test_disjoint_folds_test_every_leaf_once_and_leave_the_other_divisions_as_they_are(whole):
    labels = np.repeat(np.arange(4), 10)
    divided = [divide(labels, Path("x"), val=0.2, test=0.2, fold=fold, disjoint=True) for fold in range(5)]
    assert sorted(np.concatenate([each["test"] for each in divided])) == list(range(40))
    assert all(np.bincount(labels[each[split]]).tolist() == [n] * 4 for each in divided for split, n in SHARES.items())
    assert all(sorted(np.concatenate(list(each.values()))) == list(range(40)) for each in divided)
    benchmark = leaf99.BENCHMARK.with_overrides(Overrides(folds="disjoint")).for_seed(3)
    assert benchmark.division("test") == "disjoint fold 3"
    assert benchmark.load("test", whole).fingerprint == leaf99.read("test", whole, 3, disjoint=True).fingerprint
    assert leaf99.BENCHMARK.for_seed(3).load("test", whole).fingerprint == leaf99.read("test", whole, 3).fingerprint
