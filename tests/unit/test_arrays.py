"""Rows as arrays and as requests: what an exported model reads without torch is what the classifier reads."""

import json

import numpy as np
import pandas as pd
import pytest
from helpers import BLOCK_TORCH, PANDAS_3, python, unchecked

from gauge.deploy.requests import Limits, RefusedError, RequestReader
from gauge.tabular.table.arrays import encode_row, encode_rows
from gauge.tabular.table.columns.category import Category
from gauge.tabular.table.columns.text import Text
from gauge.tabular.table.schema import Schema

TABLE = pd.DataFrame(
    {
        "price": ["1.200,50 €", "7,25 €", None, "80,00 €"] * 10,
        "seen": ["3.10.2020", "24.12.2021", "1.1.2022", "n/a"] * 10,
        "code": ["007", "012", "", "100"] * 10,
        "notes": [f"it itches a lot on day {day}" for day in range(40)],
    }
)
WITHOUT_TORCH = (
    BLOCK_TORCH
    + """
from gauge.deploy.exported import load_classifier
from gauge.cli.tables import predict
from gauge.tabular.table.columns import kinds
assert len(kinds()) >= 4
"""
)


def test_tables_are_read_where_there_is_no_torch():
    python("-c", WITHOUT_TORCH)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"price": 7.25, "seen": None, "code": "n/a", "notes": None},
        {"price": np.nan, "seen": "2021-12-24", "code": " 012 ", "notes": ""},
        {"price": 12, "seen": "31.12.2025", "code": 12, "notes": 3.5},
        {"price": "cheap", "seen": "soon", "code": "999", "notes": "?"},
        pytest.param(
            {"price": 10**400, "seen": pd.Timestamp("2021-12-24"), "code": "012.0", "notes": "it itches"},
            marks=PANDAS_3,
        ),
        {"price": np.float32(7.25), "seen": pd.NaT, "code": pd.NA, "notes": np.nan},
        {"price": pd.NA, "seen": "", "code": np.nan, "notes": "a"},
        {"price": True, "seen": "?", "code": True, "notes": pd.NA},
    ],
)
def test_one_row_is_read_as_in_a_table_of_many(changed):
    columns = Schema.from_frame(TABLE).columns
    row = TABLE.iloc[0].to_dict() | changed
    twice = pd.DataFrame([row, row], dtype=object)
    for frame in (twice, twice.convert_dtypes(), twice.infer_objects()):
        expected = encode_rows(columns, frame)
        for encoded in (encode_row(columns, row), encode_rows(columns, frame[:1])):
            assert encoded.keys() == expected.keys()
            for name, pair in encoded.items():
                for own, other in zip(pair, expected[name], strict=True):
                    assert own.dtype == other.dtype
                    np.testing.assert_array_equal(own, other[:1])


@pytest.mark.parametrize("changed", [{}, {"age": None}, {"age": "not a number", "sex": "other"}])
def test_a_classifier_answers_one_row_as_a_table_of_one_row(ward, changed):
    classifier = ward.model.fitted_
    for number in range(5):
        row = {column.name: ward.test[column.name].iloc[number] for column in classifier.columns} | changed
        with unchecked():
            expected = classifier.predict_with_observed(pd.DataFrame([row], dtype=object))
            found = classifier.predict_row_with_observed(row)
        for first, second in zip(found, expected, strict=True):
            np.testing.assert_array_equal(first, second)


COLUMNS = (Category("site", ("arm", "leg")), Text("notes", ("itches",), 3))


def test_a_request_of_as_many_cells_as_are_allowed_is_read_and_one_more_is_not():
    rows = [{"site": "arm", "notes": 'a,"[{,'}] * 50
    for cells, read in ((100, True), (99, False)):
        reader = RequestReader(COLUMNS, Limits(rows=50, cells=cells))
        if read:
            assert len(reader.read(json.dumps({"rows": rows}).encode())) == 50
        else:
            with pytest.raises(RefusedError, match="the request has more than 99 cells; send fewer rows"):
                reader.read(json.dumps({"rows": rows}).encode())


def test_reading_ends_when_its_time_is_over():
    with pytest.raises(TimeoutError):
        RequestReader(COLUMNS, Limits(seconds=-1.0)).read(b'{"rows": [{}]}')
