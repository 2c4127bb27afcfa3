"""Images keep their range and their direction; one that cannot be read never ends a run."""

import logging
import struct
import zlib

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from gauge.data.images import open_image
from gauge.tabular.table.columns import ImageFiles, infer_kind
from gauge.tabular.table.columns.image import Image as ImageColumn
from gauge.tabular.table.schema import Schema


@pytest.mark.parametrize(
    ("pixels", "name", "expected"),
    [
        (np.array([[0, 65535], [32768, 257]], np.uint16), "x.png", [[0, 255], [128, 1]]),
        (np.array([[0, 65535], [32768, 257]], np.uint16), "x.tif", [[0, 255], [128, 1]]),
        (np.array([[0.0, 1.0], [0.5, 0.2]], np.float32), "x.tif", [[0, 255], [128, 51]]),
        (np.array([[0, 65535], [32768, 257]], np.int32), "x.tif", [[0, 255], [128, 1]]),
    ],
)
def test_images_of_16_and_32_bits_keep_their_range(tmp_path, pixels, name, expected):
    Image.fromarray(pixels).save(tmp_path / name)
    assert np.asarray(open_image(tmp_path / name))[..., 0].tolist() == expected


@pytest.mark.parametrize(
    ("pixels", "kept"),
    [
        (np.arange(63).reshape(9, 7), True),  # as bytes
        (np.arange(63).reshape(9, 7) - 1000, False),
        (np.arange(63).reshape(9, 7) * 5, False),
        (np.arange(63).reshape(9, 7) * 2.0, False),
        (np.linspace(-1, 1, 63).reshape(9, 7), False),
        (np.arange(63, dtype=np.uint16).reshape(9, 7), False),
        (Image.fromarray(np.arange(63, dtype=np.int32).reshape(9, 7)), False),
        (np.arange(63, dtype=np.uint16).reshape(9, 7) * 300, True),
        (np.zeros((9, 7), np.uint16), True),
        (np.zeros((9, 7)), True),
    ],
)
def test_an_image_is_never_stretched_by_its_own_brightest_pixel(pixels, kept, caplog):
    _, observed = ImageColumn("scan", 16).encode(pd.Series([pixels], dtype=object, name="scan"))
    assert observed.tolist() == [kept]
    assert (
        "; scale all images alike, to 0 to 1 (fractions), 0 to 255 (bytes) or 0 to 65,535" in caplog.text
    ) is not kept


def test_training_says_so_where_all_images_are_dark(caplog):
    twelve_bits = [np.full((4, 4), value, np.uint16) for value in (300, 4095)]
    ImageColumn("scan", 4).encode(pd.Series(twelve_bits, dtype=object, name="scan"), training=True)
    assert "column 'scan': no pixel is brighter than 16 of 255; scale all images alike" in caplog.text


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
    (tmp_path / "folder").mkdir()
    values = ["good.png", "bomb.png", "x" * 300 + ".png", "nul\0.png", "nan.tif", "folder"]
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


def test_images_of_pillow_and_arrays_of_pixels_are_read_as_their_files_are(tmp_path):
    draw = np.random.default_rng(0)
    arrays = [draw.integers(0, 256, (9, 7, 3)).astype(np.uint8) for _ in range(3)]
    for number, pixels in enumerate(arrays):
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    column = ImageColumn("photo", side=8)
    files = ImageFiles(tmp_path)
    expected, _ = column.encode(pd.Series(["0.png", "1.png", "2.png"], name="photo"), files)
    ways = {
        "Pillow": [Image.fromarray(pixels) for pixels in arrays],
        "bytes": arrays,
        "integers": [pixels.astype(int) for pixels in arrays],
        "fractions": [pixels / 255 for pixels in arrays],
    }
    for way, cells in ways.items():
        given = pd.Series([*cells, None], dtype=object, name="photo")
        frame = pd.DataFrame({"photo": given})
        schema = Schema.from_frame(frame)
        assert [each.kind for each in schema.columns] == ["image"], way
        images, observed = column.encode(ImageColumn.clean(given))
        assert np.array_equal(images[:3], expected), way
        assert observed.tolist() == [True] * 3 + [False]
    grey = np.arange(63, dtype=np.uint8).reshape(9, 7)
    assert infer_kind(pd.Series([grey, grey.T], dtype=object))[0] == "signal"  # unless it is set
    assert np.array_equal(np.asarray(open_image(grey)), np.stack([grey] * 3, 2))
    assert np.array_equal(np.asarray(open_image(grey > 30)), 255 * np.stack([grey > 30] * 3, 2))
    with pytest.raises(ValueError, match=r"an array of shape \[9\] cannot be read as an image \(pixels are numbers"):
        open_image(np.arange(9))


def test_a_column_of_images_of_which_training_finds_none_is_an_error(tmp_path):
    column = pd.Series(["hello there", "a.png", None], name="photo")
    with pytest.raises(ValueError, match=r"none of its image files can be found, first hello there \(row 0\); set the"):
        ImageColumn("photo").encode(column, ImageFiles(tmp_path), training=True)
    Image.new("L", (4, 4)).save(tmp_path / "a.png")
    assert ImageColumn("photo").encode(column, ImageFiles(tmp_path), training=True)[1].tolist() == [False, True, False]
