"""DVM: the published files are read row by row, with images where their list says; anything else is answered with a cure."""

import logging

import numpy as np
import pytest
import torch
from official import CAR_LABELS, CAR_PATHS, CAR_TABLE, CARS, write_dvm

from gauge.masks import mask_split, parse_protocol
from gauge_lab.benchmarks import dvm
from gauge_lab.benchmarks.readers.squares import read_arrays
from gauge_lab.benchmarks.readers.tip import find_arrays, read_list

pytestmark = pytest.mark.usefixtures("warnings_anew")


@pytest.fixture
def data(tmp_path):
    write_dvm(tmp_path)
    return tmp_path


def test_every_row_has_its_image_its_facts_and_its_label(data):
    for split, rows in CARS.items():
        part = dvm.read(split, data)
        assert part.shapes == {"image": (3, 128, 128), "table": (17,)}
        assert part.inputs["image"].dtype == torch.uint8
        assert part.inputs["image"][:, 1, 64, 64].tolist() == [10 * row for row in range(rows)]
        assert part.inputs["table"][:, 11].tolist() == list(range(rows))
        assert part.inputs["table"][:, 0].tolist() == [21.0] * rows
        assert part.labels.tolist() == [285 - row for row in range(rows)]
        assert bool(part.observed["table"].all())
        assert part.feature_counts == {"image": None, "table": 17}


def test_an_empty_cell_is_missing_and_holds_no_nan(data):
    path = data / "DVM" / "features" / CAR_TABLE
    path.write_text(path.read_text().replace("21.000000,", ",", 1))
    train = dvm.read("train", data)
    assert (~train.observed["table"]).nonzero().tolist() == [[0, 0]]
    assert train.inputs["table"][0, 0] == 0


def test_the_published_masks_fit_and_gamma_1_leaves_the_image(data):
    test = dvm.read("test", data)
    assert str(dvm.BENCHMARK.protocols[-1]) == "gamma=1"
    for text, missing in (("complete", 0), ("gamma=0.9", int(4 * 17 * 0.9)), ("gamma=1", 4 * 17)):
        keep = mask_split(parse_protocol(text), test.feature_counts, len(test), seed=0, split="test")
        batch = next(test.batches(4, keep=keep))
        assert int((~batch.observed["table"]).sum()) == missing
        assert bool(batch.observed["image"].all())
        batch.check()


def test_the_folder_of_features_may_be_given_itself(data):
    expected = dvm.read("val", data).fingerprint
    assert dvm.read("val", data / "DVM").fingerprint == expected
    assert dvm.read("val", data / "DVM" / "features").fingerprint == expected


def test_an_image_is_taken_from_where_its_list_says_if_it_is_there(tmp_path):
    for folder in ("here", "root/here"):
        (tmp_path / folder).mkdir(parents=True)
        np.save(tmp_path / folder / "a.npy", np.zeros((2, 2, 3), np.uint8))
    written = str(tmp_path / "here" / "a.jpg")
    assert find_arrays([written], [tmp_path / "root"], tmp_path) == [tmp_path / "here" / "a.npy"]
    assert find_arrays(["/x/here/a.jpg"], [tmp_path / "root"], tmp_path) == [tmp_path / "root" / "here" / "a.npy"]
    assert find_arrays(["here/a.npy"], [tmp_path / "root"], tmp_path) == [tmp_path / "root" / "here" / "a.npy"]


def test_images_of_one_name_are_never_taken_for_each_other(tmp_path):
    np.save(tmp_path / "heart.npy", np.zeros((2, 2, 3), np.uint8))
    with pytest.raises(ValueError, match="lists several images that would be .*heart.npy; keep their folders"):
        find_arrays(["/x/1/heart.npy", "/x/2/heart.npy"], [tmp_path], tmp_path / "paths.pt")


def test_images_are_resized_to_bytes_and_those_of_the_right_size_stay(tmp_path):
    draw = np.random.default_rng(0)
    right, shade = draw.integers(0, 255, (128, 128, 3), dtype=np.uint8), np.zeros((210, 210, 3), np.float32)
    shade[:105], shade[105:] = 1.0, 0.2
    np.save(tmp_path / "right.npy", right)
    np.save(tmp_path / "shade.npy", shade)
    images = read_arrays([tmp_path / "right.npy", tmp_path / "shade.npy"], 128)
    assert (images[0] == right.transpose(2, 0, 1)).all()
    assert (images[1, :, 0] == 255).all()
    assert (images[1, :, -1] == 51).all()


def test_lists_of_numpy_numbers_and_tensors_are_lists_too(tmp_path):
    for content in (list(np.arange(3)), [np.float64(0), np.int32(1), 2], torch.arange(3)):
        torch.save(content, tmp_path / "labels.pt")
        assert [int(value) for value in read_list(tmp_path / "labels.pt")] == [0, 1, 2]
    torch.save([np.str_("a.jpg")], tmp_path / "paths.pt")
    assert read_list(tmp_path / "paths.pt") == ["a.jpg"]


class Anything:
    """What a pickle could execute."""


def test_nothing_in_a_list_is_executed(tmp_path):
    torch.save([Anything()], tmp_path / "labels.pt")
    with pytest.raises(
        ValueError, match="labels.pt cannot be read as a plain list .*; save a plain list there: torch.save"
    ):
        read_list(tmp_path / "labels.pt")


def test_a_part_of_the_rows_is_noted_and_logged_once(data, caplog):
    with caplog.at_level(logging.WARNING):
        assert dvm.read("test", data).note == "part of the published rows: 4 of 88,207 test rows"
    assert [record.message for record in caplog.records] == ["part of the published rows: 4 of 88,207 test rows"]


def test_absent_data_is_answered_with_what_to_give(tmp_path):
    with pytest.raises(ValueError, match="dvm needs data; give --data DIR with DVM/features/tabular_lengths_all_views"):
        dvm.BENCHMARK.load("train")
    with pytest.raises(ValueError, match="holds no data of dvm: nothing named tabular_lengths_all_views_physical_reo"):
        dvm.read("train", tmp_path)


ROWS = {CAR_TABLE: 6, CAR_LABELS: 2, CAR_PATHS: 6}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            dvm.LENGTHS,
            [22, 13, 3, 12],
            "lists [22, 13, 3, 12] categories, not [22, 13, 3, 12, 1, 1, 1, 1, 1, 1, 1, 1, 1",
        ),
        (CAR_LABELS, [0, 1, 2, 3, 4, 286], "the label in row 6 is 286; give classes from 0 to 285"),
        (CAR_LABELS, [0, 1, 2, 3, 4, 0.5], "the label in row 6 is 0.5; give classes from 0 to 285"),
        (CAR_LABELS, [0, 1], f"rows: {ROWS}; take all three files from one preparation"),
        (CAR_LABELS, {"a": 1}, "holds dict, not a list with entries; save one with torch.save"),
        (CAR_LABELS, [], "holds list, not a list with entries"),
        (CAR_PATHS, ["/x/y.jpg"] * 6, "lists /x/y.jpg, but there is no y.npy under"),
    ],
)
def test_a_wrong_list_is_answered_with_what_is_wrong(data, name, content, message):
    torch.save(content, data / "DVM" / "features" / name)
    with pytest.raises(ValueError) as caught:
        dvm.read("train", data)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("21.000000", "22.000000", "row 1 has 22 in column 0; give codes from 0 to 21, with categories first"),
        ("21.000000", "0.500000", "row 1 has 0.5 in column 0; give codes from 0 to 21"),
        ("21.000000", "-1", "row 1 has -1 in column 0; give codes from 0 to 21"),
        ("21.000000", "Color", "cannot be read as numbers without header"),
        ("21.000000,0.000000", "21.000000", "has 16 columns; the published table has 17"),
    ],
)
def test_a_wrong_table_is_answered_with_what_is_wrong(data, old, new, message):
    path = data / "DVM" / "features" / CAR_TABLE
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ValueError) as caught:
        dvm.read("train", data)
    assert message in str(caught.value)


def test_an_absent_file_is_named(data):
    (data / "DVM" / "features" / CAR_LABELS).unlink()
    with pytest.raises(ValueError, match=f"{CAR_LABELS} does not exist; put the published files into one folder"):
        dvm.read("train", data)
    (data / "DVM" / "features" / CAR_TABLE).unlink()
    with pytest.raises(ValueError, match=f"{CAR_TABLE} cannot be read as numbers without header"):
        dvm.read("train", data)


@pytest.mark.parametrize(
    ("pixels", "message"),
    [
        (np.zeros((4, 4), np.uint8), "holds an array of shape [4, 4]; an image has [height, width, 3]"),
        (np.full((4, 4, 3), 255.0), "holds float64 from 255.0 to 255.0; give bytes, or numbers from 0 to 1"),
        (np.full((4, 4, 3), np.nan), "holds float64 from nan to nan; give bytes, or numbers from 0 to 1"),
        (np.zeros((4, 4, 3), np.int64), "holds int64 from 0 to 0; give bytes, or numbers from 0 to 1"),
        (None, "cannot be read as an array"),
    ],
)
def test_a_wrong_image_is_named(data, pixels, message):
    path = data / "DVM" / "images" / "train" / "Car$$20.5$$a 3.npy"
    path.write_bytes(b"broken") if pixels is None else np.save(path, pixels)
    with pytest.raises(ValueError) as caught:
        dvm.read("train", data)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
