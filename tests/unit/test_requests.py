"""Bodies of requests: what is refused before a model reads it, and how."""

import json

import pandas as pd
import pytest

from gauge.deploy.requests import Limits, RefusedError, RequestReader, _more_tokens
from gauge.tabular.table.columns.category import Category
from gauge.tabular.table.columns.number import Number
from gauge.tabular.table.columns.text import Text

COLUMNS = (Category("site", ("arm", "leg")), Text("notes", ("itches",), 3))
READER = RequestReader(COLUMNS, Limits())


def refused(body: bytes) -> tuple[int, list[dict[str, str]]]:
    with pytest.raises(RefusedError) as error:
        READER.read(body)
    return error.value.status, error.value.detail


@pytest.mark.parametrize(
    ("body", "where", "problem"),
    [
        (b"[" * 50_000, "body", "is nested too deeply; send rows of plain values"),
        (b"{", "body", "is not JSON: Expecting property name"),
        (b'{"rows": [{"site": "arm", "site": "leg"}]}', "site", "is given twice in one object; send each key once"),
        (b'{"rows": [], "rows": [{}]}', "rows", "is given twice in one object; send each key once"),
        (b'{"rows": [{}], "more": 1}', "body", 'should be an object with the key "rows", a list, and no other'),
        (b'{"rows": []}', "rows", "has 0 rows; send at least one and at most 1000"),
        (b'{"rows": [3]}', "rows.0", "should be an object with the values of a row by column"),
        (b'{"rows": [{"site": Infinity}]}', "body", "Infinity is not a number of JSON; send null for a missing value"),
    ],
)
def test_a_body_that_is_not_a_list_of_rows_is_refused_with_a_cure(body, where, problem):
    status, ((first, *_)) = refused(body)
    assert (status, first["where"]) == (422, where)
    assert problem in first["problem"]


def test_values_are_read_in_the_order_of_the_columns_and_missing_ones_are_none():
    rows = READER.read(json.dumps({"rows": [{"notes": 'a "b", [c]', "site": 3}, {"site": None}]}).encode())
    assert rows == [[3, 'a "b", [c]'], [None, None]]


def test_a_request_of_as_many_cells_as_are_allowed_is_read_and_one_more_is_not():
    rows = [{"site": "arm", "notes": 'a,"[{,'}] * 50
    for cells, read in ((100, True), (99, False)):
        reader = RequestReader(COLUMNS, Limits(rows=50, cells=cells))
        if read:
            assert len(reader.read(json.dumps({"rows": rows}).encode())) == 50
        else:
            with pytest.raises(RefusedError, match="the request has more than 99 cells; send fewer rows"):
                reader.read(json.dumps({"rows": rows}).encode())


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        (b'{"rows": [{"a": "x", "b": 1}]}', 8),
        (rb'["a \" , [ {", "\\", ""]', 6),
        (b'["' + b"," * 3_000_000 + b'", 1]', 3),
        (b'["' + b'\\"' * 3_000 + b'", 1]', 3),
        (b" " * 200_000 + b"[1]", 1),
        (b'["open, [', 2),
        (b'["half an escape\\', 2),
    ],
)
def test_texts_commas_and_brackets_are_counted_outside_of_texts_only(body, tokens):
    assert _more_tokens(body, tokens - 1)
    assert not _more_tokens(body, tokens)


@pytest.mark.parametrize("text", ["12", "-3.25", "+0.5", "007"])
def test_a_plain_number_in_a_text_reads_as_in_a_table(text):
    column = Number("age", (0.0, 1.0), (0.0, 1.0))
    ((value,),) = RequestReader([column], Limits()).read(json.dumps({"rows": [{"age": text}]}).encode())
    assert [value] == column.writing.read(pd.Series([text], dtype=object)).tolist()


def test_reading_ends_when_its_time_is_over():
    with pytest.raises(TimeoutError):
        RequestReader(COLUMNS, Limits(seconds=-1.0)).read(b'{"rows": [{}]}')


def test_a_long_text_is_split_no_further_than_the_network_reads():
    assert Text("notes", ("a",), 3).split("a b, c d") == ["a", "b", ","]
