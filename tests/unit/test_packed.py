"""Packed tables read as the files in them; what is damaged, or unpacks to far more than a table, is refused."""

import bz2
import gzip
import lzma
import zipfile

import pandas as pd
import pytest

from gauge.tabular.table import packed as unpacking
from gauge.tabular.table.files import read_rows, read_table_file

TEXT = 'name;size\n"Müller; A";1,5\n"two\nlines";\n' + 'plain;"2,5"\n' * 50


def zipped(content, *names):
    def write(path):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in names or ("rows",):
                archive.writestr(name, content)

    return write


def packed(content):
    """Functions that write a packed file, by ending."""
    return {
        ".gz": lambda path: path.write_bytes(gzip.compress(content)),
        ".bz2": lambda path: path.write_bytes(bz2.compress(content)),
        ".xz": lambda path: path.write_bytes(lzma.compress(content)),
        ".zip": zipped(content),
    }


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zip"])
def test_a_packed_table_reads_as_the_file_in_it(tmp_path, ending):
    for name, text, encoding in (
        ("a.csv", TEXT, "utf-8"),
        ("b.csv", TEXT, "utf-16"),
        ("c.jsonl", '{"name": "Müller", "size": 1}\n\n{"name": null, "size": 2}\n', "utf-8"),
    ):
        plain, file = tmp_path / name, tmp_path / (name.upper() + ending)
        plain.write_bytes(text.encode(encoding))
        packed(text.encode(encoding))[ending](file)
        assert read_table_file(file).equals(read_table_file(plain))
        assert pd.concat(read_rows(file, 7)).equals(pd.concat(read_rows(plain, 7)))


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zip"])
def test_a_file_that_unpacks_to_far_more_than_a_table_is_refused_on_the_way(tmp_path, ending, monkeypatch):
    monkeypatch.setattr(unpacking, "ALWAYS_UNPACKED", 2**16)
    bomb = tmp_path / f"bomb.csv{ending}"
    packed(b"a,b\n" + b"1,2\n" * 2**18)[ending](bomb)
    with pytest.raises(
        ValueError, match=r"bytes and unpacks to more than 200 times as many.* unpack it yourself if you"
    ):
        for _ in read_rows(bomb, 10_000):
            pass


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zip"])
def test_a_damaged_file_is_refused_with_what_to_do(tmp_path, ending):
    whole, cut, other = (tmp_path / f"{name}.csv{ending}" for name in ("whole", "cut", "other"))
    packed(TEXT.encode() * 50)[ending](whole)
    cut.write_bytes(whole.read_bytes()[:-60])
    other.write_bytes(b"a,b\n1,2\n")
    for path in (cut, other):
        with pytest.raises(
            ValueError, match=r"cannot be unpacked .* damaged, cut off, or has a password; pack it again"
        ):
            read_table_file(path)


def test_an_archive_holds_one_table(tmp_path):
    zipped("a,b\n1,2\n", "one.csv", "folder/", "__MACOSX/one.csv")(tmp_path / "one.csv.zip")
    assert read_table_file(tmp_path / "one.csv.zip").to_dict("list") == {"a": [1], "b": [2]}
    zipped("a,b\n1,2\n", "one.csv", "two.csv")(tmp_path / "two.csv.zip")
    with pytest.raises(ValueError, match="the archive holds 2 files; pack one table, or unpack it"):
        read_table_file(tmp_path / "two.csv.zip")
