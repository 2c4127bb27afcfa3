"""DVM: the published files are read row by row, with images where their list says; anything else is answered with a cure."""

import numpy as np
import pytest
import torch
from official import CAR_LABELS, CAR_PATHS, CAR_TABLE, CARS, write_dvm, written_by

from gauge_lab.benchmarks import dvm
from gauge_lab.benchmarks.readers.tip import find_arrays, read_list

pytestmark = pytest.mark.usefixtures("warnings_anew")
data = written_by(write_dvm)


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


def test_images_of_one_name_are_never_taken_for_each_other(tmp_path):
    np.save(tmp_path / "heart.npy", np.zeros((2, 2, 3), np.uint8))
    with pytest.raises(ValueError, match="lists several images that would be .*heart.npy; keep their folders"):
        find_arrays(["/x/1/heart.npy", "/x/2/heart.npy"], [tmp_path], tmp_path / "paths.pt")


class Anything:
    """What a pickle could execute."""


def test_nothing_in_a_list_is_executed(tmp_path):
    torch.save([Anything()], tmp_path / "labels.pt")
    with pytest.raises(ValueError, match="cannot be read as a plain list .*; save a plain list there: torch.save"):
        read_list(tmp_path / "labels.pt")


ROWS = {CAR_TABLE: 6, CAR_LABELS: 2, CAR_PATHS: 6}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (dvm.LENGTHS, [22, 13, 3, 12], "lists [22, 13, 3, 12] categories, not [22, 13, 3, 12, 1, 1, 1, 1, 1, 1, 1, 1"),
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
