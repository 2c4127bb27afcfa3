"""Leaf99: leaves and measures are aligned by id, divided within each species, scaled by the training leaves alone."""

import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from official import LEAF_IDS, SPECIES, write_leaves
from PIL import Image

from gauge.masks import mask_split, parse_protocol
from gauge_lab.benchmarks import Overrides, leaf99
from gauge_lab.benchmarks.readers.squares import read_squares
from gauge_lab.benchmarks.readers.tables import divide, image_table_dataset, numbers, standardised
from gauge_lab.experiment import Experiment
from gauge_lab.parts import Parts
from gauge_lab.runner import _tasks
from gauge_lab.workspace import Workspace

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


def test_gamma_1_takes_the_whole_table_and_leaves_the_image(whole):
    test = leaf99.read("test", whole)
    for text, least, most in (("complete", 1.0, 1.0), ("gamma=0.5", 0.4, 0.6), ("gamma=1", 0.0, 0.0)):
        keep = mask_split(parse_protocol(text), test.feature_counts, len(test), seed=0, split="test")
        for batch in test.batches(40, keep=keep):
            assert bool(batch.observed["image"].all())
            assert least <= float(batch.observed["table"].float().mean()) <= most


def test_an_image_is_padded_with_black_to_a_centred_square(tmp_path):
    Image.new("L", (40, 20), 200).save(tmp_path / "wide.png")
    image = read_squares([tmp_path / "wide.png"], 64, pad=True)[0]
    assert (image[:, :15] == 0).all()
    assert (image[:, -15:] == 0).all()
    assert (image[:, 17:47] == 200).all()
    assert (read_squares([tmp_path / "wide.png"], 64) == 200).all(), "the centre square has no border"


def test_an_image_of_the_right_size_is_taken_as_it_is(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 255, (64, 64), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "leaf.png")
    for pad in (False, True):
        assert (read_squares([tmp_path / "leaf.png"], 64, pad=pad) == pixels).all()


def test_a_part_of_the_leaves_is_noted_and_logged_once(whole, caplog):
    leaf99.read.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert {leaf99.read(split, whole).note for split in ("train", "val", "test")} == {
            "Leaf subset: 495 of 990 leaves"
        }
    assert [record.message for record in caplog.records] == ["Leaf subset: 495 of 990 leaves"]


def test_the_folder_may_be_given_itself_and_another_is_answered_with_what_was_looked_for(whole, tmp_path):
    assert len(leaf99.read("val", whole / "leaf")) == 99
    with pytest.raises(ValueError, match="holds no leaves: nothing named images in leaf, leaf-classification, ."):
        leaf99.read("train", tmp_path / "nowhere")
    with pytest.raises(ValueError, match="leaf99 needs data; give --data DIR with leaf/train.csv and leaf/images"):
        leaf99.BENCHMARK.load("train")
    (tmp_path / "images").mkdir()
    with pytest.raises(ValueError, match="train.csv does not exist; unpack it there with the images"):
        leaf99.read("train", tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("margin7,", "margin_7,", "has no column 'margin7' (1 such); give the official table"),
        ("\n1483,", "\n1,", "has the id 1 twice; keep one row for each"),
        ("\n1483,Species_00", "\n1483,Other", "has 100 species; the labelled leaves are of 99"),
        ("\n1483,Species_00", "\n1483,", "species is empty in row 1; fill it in, or leave the row out"),
        (",7.0,", ",seven,", "margin2 is 'seven', not a number; leave unknown cells empty"),
        ("\n1483,", "\n1484,", "lacks 1484.jpg (1 such), which the table lists; unpack all images"),
    ],
)
def test_a_wrong_table_is_answered_with_what_is_wrong(data, old, new, message):
    path = data / "leaf" / "train.csv"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(ValueError) as caught:
        [leaf99.read(split, data) for split in ("train", "val", "test")]
    assert message in str(caught.value)


def test_an_empty_cell_is_missing_whatever_the_protocol(data):
    path = data / "leaf" / "train.csv"
    table = pd.read_csv(path)
    table.assign(margin2=None).to_csv(path, index=False)
    test = leaf99.read("test", data)
    assert test.observed["table"].float().mean(0)[:3].tolist() == [1, 0, 1]
    assert bool(torch.isfinite(test.inputs["table"]).all())
    keep = mask_split(parse_protocol("gamma=0.1"), test.feature_counts, len(test), seed=0, split="test")
    assert not any(batch.observed["table"][:, 1].any() for batch in test.batches(64, keep=keep))


def test_too_few_leaves_of_a_species_cannot_be_divided():
    with pytest.raises(ValueError, match="the 3 entries of here cannot be split .*; give more of them"):
        divide(np.array([0, 0, 1]), Path("here"), val=0.2, test=0.2)


def test_scaling_passes_over_gaps_and_they_become_zero_that_is_not_observed(tmp_path):
    values = numbers(pd.DataFrame({"a": [1.0, 3.0, None, 99.0], "b": [None, None, None, 5.0]}), tmp_path)
    scaled = standardised(values, np.arange(3))
    np.testing.assert_allclose(scaled[:2, 0], [-(0.5**0.5), 0.5**0.5])
    assert scaled[3, 1] == 5, "nothing to fit on"
    data = image_table_dataset("train", np.zeros((4, 3, 8, 8), np.uint8), scaled, np.zeros(4, np.int64), "")
    cells, observed = data.inputs["table"], data.observed["table"]
    assert observed.tolist() == [[True, False], [True, False], [False, False], [True, True]]
    assert cells[~observed].tolist() == [0] * 4


def test_every_seed_sees_a_division_of_its_own_and_the_sixth_the_first_again(whole):
    folds = [leaf99.BENCHMARK.for_seed(seed) for seed in range(6)]
    assert [benchmark.fold for benchmark in folds] == [0, 1, 2, 3, 4, 0]
    tests = [set(benchmark.load("test", whole).inputs["table"][:, 1:].sum(1).tolist()) for benchmark in folds]
    prints = [benchmark.load("test", whole).fingerprint for benchmark in folds]
    assert len(set(prints)) == 5
    assert prints[5] == prints[0]
    assert all(len(each) == len(tests[0]) for each in tests)


def test_each_fold_trains_stages_of_its_own(whole, tmp_path):
    made = [Experiment(benchmark="leaf99", variant="masked", seed=seed, data=str(whole)) for seed in (0, 3)]
    assert len([task for task in _tasks(made) if task.stage]) == 4  # a backbone and a method for each
    workspace = Workspace(tmp_path, "cpu")
    paths = {workspace.job(experiment).model_path for experiment in made}
    assert len(paths) == 2


def test_units_are_read_cell_by_cell_and_the_vector_by_a_small_transformer():
    parts = Parts.from_benchmark(leaf99.BENCHMARK)
    units, _ = parts.unit_network()
    assert units.unit_counts == {"image": 16, "table": 192}
    assert not any("blocks" in name for name, _ in units.encoders["table"].named_parameters())
    vectors = parts.vector_encoder()
    assert vectors.encoders["table"].layers.blocks[0].attention.heads == 4
    assert len(vectors.encoders["table"].layers.blocks) == 2


def test_options_of_encoders_and_another_imputer_come_by_settings():
    overrides = Overrides.parse(
        {"modality_options": {"image": {"channels": (4, 8)}}, "imputer_options": {"name": "iterative", "rounds": 2}},
        "here",
    )
    changed = leaf99.BENCHMARK.with_overrides(overrides)
    assert changed.modalities["image"].options == {"channels": (4, 8)}
    assert changed.imputer == "iterative"
    assert changed.imputer_options == {"cardinalities": (1,) * 192, "rounds": 2}
    with pytest.raises(ValueError, match="there is no modality of leaf99 'photo'"):
        leaf99.BENCHMARK.with_overrides(Overrides(modality_options={"photo": {}}))
    with pytest.raises(ValueError, match="here: modality_options.image: Input should be a valid dictionary"):
        Overrides.parse({"modality_options": {"image": 3}}, "here")


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
