"""Rows as arrays: what an exported model reads without torch is what the classifier reads."""

import json
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from helpers import BLOCK_TORCH, ONE_THREAD, unchecked

from gauge.deploy.requests import Limits, RefusedError, RequestReader
from gauge.tabular.table.arrays import column_of, columns_from_json, encode_row, encode_rows
from gauge.tabular.table.cells import is_missing, missing
from gauge.tabular.table.rows import Rows
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


def test_columns_from_json_read_a_table_as_the_schema_does():
    schema = Schema.from_frame(TABLE)
    columns = columns_from_json(json.loads(json.dumps(schema.to_json()["columns"])))
    assert [column.kind for column in columns] == ["number", "number", "category", "text"]
    encoded = schema.encode(TABLE)
    for name, (values, flags) in encode_rows(columns, TABLE).items():
        np.testing.assert_array_equal(values, encoded.inputs[name].numpy())
        np.testing.assert_array_equal(flags, encoded.observed[name].numpy())


def test_tables_are_read_where_there_is_no_torch():
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], env=ONE_THREAD, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_request_reads_numbers_and_dates_as_the_training_table_writes_them():
    columns = Schema.from_frame(TABLE).columns
    reader = RequestReader(columns, Limits())
    request = {"rows": [{"price": "1.200,50 €", "seen": "2021-12-24"}, {"price": 1200.5, "seen": "24.12.2021"}]}
    frame = pd.DataFrame(reader.read(json.dumps(request).encode()), columns=list(reader.names), dtype=object)
    values, flags = encode_rows(columns, frame)["table"]
    np.testing.assert_array_equal(values[0], values[1])
    assert flags[:, :2].all()
    with pytest.raises(RefusedError) as refused:
        reader.read(b'{"rows": [{"price": "1.2"}, {"seen": "12/24/2021"}]}')
    price, seen = refused.value.detail
    assert (price["where"], seen["where"]) == ("rows.0.price", "rows.1.seen")
    assert "is not a valid number; send a number, or text as it was written in training" in price["problem"]
    assert "is not a date; write it as 2026-01-31" in seen["problem"]


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"price": 7.25, "seen": None, "code": "n/a", "notes": None},
        {"price": np.nan, "seen": "2021-12-24", "code": " 012 ", "notes": ""},
        {"price": 12, "seen": "31.12.2025", "code": 12, "notes": 3.5},
        {"price": "cheap", "seen": "soon", "code": "999", "notes": "?"},
        {"price": 10**400, "seen": pd.Timestamp("2021-12-24"), "code": "012.0", "notes": "it itches"},
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


def test_texts_and_rare_categories_of_one_row_are_those_of_its_table():
    wards = [f"w{number}" for number in range(4)] * 8 + ["rare", "rare", "few", "few", *"abcd"]
    frame = TABLE.assign(ward=wards)
    schema = Schema.from_frame(frame, {"ward": "category"}, max_categories=4)
    assert any(column.tells_rare_apart for column in schema.table)
    for number in (0, 32, 39):
        row = frame.iloc[number].to_dict()
        one = Rows.from_columns(
            schema, lambda column, row=row: column_of(column, [row[column.name]]), schema.encode_row(row)
        )
        table = frame[number : number + 1]
        expected = Rows.from_frame(schema, table, schema.encode(table))
        assert {name: cells.tolist() for name, cells in one.texts.items()} == {
            name: cells.tolist() for name, cells in expected.texts.items()
        }
        assert {name: levels.tolist() for name, levels in one.rare.items()} == {
            name: levels.tolist() for name, levels in expected.rare.items()
        }
        np.testing.assert_array_equal(one.cells, expected.cells)


def test_a_single_cell_is_missing_where_it_is_in_a_column():
    texts = [None, "", " NA ", "?", "a", "None"]
    others = [
        float("nan"),
        np.float32("nan"),
        0.0,
        3,
        True,
        pd.NA,
        pd.NaT,
        pd.Timestamp("2020-01-31"),
        b"",
        Decimal("NaN"),
    ]
    cells = pd.Series([*texts, *others, Decimal(1), np.arange(3.0)], dtype=object)
    assert [is_missing(cell) for cell in cells] == missing(cells).tolist()
