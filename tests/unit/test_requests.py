"""Bodies of requests: what is refused before a model reads it, and how."""

import json

import pytest

from gauge.deploy.requests import Limits, RefusedError, RequestReader
from gauge.tabular.table.columns.category import Category
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
    frame = READER.read(json.dumps({"rows": [{"notes": 'a "b", [c]', "site": 3}, {"site": None}]}).encode())
    assert frame.to_dict("list") == {"site": [3, None], "notes": ['a "b", [c]', None]}


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


def test_a_long_text_is_split_no_further_than_the_network_reads():
    assert Text("notes", ("a",), 3).split("a b, c d") == ["a", "b", ","]
