"""Columns of a table: their kinds are inferred, missing values are found, and values come back as text."""

import logging

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from gauge import GaugeClassifier
from gauge.tabular.table.cells import missing
from gauge.tabular.table.columns import MAX_CATEGORIES, ImageFiles, infer_kind
from gauge.tabular.table.columns.category import Category
from gauge.tabular.table.columns.number import Number
from gauge.tabular.table.files import read_rows, read_table_file
from gauge.tabular.table.inspection import inspect_table
from gauge.tabular.table.schema import Schema

WORDS = ("fever", "cough", "rash", "pain", "none", "mild", "severe")


def notes(count):
    return [f"{WORDS[i % 7]} since {i} days and {WORDS[i % 3]}" for i in range(count)]


CARS = [
    f"{maker} {model}"
    for maker in ("ford", "audi", "fiat")
    for model in ["one", "two", "three", "four", "five", "six", "seven", "eight"]
]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2, 3], "number"),
        ([1.5, None, 3], "number"),
        (["1", "2.5", ""], "number"),
        ([True, False, None], "category"),
        (["a", "b", "a"], "category"),
        (pd.Categorical(["x", "y", "x"]), "category"),
        (pd.to_datetime(["2020-01-01", "2021-05-05", None]), "number"),
        (["2020-01-01", "2021-05-05 12:00:00", ""], "number"),
        (["a.png", "dir/B.JPG", None], "image"),
        (notes(30), "text"),
        (CARS, "text"),
        (CARS * 3, "category"),
        ([f"{name} of{name}" for name in map(str, range(100, 130))], "ignore"),
        ([f"patient-{i}" for i in range(30)], "ignore"),
        ([7, 7, 7], "ignore"),
        ([None, "", "  "], "ignore"),
    ],
)
def test_the_kind_of_a_column_is_inferred_from_its_values(values, kind):
    assert infer_kind(pd.Series(values))[0] == kind


def test_characters_of_scripts_without_spaces_are_words():
    """A sentence was one word that nothing else had, and so an identifier."""
    draw = np.random.default_rng(0)
    common = list("的一是在不了有和人这中大为上个国我以要他")
    rows = pd.DataFrame({"age": draw.normal(size=200), "ill": draw.integers(0, 2, 200)})
    rows["note"] = [("头痛和发烧" if ill else "腹痛和恶心") + "".join(draw.choice(common, 12)) for ill in rows["ill"]]
    model = GaugeClassifier(preset="fast", experts=["linear"], random_state=0, verbose=False).fit(rows[:120], "ill")
    assert [column.kind for column in model.schema_.columns] == ["number", "text"]
    assert model.score(rows[120:], "ill") > 0.95
    names = pd.Series(["".join(draw.choice(list("王李张刘陈杨黄赵吴周"), 3)) for _ in range(200)])
    assert infer_kind(names)[0] != "text"


def test_nan_none_nat_blanks_and_words_for_unknown_are_missing_and_nothing_else_is():
    column = pd.Series([np.nan, None, pd.NaT, "", "  ", "NA", " ? ", "Unknown", 0, False, "x", "none"], dtype=object)
    assert missing(column).tolist() == [True] * 8 + [False] * 4


def test_a_number_comes_back_as_text_and_an_outlier_is_clipped():
    values = pd.Series(np.r_[np.arange(100.0), 1e9], name="dose")
    column = Number.from_column(values)
    codes = column.numbers(values)
    assert np.abs(codes).max() < 4
    assert (np.diff(codes) >= 0).all()
    assert float(column.decode(codes[40])) == pytest.approx(40, abs=1)
    assert np.isnan(column.numbers(pd.Series([None, ""], dtype=object))).all()


def test_a_date_is_a_number_that_comes_back_as_a_date():
    column = Number.from_column(pd.Series(["2020-01-01", "2020-01-31", "2020-03-01"], name="visit"))
    assert column.decode(column.numbers(pd.Series(["2020-01-31"]))[0]) == "2020-01-31"
    with pytest.raises(ValueError, match="row 0: 'soon' is not a date"):
        column.numbers(pd.Series(["soon"], name="visit"), training=True)


def test_a_category_not_seen_in_training_is_missing_and_reported(caplog):
    column = Category.from_column(pd.Series(["m", "f", "m"], name="sex"))
    with caplog.at_level(logging.WARNING):
        codes = column.numbers(pd.Series(["f", "x", None], name="sex"))
    assert codes[0] == 0
    assert np.isnan(codes[1:]).all()
    assert "column 'sex', row 1: 'x' was not seen in training; counted as missing" in caplog.text


def test_integers_as_categories_are_the_same_where_missing_cells_make_them_floats():
    column = Category.from_column(pd.Series([1.0, 2.0, np.nan], name="ward"))
    assert column.words == ("1", "2")
    assert column.numbers(pd.Series([2, 1], name="ward")).tolist() == [1, 0]


def test_rare_categories_are_called_rare_and_not_missing(caplog):
    names = [f"c{number}" for number in range(MAX_CATEGORIES + 45)]
    cities = pd.Series([*names, *names[:155], *[None] * 50], name="city", dtype=object)
    inspection = inspect_table(cities.to_frame().assign(y=np.arange(len(cities)) % 2), kinds={"city": "category"})
    small = inspect_table(cities.to_frame(), kinds={"city": "category"}, max_categories=300)
    assert not any("are rare" in problem for problem in small.problems)
    expected = "45 of 455 values are rare: the 255 most frequent of 300 categories are kept"
    assert any(problem.startswith(f"city: {expected}") for problem in inspection.problems)
    assert inspection.columns.set_index("column").loc["city", "missing"] == "9.9 %"
    frame = cities.to_frame().assign(x=np.random.default_rng(0).normal(size=len(cities)))
    model = GaugeClassifier(experts="linear", trust=False, verbose=False, columns={"city": "category"})
    model.fit(frame, np.arange(len(frame)) % 2)
    assert f"column 'city': {expected}" in caplog.text
    assert model.missing_rates_ == pytest.approx({"city": 50 / 505, "x": 0})
    assert model.fitted_.rare_rates == pytest.approx({"city": 45 / 455})


def test_inspection_reads_numbers_as_training_does_and_tells_empty_rows_from_copies():
    frame = pd.DataFrame({"weight": ["1,234", "2,345"] * 20, "price": ["1,5", "2,25"] * 20, "x": np.linspace(0, 1, 40)})
    frame.loc[[3, 7]] = None
    inspection = inspect_table(frame.assign(y=[*list("ppqq") * 7, *[None] * 12]), target="y")
    notes = inspection.columns.set_index("column")["note"]
    assert notes["weight"] == notes["price"] == "numbers with a decimal comma"
    assert Schema.from_frame(frame).columns[0].values[0] == 1.234
    assert inspection.problems == [
        "y: 12 labels are missing; columns and trust are learned from these rows, too",
        "2 rows have no values and are left out of training, first row 3",
    ]
    assert inspection.columns["example"].tolist() == ["1,234", "1,5", "0"]
    with pytest.raises(ValueError, match="the table has no rows; give a table with some"):
        inspect_table(frame.head(0))


def test_inspection_names_categories_that_are_written_alike():
    shown = inspect_table(pd.DataFrame({"sex": ["m", "M", "f", " f"] * 10, "site": ["a", "b"] * 20}))
    assert (
        shown.problems[-1]
        == "sex: categories differ only in spaces or capital letters ('M', 'm'); write the same alike"
    )


def test_text_in_a_column_of_numbers_is_refused_with_column_row_and_cure():
    for value in ("old", np.inf):
        frame = pd.DataFrame({"age": [4, value]})
        with pytest.raises(ValueError, match=f"column 'age', row 1: '{value}' is not a number; fix them, leave"):
            Schema.from_frame(frame, {"age": "number"}).encode(frame, training=True)


def test_an_unreadable_value_is_missing_and_reported_however_many_rows_are_asked(caplog):
    schema = Schema.from_frame(pd.DataFrame({"age": [1, 2, 3], "sex": ["f", "m", "f"]}))
    for rows in (1, 2, 50):
        caplog.clear()
        ages: list = [*range(rows - 1), "old"]
        with caplog.at_level(logging.WARNING):
            encoded = schema.encode(pd.DataFrame({"age": ages, "sex": "f"}))
        assert encoded.observed["table"][:, 0].tolist() == [True] * (rows - 1) + [False]
        assert f"column 'age', row {rows - 1}: 'old' is not a number; counted as missing" in caplog.text


def test_dates_for_a_column_of_numbers_are_refused_and_so_are_numbers_for_dates():
    schema = Schema.from_frame(pd.DataFrame({"dose": [1, 2, 3], "day": ["2020-01-01", "2020-02-01", "2020-03-01"]}))
    days = ["2020-01-01", "2021-01-01"]
    for given in (pd.to_datetime(days), days, [pd.Timestamp(day).date() for day in days]):
        with pytest.raises(ValueError, match="'dose', row 0: '2020-01-01.*' is a date, but the column held numbers"):
            schema.encode(pd.DataFrame({"dose": given, "day": days}))
    assert not schema.encode(pd.DataFrame({"dose": days[:1], "day": days[:1]})).observed["table"][
        0, 0
    ]  # a cell is missing
    with pytest.raises(ValueError, match="column 'day', row 0: '20200101' is a number, but the column held dates"):
        schema.encode(pd.DataFrame({"dose": [1, 2], "day": [20200101, 20210101]}))


def test_a_few_typos_among_numbers_and_a_few_broken_images_are_missing_and_reported(tmp_path, caplog):
    for row in range(20):
        Image.new("RGB", (4, 4)).save(tmp_path / f"{row}.png")
    (tmp_path / "3.png").write_bytes(b"cut off")
    sizes = [str(row) for row in range(30)]
    sizes[5] = "~5"
    frame = pd.DataFrame({"size": sizes, "photo": [f"{row % 20}.png" for row in range(30)]})
    assert infer_kind(frame["size"])[0] == "number"
    with caplog.at_level(logging.WARNING):
        encoded = Schema.from_frame(frame).encode(frame, ImageFiles(tmp_path), training=True)
    assert np.flatnonzero(~encoded.observed["table"][:, 0]).tolist() == [5]
    assert np.flatnonzero(~encoded.observed["image0"]).tolist() == [3, 23]
    assert "column 'size', row 5: '~5' is not a number; counted as missing" in caplog.text
    assert "row 3:" in caplog.text


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl"])
def test_a_table_reads_the_same_whole_and_in_parts(tmp_path, name):
    frame = pd.DataFrame({"a": [1.5, None, 3.0, 4.0, 5.0], "b": ["x", "y", None, "é", "<b>"]})
    path = tmp_path / name
    if name == "t.jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False, sep="\t" if name == "t.tsv" else ",")
    (whole,) = read_rows(path)
    assert whole["b"].iloc[3] == "é"
    pd.testing.assert_frame_equal(pd.concat(read_rows(path, 2)), whole)
    assert read_table_file(path)["a"].tolist()[2:] == [3, 4, 5]
    assert len(list(read_rows(path, 2))) == 3


def test_a_header_in_the_middle_of_a_file_is_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("age,ward\n41,b\nage,a\nage,ward\n7,b\n")
    with pytest.raises(ValueError, match="row 2 repeats the header, as in files that were joined; remove it"):
        read_table_file(path)


@pytest.mark.parametrize("table", ["", "part-*.parquet"])
def test_a_folder_and_a_pattern_are_one_table_in_the_order_of_their_names(tmp_path, table):
    frame = pd.DataFrame({"a": range(9), "b": list("abcdefghi")})
    for name, rows in {"part-1": frame[4:], "part-0": frame[:4]}.items():
        rows.to_parquet(tmp_path / f"{name}.parquet", index=False)
    (tmp_path / "notes.txt").write_text("not a table")
    pd.testing.assert_frame_equal(pd.concat(read_rows(tmp_path / table, 3)), frame, check_index_type=False)
    assert read_table_file(tmp_path / table).equals(frame)
    (tmp_path / "more.csv").write_text("a,b\n1,2\n")
    if not table:
        with pytest.raises(ValueError, match="holds files that end in .csv and .parquet; choose one kind"):
            read_table_file(tmp_path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_the_separator_and_the_encoding_of_a_spreadsheet_are_those_of_its_header(tmp_path, encoding, separator, ending):
    """Spreadsheets write semicolons where commas are decimal, and Unicode with a mark."""
    frame = pd.DataFrame(
        {"größe": ["1,5", "2,25", None], "note; long": ["a\nb", 'said "so"', "x|y"], "y": ["p", "q", "p"]}
    )
    frame = frame.rename(columns={"note; long": "note\nlong"}) if separator == ";" else frame
    path = tmp_path / f"t{ending}"
    frame.to_csv(path, sep=separator, index=False, encoding=encoding)
    assert pd.concat(read_rows(path, 2)).fillna("-").equals(frame.fillna("-"))
    if encoding == "utf-16":
        frame.to_json(tmp_path / "t.jsonl", orient="records", lines=True, force_ascii=False)
        lines = (tmp_path / "t.jsonl").read_text(encoding="utf-8")
        (tmp_path / "t.jsonl").write_text(lines, encoding="utf-16")
        assert read_table_file(tmp_path / "t.jsonl").equals(frame.astype(object))


def test_a_quote_that_is_not_closed_does_not_swallow_rows(tmp_path):
    rows = ["n,note,y", '1,"good",a', '2,"bad,b', "3,plain,a", '4,"good",b', '5,"said ""so""', 'twice",a']
    path = tmp_path / "notes.csv"
    path.write_text("\n".join(rows))
    with pytest.raises(ValueError, match=r"the row of line 3 has a quote that is not closed before line 5; close it"):
        read_table_file(path)
    path.write_text("\n".join(row.replace('"bad', '"bad"') for row in rows))
    assert read_table_file(path)["note"].tolist() == ["good", "bad", "plain", "good", 'said "so"\ntwice']


def test_a_file_that_is_not_a_table_is_refused_by_name(tmp_path):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "head.csv").write_text("a,b\n")
    (tmp_path / "twice.csv").write_text("a,a\n1,2\n")
    (tmp_path / "short.csv").write_text("a;b\n1,5\n")
    (tmp_path / "latin.csv").write_bytes("größe\n1\n".encode("latin-1"))
    for name, reason in [
        ("short.csv", "2 has 1 fields, but the header has 2; if the file is complete, write a separator \\(';'\\)"),
        ("latin.csv", r"written in UTF-8 \(byte 2\); save it in UTF-8 \(of a spreadsheet: CSV UTF-8\), or convert it"),
        ("empty.csv", "it is empty; give a header and rows"),
        ("head.csv", "has no rows"),
        ("twice.csv", "'a' occurs twice"),
    ]:
        with pytest.raises(ValueError, match=f"{name}.*{reason}"):
            read_table_file(tmp_path / name)
    for name, cure in [
        ("x.ods", "save the sheet as .xlsx or CSV UTF-8; give a file that ends in .csv, .tsv"),
        ("x.xlsx", r"it is damaged, or has a password \(.*\); save it again"),
        ("x.gz", "name it after the table in it, as in table.csv.gz, or unpack it; give"),
        ("x.parquet.zst", "unpack it; give"),
        ("x.json", r"write every row as an object in a line of its own \(.jsonl\); give"),
        ("x.pdf", "x.pdf is not a supported table; give"),
    ]:
        (tmp_path / name).write_text("")
        with pytest.raises(ValueError, match=cure):
            read_table_file(tmp_path / name)
    with pytest.raises(ValueError, match="there is no file"):
        read_table_file(tmp_path / "none.csv")
