"""A wrong value never passes in silence: it counts as missing, with a word on it, or is refused, or training names it."""

import threading
from datetime import date, timedelta
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pandas as pd
import pytest
from helpers import PANDAS_3

from gauge import GaugeClassifier
from gauge.data.files import write_bytes
from gauge.tabular.table.columns import ReadOptions, infer_kind
from gauge.tabular.table.columns.category import Category
from gauge.tabular.table.columns.number import Number
from gauge.tabular.table.columns.text import Text
from gauge.tabular.table.files import read_table_file
from gauge.tabular.table.guard import watched
from gauge.tabular.table.schema import Schema

PLAIN = np.linspace(1, 90, 60)
EUROS = [f"{number + 1}.400,00 €" for number in range(30)]
DAYS = [str(day)[:10] for day in pd.date_range("2019-01-01", "2021-12-01", periods=40)]
WHOLE = [str(number) for number in range(20, 9000, 100)]
STAMPS = [str(stamp) for stamp in pd.date_range("2021-01-01 07:30", periods=40, freq="29h")]
ZONED = [f"{stamp}+09:00" for stamp in STAMPS]
LEVELS = [f"town {number}" for number in range(300) for _ in range(2)]


@pytest.mark.parametrize(
    ("training", "cell"),
    [
        *(
            (training, "25,123")
            for training in (PLAIN, PLAIN.astype(object), PLAIN.astype(int), [str(x) for x in PLAIN])
        ),
        *((PLAIN, cell) for cell in ("PT65M", "0 days 01:05:00", timedelta(minutes=65), np.timedelta64(65, "m"))),
        *((PLAIN, cell) for cell in ("TRUE", "false", True, np.False_)),
        (EUROS, "2,400 €"),
        ([f"{x:,}.50" for x in range(900, 1200)], "2.400"),
        *((DAYS, cell) for cell in ("2021", "2021-05", 2021)),
        (["9:15", "12:30", "23:59"] * 9, "45:12"),
        ([f"{x / 10}k" for x in range(40)], "300"),
        *(
            (whole, cell)
            for whole in (WHOLE, pd.Series(WHOLE), pd.Series(WHOLE, dtype=float))
            for cell in ("1.234", "5.000")
        ),
        *((["50 min", "2 h"] * 20, cell) for cell in ("5M", "5 m")),
        *((PLAIN, cell) for cell in (np.timedelta64(65), np.timedelta64(65, "ns"), (5, 6))),
        *((["1,5", "2,25"] * 20, cell) for cell in ((5,), "1.234")),
        *((DAYS, pd.Period(cell)) for cell in ("2021", "2021-05", "2021Q1")),
        *((STAMPS, cell) for cell in ("2021-05-29T17:13:00+02:00", "2021-05-29 17:13Z", pd.Timestamp(ZONED[3]))),
        *((ZONED, cell) for cell in ("2021-05-29T17:13:00", "2021-05-29 17:13", pd.Timestamp(STAMPS[3]))),
        *((["29.05.21", "11.03.20"] * 20, cell) for cell in ("1946-05-29", "29.05.1946", date(2069, 1, 1))),
        *((["10%", "140%", "3.5%"] * 20, cell) for cell in (1.2, "1.2", 0.5)),
        *((["9:15 AM", "2:30\u202fPM", "11:00 pm"] * 9, cell) for cell in ("2:30", " 11:00")),
    ],
)
def test_what_may_mean_something_else_than_in_training_counts_as_missing_and_is_named(training, cell, caplog):
    column = Number.from_column(pd.Series(training, name="x"))
    cells = pd.Series([cell, column.clean(pd.Series(training, name="x")).iloc[0]], dtype=object, name="x")
    assert np.isnan(column.numbers(column.clean(cells))).tolist() == [True, False]
    assert "column 'x', row 0: " in caplog.text


@pytest.mark.parametrize(
    ("training", "same", "unlike"),
    [
        ([f"{row % 24:02d}:{row:02d} Uhr" for row in range(60)], [], ["13:08", "1:08 PM", "13.08 Uhr"]),
        ([f"Q{row % 4 + 1} {1950 + row}" for row in range(60)], ["q1 1950"], ["1950-Q1", "1950-01-01"]),
        ([f"café noir {row}" for row in range(60)], ["cafe\u0301 noir 0", "cafÃ© noir 0", "ca\u00adfé noir 0"], []),
        (list(np.random.default_rng(0).normal(5, 1, (60, 12))), [], [np.zeros(12), np.full(12, 5000.0)]),
        (list(np.sin(np.arange(60)[:, None] + np.arange(400) / 9)), [], [np.zeros(400), np.full(400, 5000.0)]),
        (STAMPS, [STAMPS[0].replace(" ", "T"), pd.Timestamp(STAMPS[0])], ["2021-02-01", date(2021, 2, 1)]),
        (["2021-05", "2020-03"] * 20, ["2021-05-29", date(2021, 5, 2), "2021-05-29T17:13"], []),
    ],
)
def test_a_text_a_list_or_a_date_of_another_form_is_read_the_same_or_noted(training, same, unlike):
    schema = Schema.from_frame(pd.DataFrame({"x": pd.Series(training, dtype=object), "row": range(len(training))}))
    kept = [training[0], *same, *unlike]
    with watched(quiet=True) as watch:
        encoded = schema.encode(pd.DataFrame({"x": pd.Series(kept, dtype=object), "row": 7}))
    modality = next(name for name, own in schema.modalities.items() if own[0].name == "x")
    values = encoded.inputs[modality][:, :1] if modality == "table" else encoded.inputs[modality]
    assert (values[: len(same) + 1] == values[0]).all()
    rows = {row for (name, _), seen in watch.seen.items() if name == "x" for row in seen.rows}
    assert rows == set(range(len(same) + 1, len(kept)))


def test_sentences_that_share_a_form_may_have_others():
    column = Text.from_column(pd.Series([f"itches, seen on day {row}" for row in range(60)], name="x"))
    with watched(quiet=True) as watch:
        column.encode(pd.Series(["itches on day 3"], name="x"))
    assert not watch.seen


@pytest.mark.parametrize("truth", [[True, "FALSE"], ["True", False], [1, 0]])
def test_truth_values_are_numbers_where_all_numbers_are_0_or_1(truth):
    column = Number.from_column(pd.Series(["0", "1"] * 20, name="x"))
    assert np.sign(column.numbers(column.clean(pd.Series(truth, dtype=object)))).tolist() == [1, -1]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([*DAYS, *["1900-01-01"] * 3], "3 of 43 values are 1900-01-01, far from all others"),
        pytest.param(
            [*DAYS, *["9999-12-31"] * 3], "3 of 43 values are 9999-12-31, far from all others", marks=PANDAS_3
        ),
        ([*range(11)] * 5 + [88, 99, 99], "3 of 58 values are 88 or 99, far from all others"),
        ([*range(9)] * 5 + [-np.finfo(float).max] * 3, "3 of 48 values are -1.797693135e+308, far from all others"),
        ([*range(9)] * 5 + [1e20] * 3, "3 of 48 values are 1e+20, far from all others"),
        (["999", "1.234", "12.345"] * 9, "'1.234' is read as a decimal, but beside '999' every point stands before"),
        ([number * 1e-320 for number in range(1, 40)], "39 of 39 values are so near to 0 that digits are lost"),
    ],
)
def test_training_names_what_speaks_against_its_guesses(values, said, caplog):
    values = pd.Series(values, name="x")
    Number.from_column(values)
    assert f"column 'x': {said}" in caplog.text
    assert said in " ".join(Number.inspect(values)[1])


def test_an_expert_that_knows_nothing_of_its_own_rows_is_named_where_no_row_is_held_out(caplog):
    draw = np.random.default_rng(0)
    rows, labels = pd.DataFrame({"x": draw.normal(size=300)}), [f"class {number}" for number in range(150)] * 2
    GaugeClassifier(experts=["trees"], trust=False, random_state=0).fit(rows, labels)
    assert "expert 'trees' is right about " in caplog.text
    assert "of 150 classes; leave it out (experts=), join rare classes, or give more rows of each" in caplog.text


@pytest.mark.parametrize("values", [["45:12", "1:00:03", "30:10"] * 9, ["12.3k", "300", "1.5k"] * 9])
def test_a_guess_that_values_contradict_is_not_made(values):
    assert infer_kind(pd.Series(values))[0] != "number"


@pytest.mark.parametrize("cell", ["TOWN 7", "town  7", " town 7\u200b", "Town\u00a07"])
@pytest.mark.parametrize("limit", [255, 300])
def test_a_category_that_differs_in_capitals_and_spaces_is_the_same_unless_training_has_both(cell, limit):
    column = Category.from_column(pd.Series(LEVELS, name="x"), ReadOptions(max_categories=limit))
    cells = pd.Series([cell, "town 7"], dtype=object, name="x")
    for read in (column.numbers, column.rare_levels):
        assert len(set(read(cells).tolist())) == 1
    both = Category.from_column(pd.Series(["red", "Red", "blue"] * 9, name="x"))
    assert np.isnan(both.numbers(pd.Series(["RED"], dtype=object))).all()


def test_merged_cells_and_sheets_that_never_end_are_refused(tmp_path):
    from openpyxl import Workbook

    book = Workbook()
    for row in [("a", "b"), *((number, "x") for number in range(20))]:
        book.active.append(row)
    book.save(path := tmp_path / "sheet.xlsx")
    assert read_table_file(path).shape == (20, 2)
    fine = path.read_bytes()
    for cells in ("A5:B5", "B3:B6", "A1:B1", "A1:A2"):
        book.active.merge_cells(cells)
        book.save(path)
        with pytest.raises(ValueError, match=f"cells {cells} are merged, and only the first of them has the value; un"):
            read_table_file(path)
        book.active.unmerge_cells(cells)
    book.create_chartsheet("without a chart")
    book.save(path)
    with pytest.raises(ValueError, match="it is damaged, or has a password .*; save it again"):
        read_table_file(path)
    for rows, problem in (
        (b'<row r="900000000"/>', "more rows, or longer ones"),
        (b'<row r="30">' + b"<c><v>1</v></c>" * 20_000 + b"</row>", "more rows, or longer ones"),
        (b"<row/>" * 10**6, "unpacks to more"),
        (
            b'<row><c r="XFD4"/></row>' * 1100,
            "its rows have 1142 values in 18022442 cells, which tables have not; remove",
        ),
    ):
        with ZipFile(path, "w", ZIP_DEFLATED) as forged, ZipFile(BytesIO(fine)) as archive:
            for name in archive.namelist():
                forged.writestr(name, archive.read(name).replace(b"</sheetData>", rows + b"</sheetData>"))
        with pytest.raises(ValueError, match=problem):
            read_table_file(path)


def test_lines_of_json_whose_keys_all_differ_are_refused(tmp_path):
    (tmp_path / "t.jsonl").write_text("".join(f'{{"key {row}": 1}}\n' for row in range(5000)))
    with pytest.raises(
        ValueError, match="its rows have 5000 values in 25000000 cells, which tables have not; remove em"
    ):
        read_table_file(tmp_path / "t.jsonl")


def test_columns_of_files_are_never_lost_in_silence(tmp_path, caplog):
    import pyarrow as pa
    from pyarrow.parquet import write_table

    rows = pd.DataFrame({"id": [3, 1], "age": [41, 7], "x": [1.5, 2.5]})
    for index in (["age"], ["id", "age"]):
        rows.set_index(index).to_parquet(tmp_path / "t.parquet")
        assert set(read_table_file(tmp_path / "t.parquet")) == set(rows)
    rows[rows["x"] > 2].to_parquet(tmp_path / "t.parquet")
    assert list(read_table_file(tmp_path / "t.parquet")) == list(rows)
    write_table(pa.Table.from_arrays([pa.array([1])] * 2, names=["x", "x"]), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="column 'x' occurs twice; rename one of them"):
        read_table_file(tmp_path / "t.parquet")
    for name, age in (("1.csv", "age"), ("2.csv", "Age")):
        rows.rename(columns={"age": age}).to_csv(tmp_path / name, index=False)
    read_table_file(tmp_path / "*.csv")
    assert "2.csv and " in caplog.text
    assert "do not have the same columns: 'Age' is in one of them alone" in caplog.text


def test_writers_of_one_file_leave_the_whole_file_of_one_of_them(tmp_path):
    writers = 4
    start, path = threading.Barrier(writers), tmp_path / "out.csv"

    def write(number: int) -> None:
        def content(file):
            start.wait()  # all parts are open
            for _ in range(200):
                file.write(b"%d" % number * 1000)

        write_bytes(path, content)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(path.read_bytes()) in [{ord(str(number))} for number in range(writers)]
    assert path.stat().st_size == 200_000
    assert [each.name for each in tmp_path.iterdir()] == ["out.csv"]
