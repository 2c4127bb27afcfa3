"""Packed tables and Excel sheets read as the file in them, and unpack to no more than a table."""

import bz2
import gzip
import lzma
import zipfile

import numpy as np
import pandas as pd
import pytest

from gauge.tabular.table import packed as unpacking
from gauge.tabular.table.files import read_rows, read_table_file
from gauge.tabular.table.schema import Schema

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
    with pytest.raises(ValueError, match=r"bytes and unpacks to more than 200 times as many.* unpack it yourself if"):
        for _ in read_rows(bomb, 10_000):
            pass


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zip"])
def test_a_damaged_file_is_refused_with_what_to_do(tmp_path, ending):
    whole, cut, other = (tmp_path / f"{name}.csv{ending}" for name in ("whole", "cut", "other"))
    packed(TEXT.encode() * 50)[ending](whole)
    cut.write_bytes(whole.read_bytes()[:-60])
    other.write_bytes(b"a,b\n1,2\n")
    for path in (cut, other):
        with pytest.raises(ValueError, match=r"cannot be unpacked .* damaged, cut off, or has a password; pack it"):
            read_table_file(path)


def test_an_archive_holds_one_table(tmp_path):
    zipped("a,b\n1,2\n", "one.csv", "folder/", "__MACOSX/one.csv")(tmp_path / "one.csv.zip")
    assert read_table_file(tmp_path / "one.csv.zip").to_dict("list") == {"a": [1], "b": [2]}
    zipped("a,b\n1,2\n", "one.csv", "two.csv")(tmp_path / "two.csv.zip")
    with pytest.raises(ValueError, match="the archive holds 2 files; pack one table, or unpack it"):
        read_table_file(tmp_path / "two.csv.zip")


def test_an_excel_sheet_reads_as_the_same_table_in_csv(tmp_path, caplog):
    openpyxl = pytest.importorskip("openpyxl")
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"size": draw.normal(size=40).round(3), "count": np.arange(40) % 7, "ward": ["a", "b"] * 20})
    frame = frame.mask(draw.random(frame.shape) < 0.2)
    frame = frame.assign(when=pd.date_range("2024-01-30", periods=40), ill=draw.random(40) < 0.5)
    frame.to_csv(tmp_path / "table.csv", index=False)
    with pd.ExcelWriter(tmp_path / "table.xlsx", engine="openpyxl") as book:
        frame.to_excel(book, sheet_name="visits", index=False)
        pd.DataFrame({"code": [1]}).to_excel(book, sheet_name="codes", index=False)
    sheet, text = (read_table_file(tmp_path / f"table{ending}") for ending in (".xlsx", ".csv"))
    assert "sheet 'visits' is read, the first of 2" in caplog.text
    schemas = [Schema.from_frame(table) for table in (sheet, text)]
    assert schemas[0].summary() == schemas[1].summary()
    for first, second in zip(
        schemas[0].encode(sheet).inputs.values(), schemas[1].encode(text).inputs.values(), strict=True
    ):
        assert np.array_equal(first, second)
    parts = list(read_rows(tmp_path / "table.xlsx", 15))
    assert [len(part) for part in parts] == [15, 15, 10]

    def written(*lines):
        book = openpyxl.Workbook()
        for line in lines:
            book.active.append(line)
        book.save(tmp_path / "own.xlsx")
        return tmp_path / "own.xlsx"

    table = read_table_file(written([], ["a", 2020, None, "b"], [1, "#N/A", 7], [], [True, "x"]))
    assert table.columns.tolist() == ["a", "2020", "Unnamed: 2", "b"]
    assert table.to_numpy().tolist() == [[1, None, 7, None], [True, "x", None, None]]
    for lines, reason in [
        ([["a", "a"], [1, 2]], "'a' occurs twice"),
        ([["A title"], ["a", "b"], [1, 2]], "row 2 has 2 values, but the first row names 1 columns; remove titles"),
        ([["a", "b"], [1, "=A2+1"]], r"row 2 has a formula without its value \(=A2\+1\); open the file in Excel"),
        ([["a", "b"]], "has no rows"),
    ]:
        with pytest.raises(ValueError, match=reason):
            read_table_file(written(*lines))
