"""Times of day in a table are numbers: read however they are written, in training, in a request and in an exported file."""

import json
from datetime import time

import numpy as np
import pandas as pd
import pytest
from helpers import unchecked
from pydantic import TypeAdapter, ValidationError

from gauge import GaugeClassifier
from gauge.deploy.export import export
from gauge.deploy.exported import ExportedClassifier
from gauge.tabular.table.columns import infer_kind
from gauge.tabular.table.schema import Schema

CLOCK = ["0:10", "7:05", "9:30", "13:45", "21:15", "23:59"] * 5


@pytest.mark.parametrize(
    "values",
    [
        CLOCK,
        ["12:10 am", "7:05 AM", "9:30 a.m.", "1:45pm", "9:15 P.M.", "11:59 pm"] * 5,
        [time(0, 10), time(7, 5), time(9, 30), time(13, 45), time(21, 15), time(23, 59)] * 5,
        ["00:10:00", "07:05:00", "09:30:00.0", "13:45:00", "21:15:00", " 23:59:00 "] * 5,
    ],
)
def test_a_time_reads_the_same_however_it_is_written(values):
    (column,) = Schema.from_frame(pd.DataFrame({"departs": CLOCK})).columns
    assert infer_kind(pd.Series(values)) == ("number", "times of day, in hours")
    assert np.array_equal(column.numbers(column.clean(pd.Series(values))), column.numbers(pd.Series(CLOCK)))
    assert [column.decode(number) for number in column.numbers(pd.Series(CLOCK[:6]))][1:5] == CLOCK[1:5]


@pytest.mark.parametrize("other", ["4:3", "7:65", "13:00 pm", "gate 4", "12"])
def test_only_a_column_of_times_alone_is_one(other):
    assert infer_kind(pd.Series([*CLOCK, other]))[0] == "category"


def test_a_saved_column_of_times_is_the_same_for_tables_rows_and_requests(caplog):
    schema = Schema.from_frame(pd.DataFrame({"departs": CLOCK, "late": [0, 1, 2] * 10}))
    again = Schema.from_json(json.loads(json.dumps(schema.to_json())))
    for value in ("8:00", "8:00 pm", None, "late"):
        row = {"departs": value, "late": 1}
        whole, alone = again.encode(pd.DataFrame([row])), again.encode_row(row)
        assert whole.inputs["table"].equal(alone.inputs["table"])
        assert whole.observed["table"].equal(schema.encode(pd.DataFrame([row])).observed["table"])
        assert whole.observed["table"][0, 0] == (str(value)[:4] == "8:00")
    assert "'late' is not a time such as 14:35" in caplog.text
    column = again.columns[0]
    assert column.question()[:2] == ("time", "Mostly 0:10 to 23:59.")
    request = TypeAdapter(column.request_type(max_pixels=1))
    assert request.validate_python("8:00 pm") == "8:00 pm"
    with pytest.raises(ValidationError, match="is not a time; write it as 14:35"):
        request.validate_python("20.5")
    with pytest.raises(ValueError, match=r"'2020-01-31' is a date, but the column held times in training; give times"):
        again.encode(pd.DataFrame({"departs": ["2020-01-31"] * 3, "late": 1}))


def test_a_classifier_learns_from_times_and_its_export_reads_them(tmp_path):
    minutes = np.random.default_rng(0).integers(0, 24 * 60, 300)
    table = pd.DataFrame({"at": [f"{each // 60}:{each % 60:02d}" for each in minutes], "noise": minutes % 7})
    night = np.where((minutes < 6 * 60) | (minutes > 22 * 60), "night", "day")
    with unchecked():
        model = GaugeClassifier(preset="fast", random_state=0, verbose=False).fit(table[:200], night[:200])
        assert model.score(table[200:], night[200:]) > 0.95
        export(model, tmp_path / "model.onnx")
    answers = ExportedClassifier(tmp_path / "model.onnx").predict_proba(table[200:])
    assert np.allclose(answers, model.predict_proba(table[200:]), atol=1e-5)
