"""Faces and descriptions: what belongs together, and that neither alone says anything about the class."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from gauge.masks import mask_split
from gauge_lab.benchmarks import celeba_match

PARTS = {"train": 20, "val": 10, "test": 10}


def described(number):
    """The description of a face: its number modulo 7 in binary, in three of the ten attributes."""
    return [float(number % 7 >> bit & 1) for bit in range(3)] + [0.0] * 7


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Forty faces that are as bright as their number."""
    root = tmp_path_factory.mktemp("data")
    folder = root / "CelebA"
    (folder / "img_align_celeba").mkdir(parents=True)
    names = [f"{number:06d}.jpg" for number in range(40)]
    values = np.array([described(number) for number in range(40)]).astype(int) * 2 - 1
    table = pd.DataFrame(values, columns=celeba_match.DESCRIBED)
    table.insert(0, "image_id", names)
    table[table.columns[::-1]].to_csv(folder / "list_attr_celeba.csv", index=False)  # columns in another order
    parts = np.repeat([0, 1, 2], list(PARTS.values()))
    pd.DataFrame({"image_id": names, "partition": parts}).to_csv(folder / "list_eval_partition.csv", index=False)
    for number, name in enumerate(names):
        Image.new("RGB", (178, 218), (6 * number, 0, 0)).save(folder / "img_align_celeba" / name, quality=95)
    return root


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


@pytest.mark.parametrize("seed", range(5))
def test_every_row_gets_another_description_even_if_half_of_them_are_alike(seed):
    descriptions = np.repeat([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]], [50, 30, 20], axis=0)
    given = celeba_match.other_rows(descriptions, seed=seed)
    assert sorted(given) == list(range(100))
    assert (descriptions[given] != descriptions).any(1).all()
    assert np.array_equal(celeba_match.other_rows(descriptions, seed=seed), given)
    assert not np.array_equal(celeba_match.other_rows(descriptions, seed=seed + 1), given)


def test_mismatched_descriptions_are_drawn_from_all_others_in_proportion():
    descriptions = np.repeat(np.eye(4), 500, axis=0)
    kind, given = descriptions.argmax(1), celeba_match.other_rows(descriptions, seed=0)
    counts = np.histogram2d(kind, kind[given], bins=4)[0]
    assert counts.diagonal().tolist() == [0] * 4
    assert counts[~np.eye(4, dtype=bool)] == pytest.approx(500 / 3, rel=0.25)


def test_faces_most_of_which_have_one_description_are_refused():
    descriptions = np.repeat([[0.0], [1.0]], [51, 49], axis=0)
    with pytest.raises(ValueError, match="more than half of the faces of a split have one description; give more"):
        celeba_match.other_rows(descriptions, seed=0)


def test_tables_without_a_described_attribute_are_refused(data, tmp_path):
    (tmp_path / "img_align_celeba").symlink_to(data / "CelebA" / "img_align_celeba")
    for name in ("list_attr_celeba.csv", "list_eval_partition.csv"):
        (tmp_path / name).write_text((data / "CelebA" / name).read_text().replace("Young", "Old"))
    with pytest.raises(ValueError, match=r"the attributes have no Young \(1 such\); give the official table"):
        celeba_match.BENCHMARK.load("train", tmp_path)


def test_protocols_remove_cells_of_the_description_and_leave_the_face(data):
    test = celeba_match.BENCHMARK.load("test", data)
    for protocol in celeba_match.BENCHMARK.protocols:
        kept = mask_split(protocol, test.feature_counts, len(test), seed=0, split="test")
        assert bool(kept["image"].all())
        assert float(kept["table"].float().mean()) == pytest.approx(1 - getattr(protocol, "rate", 0.0))
