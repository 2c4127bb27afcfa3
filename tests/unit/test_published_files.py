"""Files that the published code reads or leaves are used where they are there: pairs, texts, partitions, masks, weights."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.io import savemat

from gauge.masks import parse_protocol
from gauge.training.inference import masked_batches
from gauge_lab.benchmarks import celeba, mst, polymnist
from gauge_lab.benchmarks.readers.celeba import read_partition, read_texts
from gauge_lab.benchmarks.readers.polymnist import VIEWS, read_masks
from gauge_lab.experiment import Experiment


@pytest.fixture
def prepared(tmp_path):
    """Two digits of each class on both sides; image i of MNIST is as bright as i, house number i as red as i."""
    root = tmp_path / "MoPoE" / "MNIST_SVHN_TEXT"
    digits, labels = root / "MNIST" / "processed", np.tile(np.arange(10, dtype=np.uint8), 2)
    for folder in (digits, root / "SVHN", root / "MNIST_SVHN" / "processed"):
        folder.mkdir(parents=True)
    for split, name in (("train", "training"), ("val", "val"), ("test", "test")):
        images = torch.arange(20, dtype=torch.uint8)[:, None, None].expand(20, 28, 28).clone()
        torch.save((images, torch.from_numpy(labels).long()), digits / f"{name}.pt")
        walls = np.zeros((32, 32, 3, 20), np.uint8)
        walls[:, :, 0] = np.arange(20)
        savemat(root / "SVHN" / f"{split}_32x32.mat", {"X": walls, "y": np.where(labels == 0, 10, labels)[:, None]})
    return tmp_path, root / "MNIST_SVHN" / "processed"


def write_pairs(folder, left, right):
    torch.save(torch.tensor(left), folder / "test-ms-mnist-idx.pt")
    torch.save(torch.tensor(right), folder / "test-ms-svhn-idx.pt")


def test_prepared_digits_keep_their_pairs(prepared):
    data, pairs = prepared
    write_pairs(pairs, [3, 13, 0], [13, 3, 10])
    test = mst.read("test", data)
    assert test.inputs["mnist"][:, 0, 0, 0].tolist() == [3, 13, 0]
    assert test.inputs["svhn"][:, 0, 0, 0].tolist() == test.groups.tolist() == [13, 3, 10]
    assert test.labels.tolist() == [3, 3, 0]
    assert test.note == "part of the published samples: 3 of 140,000 test samples"


def test_nothing_in_a_prepared_file_is_executed(prepared):
    data, pairs = prepared
    torch.save(prepared_object(), pairs / "test-ms-mnist-idx.pt")
    torch.save(torch.tensor([0]), pairs / "test-ms-svhn-idx.pt")
    with pytest.raises(ValueError, match="mnist-idx.pt cannot be read as a tensor of indices"):
        mst.read.__wrapped__("test", data)


def prepared_object():
    return pd.Timestamp("2026-01-01")


@pytest.fixture
def faces(tmp_path):
    names = ["2.jpg", "1.jpg", "3.jpg"]
    pd.DataFrame({"image_id": names, "partition": [0, 1, 2]}).to_csv(tmp_path / "list_eval_partition.csv", index=False)
    return tmp_path, names


def test_the_balanced_partition_of_a_label_goes_before_the_official_one(faces):
    folder, names = faces
    assert read_partition(folder, "Blond_Hair").tolist() == [1, 0, 2]
    path = folder / "list_eval_partition_Blond_Hair_balanced.csv"
    pd.DataFrame({"image_id": names, "partition": [2, 2, 0]}).to_csv(path, index=False)
    assert read_partition(folder, celeba.LABEL).tolist() == [2, 2, 0]
    assert read_partition(folder, "Chubby").tolist() == [1, 0, 2], "it is balanced for its label"


def test_published_texts_are_found_by_the_name_of_the_image(faces):
    folder, names = faces
    images = pd.Index(["1.jpg", "2.jpg"])
    assert read_texts(folder, images) is None
    path = folder / "list_attr_text_256_False_True_celeba.csv"
    pd.DataFrame({"image_id": names, "text": ["**bald, bangs", "nan", "young"]}).to_csv(path, index=False)
    assert read_texts(folder, images) == ["nan", "**bald, bangs"]
    with pytest.raises(ValueError, match=r"has no text of 9.jpg \(1 such\); give the texts of all images"):
        read_texts(folder, pd.Index(["9.jpg"]))


def write_masks(folder, split, rate, rows):
    (folder / "missing_modality").mkdir(exist_ok=True)
    path = folder / "missing_modality" / f"missing_{split}_random_{rate}.csv"
    pd.DataFrame(rows).to_csv(path, header=False, index=False)


def test_published_masks_are_what_a_split_is_evaluated_under(tmp_path):
    rows = [[view != row for view in range(5)] for row in range(3)]
    write_masks(tmp_path, "test", 0.8, rows)
    masks = read_masks(tmp_path, "test", 3)
    views = [np.zeros((3, 3, 28, 28), np.uint8) for _ in VIEWS]
    data = polymnist.view_dataset("test", views, np.arange(3), masks=masks)
    (batch,) = masked_batches(data, parse_protocol("eta=0.8"), 3)
    assert torch.stack([batch.observed[view] for view in VIEWS], 1).tolist() == (~np.array(rows)).tolist()
    (batch,) = masked_batches(data.take(torch.tensor([2])), parse_protocol("eta=0.8"), 3)
    assert [view for view in VIEWS if batch.observed[view]] == ["m2"]
    (drawn,) = masked_batches(data, parse_protocol("eta=0.6"), 3)
    assert all(sum(bool(drawn.observed[view][row]) for view in VIEWS) == 2 for row in range(3)), "no file: drawn"
    assert data.fingerprint != polymnist.view_dataset("test", views, np.arange(3)).fingerprint


@pytest.mark.parametrize(
    ("name", "expected"), [("cad", "ratio"), ("infarction", "ratio"), ("dvm", "log"), ("mst", "log")]
)
def test_dymo_calibrates_hearts_by_the_ratio(name, expected):
    experiment = Experiment(benchmark=name, method="dymo", variant="dymo")
    assert experiment.stage(experiment.configured()).arguments["calibration"] == expected
