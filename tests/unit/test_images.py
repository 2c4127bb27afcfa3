"""Images keep their range and their direction; one that cannot be read never ends a run."""

import logging
import struct
import zlib

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from gauge.data.images import open_image
from gauge.tabular.table.arrays import encode_rows
from gauge.tabular.table.columns import ImageFiles
from gauge.tabular.table.columns.image import Image as ImageColumn


@pytest.mark.parametrize(
    ("pixels", "name", "expected"),
    [
        (np.array([[0, 65535], [32768, 257]], np.uint16), "x.png", [[0, 255], [128, 1]]),
        (np.array([[0, 65535], [32768, 257]], np.uint16), "x.tif", [[0, 255], [128, 1]]),
        (np.array([[0.0, 1.0], [0.5, 0.2]], np.float32), "x.tif", [[0, 255], [128, 51]]),
        (np.array([[-5.0, 5.0], [0.0, 3.0]], np.float32), "x.tif", [[0, 255], [128, 204]]),
        (np.array([[0, 70000], [35000, 14000]], np.int32), "x.tif", [[0, 255], [128, 51]]),
    ],
)
def test_images_of_16_and_32_bits_keep_their_range(tmp_path, pixels, name, expected):
    Image.fromarray(pixels).save(tmp_path / name)
    assert np.asarray(open_image(tmp_path / name))[..., 0].tolist() == expected


def test_a_rotation_in_exif_is_applied(tmp_path):
    image, exif = Image.new("RGB", (8, 4)), Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees
    image.save(tmp_path / "x.jpg", exif=exif)
    assert open_image(tmp_path / "x.jpg").size == (4, 8)


def bomb(path):
    """A PNG of a few bytes that claims to have 10**10 pixels."""
    header = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk)))


def test_bombs_long_names_and_images_that_are_none_are_missing_and_reported(tmp_path, caplog):
    Image.new("RGB", (4, 4), (9, 9, 9)).save(tmp_path / "good.png")
    bomb(tmp_path / "bomb.png")
    Image.fromarray(np.full((2, 2), np.nan, np.float32)).save(tmp_path / "nan.tif")
    values = ["good.png", "bomb.png", "x" * 300 + ".png", "nul\0.png", "nan.tif", "."]
    with caplog.at_level(logging.WARNING):
        _, observed = ImageColumn("photo", 16).encode(pd.Series(values, name="photo"), ImageFiles(tmp_path))
    assert observed.tolist() == [True] + [False] * 5
    assert "bomb.png cannot be read as an image" in caplog.text
    assert "3 image files do not exist and count as missing" in caplog.text


def test_images_outside_the_folder_are_missing_unless_they_are_allowed(tmp_path, caplog):
    inside = tmp_path / "inside"
    inside.mkdir()
    for folder in (tmp_path, inside):
        Image.new("RGB", (4, 4)).save(folder / "x.png")
    values = pd.Series(["x.png", "../x.png", str(tmp_path / "x.png"), "../inside/x.png"], name="photo")
    column = ImageColumn("photo", 16)
    with caplog.at_level(logging.WARNING):
        assert column.encode(values, ImageFiles(inside, outside=False))[1].tolist() == [True, False, False, True]
    assert f"2 image files lie outside {inside} and count as missing, first ../x.png (row 1)" in caplog.text
    assert column.encode(values, ImageFiles(inside))[1].all()


def test_shrinking_is_reported_in_training(tmp_path, caplog):
    Image.new("RGB", (90, 40)).save(tmp_path / "x.png")
    column, values = ImageColumn("photo", 16), pd.Series(["x.png"], name="photo")
    with caplog.at_level(logging.WARNING):
        column.encode(values, ImageFiles(tmp_path))
        assert not caplog.text
        images, _ = column.encode(values, ImageFiles(tmp_path), training=True)
    assert images.shape == (1, 3, 16, 16)
    assert "column 'photo': images of up to 90 pixels are shrunk to 16 x 16; image_size=" in caplog.text


def test_a_number_too_long_to_print_is_no_path_of_an_image(tmp_path, caplog):
    frame = pd.DataFrame({"photo": pd.Series([10**5000, "1.png"], dtype=object)})
    with caplog.at_level(logging.WARNING):
        _, observed = encode_rows([ImageColumn("photo", 16)], frame, ImageFiles(tmp_path))["image0"]
    assert not observed.any()
    assert "2 image files do not exist and count as missing, first an integer beyond 1e300 (row 0)" in caplog.text
