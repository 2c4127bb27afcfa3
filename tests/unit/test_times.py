"""Times of day and quantities as people write them: read as meant, or missing with a note."""

import json
import logging
import math
from datetime import date, time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers import unchecked
from pydantic import TypeAdapter, ValidationError

from gauge import GaugeClassifier
from gauge.deploy.export import export
from gauge.deploy.exported import ExportedClassifier
from gauge.deploy.requests import Limits, RefusedError, RequestReader
from gauge.tabular.table.cells import plain
from gauge.tabular.table.columns import infer_kind
from gauge.tabular.table.columns.category import Category
from gauge.tabular.table.columns.number import Number
from gauge.tabular.table.inspection import inspect_table
from gauge.tabular.table.numbers import Writing, unread_numbers
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


def test_a_saved_column_of_times_is_the_same_for_tables_rows_and_requests(caplog):
    schema = Schema.from_frame(pd.DataFrame({"departs": CLOCK, "late": [0, 1, 2] * 10}))
    again = Schema.from_json(json.loads(json.dumps(schema.to_json())))
    for value in ("8:00", "8:00 pm", None, "late"):
        row = {"departs": value, "late": 1}
        whole, alone = again.encode(pd.DataFrame([row])), again.encode_row(row)
        assert np.array_equal(whole.inputs["table"], alone.inputs["table"])
        assert np.array_equal(whole.observed["table"], schema.encode(pd.DataFrame([row])).observed["table"])
        assert whole.observed["table"][0, 0] == (str(value)[:4] == "8:00")
    assert "'late' is not a time such as 14:35" in caplog.text
    column = again.columns[0]
    assert column.question()[:2] == ("time", "Mostly 0:10 to 23:59.")
    request = TypeAdapter(column.request_type(max_pixels=1))
    assert request.validate_python("8:00 pm") == "8:00 pm"
    with pytest.raises(ValidationError, match="is not a time; write it as 14:35"):
        request.validate_python("20.5")
    visits = Number.from_column(pd.Series(pd.date_range("2020-01-01 10:05", periods=30, freq="31h").astype(str)))
    with pytest.raises(
        ValidationError, match="not a date, without its zone, as in training; write it as 2026-01-31 14:35"
    ):
        TypeAdapter(visits.request_type(max_pixels=1)).validate_python("2022-05-01T10:00:00Z")
    with pytest.raises(ValueError, match=r"'2020-01-31' is a date, but the column held times in training; give times"):
        again.encode(pd.DataFrame({"departs": ["2020-01-31"] * 3, "late": 1}))


def clock(minutes):
    return pd.Series([f"{each // 60}:{each % 60:02d}" for each in minutes % (24 * 60)])


def stamp(minutes):
    return pd.Series(np.datetime64("2024-03-01", "m") + minutes)


@pytest.mark.parametrize(
    ("write", "recurs"),
    [
        (clock, lambda when: (when.dt.hour < 6) | (when.dt.hour >= 22)),
        (stamp, lambda when: (when.dt.hour < 6) | (when.dt.hour >= 22)),
        (lambda minutes: stamp(minutes).dt.strftime("%d.%m.%Y"), lambda when: when.dt.day_of_week >= 5),
    ],
)
def test_a_classifier_learns_nights_and_weekends_from_one_column_and_its_export_does(write, recurs, tmp_path):
    minutes = np.sort(np.random.default_rng(0).integers(0, 400 * 24 * 60, 500))
    table = pd.DataFrame({"at": write(minutes), "noise": minutes % 11})
    labels = np.where(recurs(stamp(minutes)), "yes", "no")
    with unchecked():
        model = GaugeClassifier(preset="fast", random_state=0, verbose=False).fit(table[:350], labels[:350])
        assert model.score(table[350:], labels[350:]) > 0.95  # later than all of training
        export(model, tmp_path / "model.onnx")
    exported = ExportedClassifier(tmp_path / "model.onnx")
    for rows in (table[350:], table[350:351], table[350:].assign(at=None)):
        assert np.allclose(exported.predict_proba(rows), model.predict_proba(rows), atol=1e-5)
    assert {unit.name for row in model.explain(table[350:352]).rows for unit in row.units} == {"at", "noise"}
    model.save(tmp_path / "saved")
    again = GaugeClassifier.load(tmp_path / "saved")
    assert np.array_equal(again.predict_proba(table), model.predict_proba(table))


def read(texts: list[str]) -> list[float]:
    values = pd.Series(texts, name="x")
    assert infer_kind(values)[0] == "number"
    return Writing.from_values(values).read(values).round(6).tolist()


def days(*dates: str) -> list[float]:
    return [float(np.datetime64(date, "D").astype(int)) for date in dates]


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["3 h 30 min", "45 min", "1 hour"], [3.5 / 24, 0.75 / 24, 1 / 24]),
        (["1h30m", "10h6m"], [1.5 / 24, 10.1 / 24]),
        (["1 week", "2 days", "3 days 12 hours"], [7, 2, 3.5]),
        (["2 days 06:00:00", "0 days 12:00:00.000000"], [2.25, 0.5]),
        (["PT90M", "PT450M", "P1DT12H"], [1.5 / 24, 7.5 / 24, 1.5]),
        (["65", "70"], [65, 70]),
        (["24.12.68", "24.12.69"], days("2068-12-24", "1969-12-24")),
        (["1 day", "14 days"], [1, 14]),
        (["1 room", "3 rooms"], [1, 3]),
        (["1 Tag", "13 Tage"], [1, 13]),
        (["1 mile", "2.5 miles"], [1, 2.5]),
        (["1 box", "3 boxes"], [1, 3]),
        (["45 degrees", "1 degree"], [45, 1]),
        (["30 Stunden", "1 Stunde"], [30, 1]),
        ([*["08:30", "14:00"] * 10, "k. A."], [*[8.5, 14] * 10, math.nan]),
        (["900 sq ft", "1,250 sq ft"], [900, 1250]),
        (["7.5 x10^9/L", "8 x10^9/L"], [7.5, 8]),
        (["4.5/5", "3/5"], [4.5, 3]),
        (["R$ 1.200,50", "R$ 7,25"], [1200.5, 7.25]),
        (["₹ 1,23,456", "₹ 12,34,567.50"], [123456, 1234567.5]),
        (["١٢", "٣٤"], [12, 34]),
        (["24.12.98", "3.1.02"], days("1998-12-24", "2002-01-03")),
        (["12/24/98 14:00", "1/3/02 6:00 PM"], [days("1998-12-24")[0] + 14 / 24, days("2002-01-03")[0] + 0.75]),
        (["24-Dec-98", "3-Jan-2002"] + ["4-Jan-02"] * 20, days("1998-12-24", "2002-01-03", *["2002-01-04"] * 20)),
        (["24-Dec-1998", "3-Jan-2002"], days("1998-12-24", "2002-01-03")),
        (["24DEC1998", "03JAN2002"], days("1998-12-24", "2002-01-03")),
        (["Dec 1998", "Jan 2002"], days("1998-12-01", "2002-01-01")),
        (["1998-12", "2002-01"], days("1998-12-01", "2002-01-01")),
        (["12/1998", "1/2002"], days("1998-12-01", "2002-01-01")),
        (["Dec 24 1998", "Jan 3 2002"], days("1998-12-24", "2002-01-03")),
    ],
)
def test_what_people_write_is_the_number_that_they_mean(texts, numbers):
    assert read(texts) == pytest.approx(numbers, abs=1e-6, nan_ok=True)


def test_two_digit_years_are_those_of_posix_and_the_note_says_so():
    column = Number.from_column(pd.Series(["24.12.98", "13.1.02", "5.6.45"], name="born"))
    assert column.note == "dates, day first (%d.%m.%y), years 1969 to 2068"
    assert column.quick_number("24.12.10") == column.numbers(pd.Series(["24.12.2010"]))[0]
    both = column.writing.read(pd.Series([date(2010, 1, 2), date(1950, 1, 2), "1950-01-02"], dtype=object))
    assert both[0] == days("2010-01-02")[0]
    assert np.isnan(both[1:]).all(), "2.1.50 was 2050 in training"


NUMBERS, WEIGHTS = [f"{number}" for number in range(60, 100)], [f"{number} lb" for number in range(100, 140)]
DATES = [f"{day} Dec 2020" for day in range(1, 32)]
STAYS = [f"{hours} h {hours} min" for hours in range(1, 40)] + ["50 min"]
UNREAD = [
    (NUMBERS, ["5'11\"", "5 ft 11 in", "1.2 lakh", "3 crore", "1.5k", "PT65M"]),
    (WEIGHTS, ["12 kg", "5'11\"", "1.2 lakh"]),
    (DATES, ["2021Q3", "2021 Q3", "Q3-2021", "Thu, 24 Dec 2020", "Thursday 24 Dec 2020"]),
    (STAYS, ["65", "1,5 h", "P2M", "2y 6m", "12 kg"]),
]


@pytest.mark.parametrize(("texts", "cell"), [(texts, cell) for texts, cells in UNREAD for cell in cells])
def test_what_is_not_read_is_missing_with_a_note_in_fit_and_predict_and_never_its_leading_number(texts, cell, caplog):
    frame, new = pd.DataFrame({"x": [*texts, cell]}), pd.DataFrame({"x": [cell, texts[0]]})
    schema = Schema.from_frame(frame)
    assert schema.encode(frame, training=True).observed["table"][:, 0].tolist() == [True] * len(texts) + [False]
    assert f"column 'x', row {len(texts)}: {cell!r} is not a" in caplog.text
    caplog.clear()
    assert schema.encode(new).observed["table"][:, 0].tolist() == [False, True]
    assert schema.encode(new[:1]).observed["table"].tolist() == [[False]]
    assert f"column 'x', row 0: {cell!r} is not a" in caplog.text
    assert caplog.text.count("counted as missing") == 2


@pytest.mark.parametrize(
    ("texts", "note"),
    [
        ([f"{number % 5 + 3}'{number % 12}\"" for number in range(60)], "are several numbers, of which none is read"),
        ([f"{number} {('kg', 'lb')[number % 2]}" for number in range(60)], "are numbers with units 'kg', 'lb', and"),
        ([f"{number / 10} {('lakh', 'crore')[number % 2]}" for number in range(60)], "units 'crore', 'lakh', and not"),
        ([f"{number / 10} lakh" for number in range(60)], "are numbers with units 'lakh', and not read as numbers"),
        ([f"{2000 + number // 4} Q{number % 4 + 1}" for number in range(60)], "are several numbers"),
        ([f"{1960 + number}Q3" for number in range(60)], "are several numbers"),
    ],
)
def test_a_column_of_what_is_not_read_is_no_number_and_says_so(texts, note, caplog):
    (column,) = Schema.from_frame(pd.DataFrame({"x": texts * 2})).columns
    assert column.kind in ("category", "text")
    assert note in caplog.text


def test_a_number_without_its_unit_is_missing_where_units_differ(caplog):
    column = Number.from_column(pd.Series(["1 h 5 min", "50 min", "2 h"] * 5, name="stay"))
    with caplog.at_level(logging.WARNING):
        numbers = column._read(
            pd.Series(["90 min", 90, "90", 0, "2 kg", None, "5m"], dtype=object, name="stay"), training=False
        )
    assert numbers.tolist() == pytest.approx([1.5 / 24, np.nan, np.nan, 0, np.nan, np.nan, np.nan], nan_ok=True)
    assert "column 'stay', row 1: '90' is not a number" in caplog.text
    assert column.question().hint.endswith("days. Write it with its unit.")
    assert Number.from_json(column.to_json(), Path()) == column


def test_durations_mean_the_same_in_a_frame_and_in_the_file_of_it():
    stays = pd.Series(pd.to_timedelta(np.arange(1, 60) * 1234, unit="s"), name="stay")
    for first, other in ((stays, stays.astype(str)), (stays.astype(str), stays)):
        column = Number.from_column(plain(first))
        np.testing.assert_array_equal(column.numbers(column.clean(first)), column.numbers(column.clean(other)))


@pytest.mark.parametrize("trained", [[True, False], ["TRUE", "FALSE"], ["true", "false"], [1, 0]])
@pytest.mark.parametrize("given", [[True, False], ["TRUE", "FALSE"], ["true", "false"], [1, 0], ["1", "0"], [1.0, 0.0]])
def test_truth_values_are_the_same_however_a_program_writes_them(trained, given):
    values = pd.Series(trained * 10)
    column = (Category if infer_kind(values)[0] == "category" else Number).from_column(values)
    expected = column.numbers(column.clean(values[:2]))
    assert not np.isnan(expected).any()
    assert column.numbers(column.clean(pd.Series(given))).tolist() == expected.tolist()


def test_several_numbers_in_a_cell_are_reported_not_lost_in_silence(caplog):
    pressure = pd.Series([f"{100 + number % 60}/{60 + number % 30}" for number in range(120)], name="pressure")
    table = pd.DataFrame({"pressure": pressure, "place": [f"48.{number}, -11.{number}" for number in range(120)]})
    problems = "\n".join(inspect_table(table).problems)
    for name, value in (("pressure", "100/60"), ("place", "48.0, -11.0")):
        assert f"{name}: values such as '{value}' are several numbers, of which none is read as a number" in problems
    with caplog.at_level(logging.WARNING):
        Category.from_column(pressure)
    assert "column 'pressure': values such as '100/60' are several numbers" in caplog.text
    assert infer_kind(pressure[:60])[1].endswith("as in an identifier; numbers in it would need columns of their own")
    assert not unread_numbers(["20-29", "30-39", "40-49"] * 20)


def test_a_request_means_what_a_file_with_the_same_texts_means():
    share = Number.from_column(pd.Series(["0.5%", "12%", "30%"] * 5, name="share"))
    stay = Number.from_column(pd.Series(["1 h 5 min", "50 min"] * 5, name="stay"))
    read = RequestReader([share, stay], Limits()).read
    (row,) = read(b'{"rows": [{"share": "0.5%", "stay": "2 h"}]}')
    for column, cell, text in zip((share, stay), row, ("0.5%", "2 h"), strict=True):
        assert column.numbers(pd.Series([cell], dtype=object))[0] == column.numbers(pd.Series([text]))[0]
    with pytest.raises(RefusedError, match="is not a number with its unit; write it as 5 days"):
        read(b'{"rows": [{"stay": 90}]}')


def test_levels_beside_few_numbers_are_a_category_and_a_rare_remark_beside_many_is_missing():
    hours = pd.Series(["5", "6", "7", "8", "9"] * 40 + ["10+"] * 15)
    assert infer_kind(hours) == ("category", "")
    assert infer_kind(pd.Series([f"{number}" for number in range(100, 200)] + ["late"] * 6))[0] == "number"
    assert infer_kind(pd.Series(["4", "6", "8"] * 20 + ["rotary"]))[0] == "number"
