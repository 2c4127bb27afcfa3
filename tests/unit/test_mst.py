"""MNIST-SVHN-Text: files are read or answered with a cure, digits are paired as published, words become one-hot rows."""

import gzip
import io
import logging
import struct

import numpy as np
import pytest
import torch
from scipy.io import savemat

from gauge_lab.benchmarks import mst
from gauge_lab.benchmarks.readers.digits import read_idx, read_svhn
from gauge_lab.benchmarks.readers.text import ALPHABET, one_hot

pytestmark = pytest.mark.usefixtures("warnings_anew")


def idx(array):
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def mat(labels, **other):
    """A .mat file; each image shows the number of its row in red and its digit in green."""
    digits = np.asarray(labels, dtype=np.uint8)
    pixels = np.zeros((32, 32, 3, len(digits)), np.uint8)
    pixels[:, :, 0], pixels[:, :, 1] = np.arange(len(digits)), digits
    content = {"X": pixels, "y": np.where(digits == 0, 10, digits).astype(np.uint8)[:, None]} | other
    buffer = io.BytesIO()
    savemat(buffer, {name: values for name, values in content.items() if values is not None})
    return buffer.getvalue()


@pytest.fixture
def data(tmp_path):
    """MNIST with 4 training and 10 test digits of each class; SVHN with one less of digit 7, one more of digit 8."""
    raw, svhn = tmp_path / "MNIST" / "raw", tmp_path / "SVHN"
    raw.mkdir(parents=True)
    svhn.mkdir()
    for part, mat_name, each in (("train", "train", 4), ("t10k", "test", 10)):
        labels = np.tile(np.arange(10, dtype=np.uint8), each)
        images = np.broadcast_to(np.arange(len(labels), dtype=np.uint8)[:, None, None], (len(labels), 28, 28))
        (raw / f"{part}-images-idx3-ubyte").write_bytes(idx(images))
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(idx(labels))
        walls = np.repeat(np.arange(10), [each] * 7 + [each - 1, each + 1, each])
        (svhn / f"{mat_name}_32x32.mat").write_bytes(mat(walls))
    return tmp_path


def decoded(rows):
    return "".join(ALPHABET[int(row.argmax())] for row in rows)


def test_every_row_shows_one_digit_in_all_three_modalities(data):
    for split in ("train", "val", "test"):
        part = mst.read(split, data)
        assert part.shapes == {"mnist": (1, 28, 28), "svhn": (3, 32, 32), "text": (8, 71)}
        assert torch.equal(part.inputs["mnist"][:, 0, 3, 3].long() % 10, part.labels)
        assert torch.equal(part.inputs["svhn"][:, 1, 3, 3].long(), part.labels)
        assert [decoded(text).strip() for text in part.inputs["text"]] == [mst.WORDS[label] for label in part.labels]


def test_each_class_has_twenty_times_the_smaller_count_of_both_sets(data):
    assert torch.bincount(mst.read("train", data).labels).tolist() == [80] * 7 + [60, 80, 80]
    assert torch.bincount(mst.read("val", data).labels).tolist() == [60] * 10
    assert torch.bincount(mst.read("test", data).labels).tolist() == [140] * 7 + [120, 140, 140]


def test_only_the_first_digits_of_a_class_are_paired_each_twenty_times_in_changing_company(data):
    train = mst.read("train", data)
    sevens = train.inputs["mnist"][train.labels == 7, 0, 0, 0]
    assert {int(row): int((sevens == row).sum()) for row in sevens.unique()} == {7: 20, 17: 20, 27: 20}
    eights = train.inputs["svhn"][train.labels == 8, 0, 0, 0]
    assert {int(row): int((eights == row).sum()) for row in eights.unique()} == {31: 20, 32: 20, 33: 20, 34: 20}
    partners = eights[train.inputs["mnist"][train.labels == 8, 0, 0, 0] == 8]
    assert len(partners.unique()) > 1


def test_a_word_starts_anywhere_but_leaves_the_last_place_blank_and_stays_where_it_is(data):
    labels = np.repeat(np.arange(10, dtype=np.uint8), 300)
    texts = [decoded(text) for text in mst.words(labels, np.random.default_rng(0))]
    for digit, word in enumerate(mst.WORDS):
        starts = {text.index(word) for text, label in zip(texts, labels, strict=True) if label == digit}
        assert starts == set(range(8 - len(word)))
    train = mst.read("train", data)
    index = torch.arange(5)
    assert torch.equal(train.batch(index).inputs["text"], train.batch(index).inputs["text"])
    assert train.batch(index).inputs["text"].unique().tolist() == [0.0, 1.0]


def test_val_and_test_share_no_digit_of_either_set(data):
    val, test = (mst.read(split, data).inputs for split in ("val", "test"))
    for name in ("mnist", "svhn"):
        assert not set(val[name][:, 0, 0, 0].tolist()) & set(test[name][:, 0, 0, 0].tolist())


IDX = idx(np.zeros((2, 28, 28), np.uint8))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("file", lambda: b"\x89PNG....", "starts with 89504e47, not 00000803; give the official IDX file"),
        ("file", lambda: idx(np.zeros(7, np.uint8)), "starts with 00000801, not 00000803; give the official IDX file"),
        ("file", lambda: IDX[:11], "ends inside its header, after 11 of 16 bytes; download it again"),
        ("file", lambda: IDX[:-1], r"holds 1,567 bytes, but its header says \[2, 28, 28\]; download it again"),
        ("file", lambda: IDX + b"\0", r"holds 1,569 bytes, but its header says \[2, 28, 28\]; download it again"),
        ("file.gz", lambda: gzip.compress(IDX)[:-9], r"file.gz is damaged \(.*\); download it again"),
        ("file.gz", lambda: b"not packed", r"file.gz is damaged \(.*\); download it again"),
        ("other", lambda: b"", "there is neither .*file nor file.gz; put one of them in"),
    ],
)
def test_a_wrong_idx_file_is_answered_with_what_is_wrong(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content())
    with pytest.raises(ValueError, match=message):
        read_idx(tmp_path / "file", 3)


def test_label_ten_of_svhn_is_the_digit_zero_and_channels_come_first(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 255, (32, 32, 3, 3), dtype=np.uint8)
    (tmp_path / "part.mat").write_bytes(mat([0, 1, 9], X=pixels))
    digits = read_svhn(tmp_path / "part.mat")
    assert digits.labels.tolist() == [0, 1, 9]
    assert digits.images.shape == (3, 3, 32, 32)
    assert digits.images[1, 2, 10, 20] == pixels[10, 20, 2, 1]


def test_the_alphabet_has_71_symbols_in_the_published_order():
    assert len(ALPHABET) == 71
    places = {"a": 0, "z": 25, "0": 26, "9": 35, ",": 37, '"': 44, "\\": 45, "*": 55, "`": 57, " ": 69, "\n": 70}
    assert {symbol: ALPHABET.index(symbol) for symbol in places} == places


def test_characters_outside_the_alphabet_become_zero_rows_and_are_counted_in_one_warning(caplog):
    with caplog.at_level(logging.WARNING):
        rows = one_hot(["aBc", "éA", "x\x7f", "fine"], 4)
    assert (rows.sum(2) > 0).tolist() == [[1, 0, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1]]
    assert [record.message for record in caplog.records] == [
        "4 characters of 4 texts are outside the alphabet and become zero rows, such as 'BéA\\x7f'"
    ]
