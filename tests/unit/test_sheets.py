"""Excel sheets are read as the same table in a text file is, and what cannot be told is an error."""

import numpy as np
import pandas as pd
import pytest

from gauge.tabular.table.files import read_rows, read_table_file
from gauge.tabular.table.schema import Schema


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
        assert np.array_equal(first.numpy(), second.numpy())
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
