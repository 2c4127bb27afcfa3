"""Numbers, dates, identifiers and codes are found in texts, read the same way ever after, and every guess is named."""

import logging

import numpy as np
import pandas as pd
import pytest

from gauge.tabular.table.cells import plain
from gauge.tabular.table.columns import infer_kind
from gauge.tabular.table.columns.number import Number
from gauge.tabular.table.inspection import inspect_table
from gauge.tabular.table.numbers import Writing
from gauge.tabular.table.schema import Schema


@pytest.mark.parametrize(
    ("texts", "numbers", "note"),
    [
        (["$1,200", "$7.25", "-$3"], [1200, 7.25, -3], "numbers with a decimal point, '$' removed"),
        (["1.200,50 €", "7,25 €"], [1200.5, 7.25], "numbers with a decimal comma, '€' removed"),
        (["12%", "7 %"], [12, 7], "numbers with '%' removed"),
        (["1,234", "12,345,678"], [1234, 12345678], "numbers with a decimal point"),
        (["0,5", "1,25"], [0.5, 1.25], "numbers with a decimal comma"),
        (["1 234,5", "−2"], [1234.5, -2], "numbers with a decimal comma"),
        (["1'234.5", "3"], [1234.5, 3], "numbers with a decimal point"),
        (["1e3", " 2 "], [1000, 2], ""),
        (["1e5", "2e5"], [100000, 200000], ""),
        (["12 kg", "1.250kg", "7.5 kg"], [12, 1.25, 7.5], "numbers with 'kg' removed"),
        (["1.250,5 mg/dl", "7,25 mg/dl"], [1250.5, 7.25], "numbers with a decimal comma, 'mg/dl' removed"),
        (["-3 °C", "37 °C"], [-3, 37], "numbers with '°C' removed"),
        (["1.234.567", "35.500", "950"], [1234567, 35500, 950], "numbers with a decimal comma"),
        (["1.200", "950"], [1.2, 950], "numbers with a decimal point"),
        (["1.200", "0.950"], [1.2, 0.95], ""),
        (["31.12.2020", "1.2.2021"], [18627, 18659], "dates, day first (%d.%m.%Y)"),
        (["31/12/2020", "01/02/2021"], [18627, 18659], "dates, day first (%d/%m/%Y)"),
        (["12/31/2020", "02/01/2021"], [18627, 18659], "dates, month first (%m/%d/%Y)"),
        (["2020/12/31", "2021/02/01"], [18627, 18659], "dates, year first (%Y/%m/%d)"),
        (["31 Dec 2020", "1 Feb 2021"], [18627, 18659], "dates, day first (%d %b %Y)"),
        (["December 31, 2020", "February 1, 2021"], [18627, 18659], "dates, month first (%B %d, %Y)"),
        (["2020-12-31", "2021-02-01"], [18627, 18659], "dates"),
    ],
)
def test_numbers_and_dates_in_texts_are_read_and_the_guess_is_named(texts, numbers, note):
    column = pd.Series(texts)
    assert infer_kind(column) == ("number", note)
    assert Writing.from_values(column).read(column).tolist() == numbers


def test_iso_dates_are_read_in_any_column_of_dates_and_others_are_named_with_an_example(caplog):
    column = Number.from_column(pd.Series(["31.12.2020", "1.2.2021"], name="day"))
    with caplog.at_level(logging.WARNING):
        days = column._read(pd.Series(["2020-12-31", "2021-02-01 00:00", "2021/02/01"], name="day"), training=False)
    np.testing.assert_array_equal(days, [18627, 18659, np.nan])
    assert "column 'day', row 2: '2021/02/01' is not a date such as 31.12.2020; counted as missing" in caplog.text


@pytest.mark.parametrize("period", ["2020-01", "2021", "2020-01-31", "2020-01-31 12:00"])
def test_a_period_is_read_as_it_is_written(period):
    for days in (["2019-01-01", "2022-01-01"], ["2019-01", "2022-01"]):
        column = Number.from_column(pd.Series(days, name="day"))
        given, written = (pd.Series([each, days[0]], name="day") for each in (pd.Period(period), period))
        np.testing.assert_array_equal(column._read(plain(given), False), column._read(written, False))


def test_an_order_of_day_and_month_that_cannot_be_known_is_called_a_guess():
    assert "day first (%d/%m/%Y), a guess: no day is above 12" in infer_kind(pd.Series(["01/02/2020", "03/04/2020"]))[1]


def test_what_is_written_in_another_way_than_in_training_is_missing_not_misread(caplog):
    column = Number.from_column(pd.Series(["1.200,50 €", "7,25 €", "8 €"], name="price"))
    with caplog.at_level(logging.WARNING):
        codes = column.numbers(pd.Series(["7.25 €", "$8", "1.200 €", "9"], name="price"))
    assert np.isnan(codes).tolist() == [True, True, False, False]
    assert "column 'price', row 0: '7.25 €' is not a number with a decimal comma, and 1 more" in caplog.text
    column = Number.from_column(pd.Series(["12 kg", "80 kg", "95 kg"], name="weight"))
    with caplog.at_level(logging.WARNING):
        assert np.isnan(column._read(pd.Series(["500 g"], name="weight"), training=False)).all()
    assert "'500 g' is not a number" in caplog.text


@pytest.mark.parametrize(
    "texts", [["$5", "€5", "$7"], ["12 kg", "500 ml"], ["14a", "3", "7", "12"], ["B12", "B13"], ["8x", "8y"]]
)
def test_different_units_and_letters_here_and_there_are_not_one_number(texts):
    assert infer_kind(pd.Series(texts * 5))[0] == "category"


@pytest.mark.parametrize(
    ("name", "values", "kind", "note"),
    [
        ("n", range(100, 130), "ignore", "its values are running numbers, as in an identifier"),
        ("patient_id", [7 * i % 101 for i in range(30)], "ignore", "its name is that of an identifier"),
        ("age", [7 * i % 101 for i in range(30)], "number", ""),
        ("key", [f"0a1b2c3d-0000-4000-8000-{i % 9:012d}" for i in range(30)], "ignore", "its values are UUIDs"),
        ("zip", [10115, 20095] * 15, "category", "digits are read as codes, not as a number"),
        ("ward", ["01067", "10115", "20095"] * 10, "category", "digits are read as codes, not as a number"),
    ],
)
def test_identifiers_and_codes_are_recognised(name, values, kind, note):
    inferred, reason = infer_kind(pd.Series(values, name=name))
    assert inferred == kind
    assert reason.endswith(note)


def test_inspect_and_fit_name_every_guess():
    frame = pd.DataFrame(
        {
            "id": range(40),
            "price": [f"{row},50" if row % 4 else "unknown" for row in range(40)],
            "zip": ["01067", "10115"] * 20,
            "day": ["31.12.2020", "1.1.2021"] * 20,
        }
    )
    printed = inspect_table(frame).text()
    for guess in ("running numbers", "decimal comma; 'unknown' counts as missing", "read as codes", "dates, day first"):
        assert guess in printed
    assert "read as guessed: price (numbers with a decimal comma)" in Schema.from_frame(frame).summary()


@pytest.mark.parametrize(
    "values",
    [
        pd.Series(pd.period_range("2020-01", periods=30, freq="M")),
        pd.Series(["2020-01-01", "9999-12-31", "0001-01-01"] * 10),
        pd.Series(pd.to_timedelta(range(30), unit="h")),
        pd.Series(pd.arrays.SparseArray([0.0, 1.5] * 15)),
        pd.Series(pd.array([1, None, 3] * 10, dtype="Int64")),
        pd.Series([True, None, False] * 10, dtype="boolean"),
        pd.Series(pd.cut(np.arange(30), 3)),
        pd.Series([[1], [2]] * 15),
        pd.Series([1j, 2j] * 15),
    ],
)
def test_a_column_of_any_type_becomes_finite_codes(values):
    frame = pd.DataFrame({"x": values, "sex": ["f", "m"] * 15})
    schema = Schema.from_frame(frame)
    encoded = schema.encode(frame)
    assert [column.name for column in schema.columns] == ["x", "sex"]
    assert np.isfinite(encoded.inputs["table"]).all()
    assert encoded.observed["table"][0, 0]
