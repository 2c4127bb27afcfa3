"""A value that another program has written reads the same, or counts as missing: never as another value without a word."""

import os
import re
from argparse import Namespace
from collections import Counter
from contextlib import ExitStack, suppress
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serving import serving

from gauge import ExportedClassifier, GaugeClassifier, export
from gauge.tabular.table.cells import plain
from gauge.tabular.table.columns.number import Number
from gauge.tabular.table.files import read_rows, read_table_file
from gauge.tabular.table.guard import watched
from gauge.tabular.table.numbers import Writing
from gauge.tabular.table.schema import Schema
from gauge_lab.recording import origin, write_record

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "few")
EXAMPLES = int({"few": "60", "many": "20000"}.get(PROFILE, PROFILE))
RANDOM = settings(
    max_examples=EXAMPLES, deadline=None, derandomize=EXAMPLES < 1000, suppress_health_check=list(HealthCheck)
)
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the .random. module")  # the servers' threads do
STYLES = [*((mark, ".") for mark in ("", ",", "'", "’")), *((mark, ",") for mark in ("", ".", " ", "\u00a0", "\u202f"))]
UNITS = ["{}", "{} €", "€{}", "$ {}", "{} kg", "{}%", "{} %", "EUR {}"]


def written(value: Decimal, style: tuple[str, str], unit: str, minus: str) -> str:
    thousands, decimal = style
    text = f"{abs(value):,}".translate(str.maketrans({",": thousands, ".": decimal}))
    return (
        (minus if value < 0 else "") + unit.format(text) if unit[0] == "{" else unit.format(minus * (value < 0) + text)
    )


numbers = st.integers(0, 4).flatmap(
    lambda places: st.lists(
        st.integers(-(10**8), 10**8).map(lambda value: Decimal(value).scaleb(-places)), min_size=8, max_size=30
    )
)
styles = st.tuples(st.sampled_from(STYLES), st.sampled_from(UNITS), st.sampled_from("-−"))


@RANDOM
@given(numbers, styles)
def test_a_column_reads_as_it_was_meant_or_says_that_it_guessed(values, style):
    texts = pd.Series([written(value, *style) for value in values])
    writing = Writing.from_values(texts)
    if writing is None:
        return  # categories or texts: no number is wrong
    read, meant = writing.read(texts), np.array(values, float)
    wrong = ~np.isnan(read) & ~np.isclose(read, meant, rtol=1e-12)
    unclear = texts.str.fullmatch(r"\D*\d{1,3}(?:[.,]\d{3})?\D*").all()  # 1,234 and 1.234 mean what their country means
    assert not wrong.any() or (unclear and writing.note), (texts[wrong].tolist(), read[wrong])


@RANDOM
@given(numbers, styles, styles)
def test_a_value_in_another_style_than_that_of_training_reads_the_same_or_is_missing(values, style, other):
    texts = pd.Series([written(value, *style) for value in values])
    writing = Writing.from_values(texts)
    if writing is None or not np.allclose(writing.read(texts), np.array(values, float), rtol=1e-12):
        return
    again = pd.Series([written(value, other[0], style[1], other[2]) for value in values])
    read, meant = writing.read(again), np.array(values, float)
    wrong = ~np.isnan(read) & ~np.isclose(read, meant, rtol=1e-12)
    mark = re.escape(writing.decimal)
    groups = r"\d{1,3}(?:[.,]\d{3})*" if writing.grouped else r"\d+"
    own = again.str.fullmatch(rf"\D*{groups}(?:{mark}\d+)?\D*")  # nobody can tell them from those of training
    assert not (wrong & ~own.to_numpy()).any(), (writing, again[wrong].tolist(), read[wrong])


LOCALES = {"plain": ("", "."), "US": (",", "."), "German": (".", ","), "French": ("\u202f", ","), "Swiss": ("’", ".")}
DAYS = {"plain": "%Y-%m-%d", "US": "%m/%d/%Y", "German": "%d.%m.%Y", "French": "%d/%m/%Y", "Swiss": "%d.%m.%Y"}
KINDS = {  # of values, as integers from which all writings follow
    "decimal": st.tuples(st.sampled_from([1, 2, 3]), st.integers(1, 10**7)).map(lambda x: Decimal(x[1]).scaleb(-x[0])),
    "whole": st.integers(1, 10**6).map(Decimal),
    "date": st.integers(0, 40_000).map(lambda days: date(1930, 1, 1) + timedelta(days)),
    "category": st.integers(0, 6).map(lambda x: ["Ward", "Straße", "CAFÉ", "no 7", "True", "3", "a, b"][x]),
    "duration": st.integers(1, 600).map(lambda x: timedelta(minutes=x)),
}
TYPES = ["text", "arrow", "native", "csv", "csv utf-16", "csv cp1252", "csv BOM", "xlsx", "parquet", "jsonl"]


def local(value, locale: str) -> str:
    """A value as a program of this locale shows it."""
    if isinstance(value, date):
        return value.strftime(DAYS.get(locale, "%d-%m-%Y"))
    if isinstance(value, timedelta):
        hours, minutes = divmod(value.seconds // 60, 60)
        return {"US": f"PT{60 * hours + minutes}M", "German": f"{hours}:{minutes:02d}:00"}.get(locale, str(value))
    if not isinstance(value, Decimal):
        return {"US": f" {value.upper()}", "German": value.lower(), "French": f"{value}\u00a0"}.get(locale, value)
    if locale == "Indian":
        whole, _, places = str(value).partition(".")
        whole = re.sub(r"(?<=\d)(?=(\d\d)+\d$)", ",", whole)
        return f"{whole}.{places}" if places else whole
    return written(value, LOCALES[locale], "{}", "-")


def delivered(values: list, locale: str, form: str, folder: Path) -> pd.DataFrame:
    """The values as a program writes them, and as a table reads them again."""
    native = [float(value) if isinstance(value, Decimal) else value for value in values]
    texts = [local(value, locale) for value in values]
    if form.startswith("csv"):
        encoding = {"csv": "utf-8", "csv BOM": "utf-8-sig"}.get(form, form.removeprefix("csv "))
        lines = "".join(f'{number},"{text}"\r\n' for number, text in enumerate(texts))
        (folder / "t.csv").write_bytes(f"row,x\r\n{lines}".encode(encoding, "replace"))
        return read_table_file(folder / "t.csv")[["x"]]
    if form in ("xlsx", "parquet", "jsonl"):
        cells = texts if locale != "plain" or form == "jsonl" else native
        frame, path = pd.DataFrame({"x": cells}), folder / f"t.{form}"
        {"xlsx": lambda: frame.to_excel(path, index=False), "parquet": lambda: frame.to_parquet(path)}.get(
            form, lambda: frame.to_json(path, orient="records", lines=True, force_ascii=False)
        )()
        return read_table_file(path)
    if form == "native" and locale == "plain":
        return pd.DataFrame({"x": values if values[0] == values[-1] else native})  # Decimals, and floats
    return pd.DataFrame({"x": pd.Series(texts, dtype="string[pyarrow]" if form == "arrow" else object)})


def own_writing(text: str, column) -> bool:
    """Whether nobody can tell a text from those of training."""
    writing = column.writing
    if writing.date:
        try:
            return bool(datetime.strptime(text, writing.date))
        except ValueError:
            return False
    mark, groups = re.escape(writing.decimal), r"\d{1,3}(?:[.,]\d{3})*" if writing.grouped else r"\d+"
    return bool(re.fullmatch(rf"{groups}(?:{mark}\d+)?", text))


COUNTS: Counter[tuple[str, str, str]] = Counter()


@pytest.fixture(scope="module")
def folder(tmp_path_factory, request):
    yield tmp_path_factory.mktemp("written")
    if path := os.environ.get("SPREADSHEETS"):  # how many cells of each kind were read, for a report
        outcomes: dict[str, dict[str, int]] = {}
        for (kind, locale, outcome), count in sorted(COUNTS.items()):
            outcomes.setdefault(f"{kind}, {locale}", {})[outcome] = count
        run = Namespace(examples=EXAMPLES, seed=request.config.getoption("--hypothesis-seed"))
        write_record(Path(path), {"cells": sum(COUNTS.values()), "outcomes": outcomes, "origin": origin(run)})


@RANDOM
@given(st.sampled_from(sorted(KINDS)), st.data())
def test_a_second_writing_reads_the_same_or_is_missing_or_unlike_with_a_word_or_refused(folder, kind, data):
    values = data.draw(st.lists(KINDS[kind], min_size=40, max_size=60))
    locales = sorted({*LOCALES, "Indian"})
    first, second = data.draw(st.sampled_from(sorted(LOCALES))), data.draw(st.sampled_from(locales))
    form = data.draw(st.sampled_from(TYPES))
    training = pd.DataFrame({"x": [local(value, first) for value in values]}, dtype=object)
    if data.draw(st.booleans()):
        first, training = "native", delivered(values, "plain", "native", folder)
    new = values[:20]
    try:
        schema = Schema.from_frame(training, {"x": "category" if kind == "category" else "number"})
        expected = schema.encode(training.head(20))
    except ValueError:
        return  # training is refused
    if kind in ("decimal", "whole", "date") and not own_meaning(schema.columns[0], training["x"].head(20), new):
        return  # a guess of training, which has a law of its own
    with watched(quiet=True) as watch:
        try:
            frame = delivered(new, second, form, folder)
            encoded = schema.encode(frame)
        except ValueError:
            COUNTS[kind, second, "refused"] += len(new)
            return
    read, flags = (np.asarray(each["table"])[:, 0] for each in (encoded.inputs, encoded.observed))
    assert len(read) == len(new)
    other = flags & ~np.isclose(read, np.asarray(expected.inputs["table"])[:, 0], atol=1e-6)
    noted = {row for seen in watch.seen.values() for row in seen.rows}
    texts = frame["x"].astype(str)
    silent = [row for row in np.flatnonzero(other).tolist() if row not in noted]
    unclear = [row for row in silent if kind != "category" and own_writing(texts[row], schema.columns[0])]
    for outcome, count in (
        ("same", (flags & ~other).sum()),
        ("missing", (~flags).sum()),
        ("unlike", len(noted & set(np.flatnonzero(other)))),
        ("as training writes another", len(unclear)),
    ):
        COUNTS[kind, second, outcome] += int(count)
    assert silent == unclear, (kind, first, second, form, training["x"][silent[0]], texts[silent[0]])
    assert flags.all() or list(watch.sentences()), (kind, first, second, form, texts[~flags].tolist())


class Doors:
    """A model of one column of each kind in one locale; what the server and the exported file say of other writings."""

    def __init__(self, folder: Path, locale: str, stack: ExitStack) -> None:
        draw = np.random.default_rng(0)
        self.values = {
            "decimal": [Decimal(int(each)).scaleb(-2) for each in draw.integers(1, 10**6, 80)],
            "whole": [Decimal(int(each)) for each in draw.integers(1, 10**5, 80)],
            "date": [date(1990, 1, 1) + timedelta(int(each)) for each in draw.integers(0, 9000, 80)],
            "category": [
                ["Ward", "Straße", "CAFÉ", "no 7", "True", "3", "a, b"][each] for each in draw.integers(0, 7, 80)
            ],
            "duration": [timedelta(minutes=int(each)) for each in draw.integers(1, 600, 80)],
        }
        self.rows = pd.DataFrame({kind: [local(each, locale) for each in own] for kind, own in self.values.items()})
        labels = np.where(draw.random(80) < 0.5, "a", "b")
        kinds = {kind: "category" if kind == "category" else "number" for kind in KINDS}
        model = GaugeClassifier(experts=["linear"], columns=kinds, trust=False, random_state=0, verbose=False)
        self.expected = model.fit(self.rows, labels).predict_proba(self.rows)
        self.columns = {column.name: column for column in model.fitted_.columns}
        export(model, folder / f"{locale}.onnx")
        self.file = ExportedClassifier(folder / f"{locale}.onnx")
        self.client = stack.enter_context(serving(folder / f"{locale}.onnx"))

    def over_http(self, frame: pd.DataFrame, kind: str) -> tuple[np.ndarray, set[int]] | None:
        """The probabilities of rows and which have a note on this column; None if they are refused."""
        cells = frame.astype(object).map(lambda cell: cell if isinstance(cell, str | float | int) else str(cell))
        status, answer = self.client.predict(*cells.to_dict("records"))
        if status != 200:
            assert status == 422, answer
            return None
        probabilities = [list(row["probabilities"].values()) for row in answer["predictions"]]
        noted = {row for row, each in enumerate(answer["predictions"]) if kind in str(each["notes"])}
        return np.array(probabilities), noted

    def of_file(self, frame: pd.DataFrame, kind: str) -> tuple[np.ndarray, set[int]]:
        with watched(quiet=True) as watch:
            probabilities = self.file.predict_proba(frame)
        return probabilities, {row for (name, _), seen in watch.seen.items() if name == kind for row in seen.rows}


@pytest.fixture(scope="module")
def doors(tmp_path_factory):
    with ExitStack() as stack:
        yield {name: Doors(tmp_path_factory.mktemp("doors"), name, stack) for name in ("plain", "US", "German")}


@RANDOM
@given(st.sampled_from(["plain", "US", "German"]), st.sampled_from(sorted(KINDS)), st.data())
def test_the_server_and_the_exported_file_never_answer_otherwise_in_silence(doors, folder, first, kind, data):
    own, second = doors[first], data.draw(st.sampled_from(sorted({*LOCALES, "Indian"})))
    rows = data.draw(st.lists(st.integers(0, 79), min_size=1, max_size=5, unique=True))
    door, form = data.draw(st.sampled_from(["HTTP", "file"])), data.draw(st.sampled_from(TYPES))
    frame = own.rows.iloc[rows].reset_index(drop=True)
    answer = None
    with suppress(ValueError):  # refused
        frame[kind] = delivered([own.values[kind][row] for row in rows], second, form, folder)["x"].tolist()
        answer = (own.over_http if door == "HTTP" else own.of_file)(frame, kind)
    if answer is None:
        COUNTS[f"{door} {kind}", second, "refused"] += len(rows)
        return
    other = ~np.isclose(answer[0], own.expected[rows], atol=2e-6).all(1)
    for row in range(len(rows)):
        text = str(frame[kind][row])
        unclear = other[row] and row not in answer[1] and kind != "category" and own_writing(text, own.columns[kind])
        outcome = "noted" if row in answer[1] else "as training writes another" if unclear else "same"
        COUNTS[f"{door} {kind}", second, outcome] += 1
        assert outcome != "same" or not other[row], (door, first, second, form, own.rows[kind][rows[row]], text)


def own_meaning(column, texts: pd.Series, values: list) -> bool:
    """Whether training is read as it was meant."""
    days = [(value - date(1970, 1, 1)).days if isinstance(value, date) else float(value) for value in values]
    return np.allclose(column.writing.read(column.clean(texts)), days, rtol=1e-9)


DATES = ["%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%Y/%m/%d", "%d %b %Y", "%B %d, %Y"]
dates = st.lists(st.integers(0, 40_000).map(lambda days: date(1930, 1, 1) + timedelta(days)), min_size=8, max_size=30)


@RANDOM
@given(dates, st.sampled_from(DATES))
def test_dates_read_as_they_were_meant_or_are_reported_as_a_guess(days, form):
    texts = pd.Series([day.strftime(form) for day in days])
    writing = Writing.from_values(texts)
    meant = np.array(days, "datetime64[D]").astype(float)
    assert np.array_equal(writing.read(texts), meant) or "a guess" in writing.note


def test_commas_before_three_digits_are_decimal_where_another_column_has_decimal_commas():
    weights = [f"{3 + row / 7:.3f}".replace(".", ",") for row in range(30)]
    prices = [f"{row},5" for row in range(30)]
    alone, beside = (Schema.from_frame(pd.DataFrame(each)) for each in ({"w": weights}, {"w": weights, "p": prices}))
    assert alone.columns[0].values[0] == 3000
    assert alone.columns[0].note == "numbers with a decimal point"
    assert beside.columns[0].values[0] == 3
    assert beside.columns[0].note == "numbers with a decimal comma"


def test_a_thousands_separator_that_training_did_not_have_counts_as_missing(caplog):
    plain, grouped = (
        Number.from_column(pd.Series(values, name="x")) for values in (["7.5", "8.25"], ["7.5", "1,208.25"])
    )
    cells = pd.Series(["1,234", "1,234.5", "1,234,567"], name="x")
    assert np.isnan(plain.numbers(cells)).tolist() == [True, False, False]
    assert "'1,234' is not a number; counted as missing" in caplog.text
    assert not np.isnan(grouped.numbers(cells)).any()


@pytest.mark.parametrize("nines", ["-999", "9999", "99,0"])
def test_nines_far_from_all_others_are_named_as_perhaps_missing(nines, caplog):
    values = pd.Series([*(f"{number / 10:.1f}".replace(".", ",") for number in range(90)), *[nines] * 5], name="age")
    column = Number.from_column(values)
    value = nines.removesuffix(",0")
    said = f"5 of 95 values are {value}, far from all others; if that means missing, leave these cells empty"
    assert said in caplog.text
    assert column.inspect(values)[1] == [said]
    for others in ([*map(str, range(120)), "99"], ["1", "2", "-999"] * 2, ["2020-01-01", "2031-01-01"] * 9):
        assert Number.inspect(pd.Series(others))[1] == []


MEASURED = [f"{number / 2:g}" for number in range(20)]


@pytest.mark.parametrize(("bound", "number"), [("<0.1", 0.1), ("> 90", 90), ("≤5", 5), (">=5 ", 5)])
def test_a_limit_of_measurement_is_the_limit_where_training_had_some(bound, number):
    with_bounds = Number.from_column(pd.Series([*MEASURED, "<0.1", ">90"], name="crp"))
    assert with_bounds.note == "numbers with '<' and '>' read as the limit"
    again = Number.from_json(with_bounds.to_json(), Path())
    assert again.writing.read(pd.Series([bound])).tolist() == [number]
    assert np.isnan(Number.from_column(pd.Series(MEASURED)).writing.read(pd.Series([bound]))).all()


@pytest.mark.parametrize("values", [["<50", ">=50"] * 20, ["<18", "18", "19", ">19"] * 10, ["(1)", "(2)"] * 20])
def test_groups_are_no_limits_of_measurement(values):
    assert Writing.from_values(pd.Series(values)) is None


def test_an_amount_in_brackets_is_negative():
    for amounts in (["(1,200.50)", "3.75", "$ 12.10", "($ 2.00)"], ["(1.200,50) €", "3,75", "12,10 €", "(2,00 €)"]):
        numbers = Writing.from_values(pd.Series(amounts * 5)).read(pd.Series(amounts))
        assert numbers.tolist() == [-1200.5, 3.75, 12.1, -2.0]


@pytest.mark.parametrize(
    ("form", "times"),
    [("%d.%m.%Y", "%H:%M"), ("%m/%d/%Y", "%I:%M %p"), ("%b %d, %Y", "%H:%M:%S"), ("%Y/%m/%d", "%H:%M")],
)
def test_dates_with_times_are_read_in_the_order_of_their_dates(form, times):
    moments = pd.Series(pd.date_range("2020-01-14 07:05", periods=60, freq="17h"))
    column = Number.from_column(moments.dt.strftime(f"{form} {times}"))
    assert column.writing.date == form
    expected = (moments - pd.Timestamp(0)) / pd.Timedelta(days=1)
    for written in (moments.dt.strftime(f"{form} {times}"), moments.astype(str), moments, moments.astype(object)):
        assert np.allclose(column.writing.read(written), expected, atol=1e-6)
    assert column.writing.read(moments.dt.strftime(form)).tolist() == np.floor(expected).tolist()
    wrong = ["2020-01-14 now", "14.01.2020 25:10", "01/14/2020 13:05 pm"]
    assert np.isnan(column.writing.read(pd.Series(wrong))).all()


def test_a_fraction_in_a_column_of_percentages_counts_as_missing(caplog):
    column = Number.from_column(pd.Series([f"{value}%" for value in range(40)], name="share"))
    assert column.writing.read(pd.Series(["13%", "13", "0.5%", "0", 13])).tolist() == [13, 13, 0.5, 0, 13]
    for cells in (["0.13", "1"], [0.13, 1.0]):
        assert np.isnan(column.numbers(pd.Series(cells, name="share"))).all()
    assert "row 0: '0.13' is not a number, and 1 more cannot be read; counted as missing" in caplog.text
    assert column.quick_number(0.13) is column.quick_number(13.0) is None, "both are read as a column is"
    assert np.isnan(column.numbers(pd.Series([0.13]))[0])
    assert np.isfinite(column.numbers(pd.Series([13.0]))[0])


def test_the_word_none_is_a_level_in_every_kind_of_file_and_missing_among_numbers(tmp_path):
    frame = pd.DataFrame({"alcohol": ["None", "some", "much"] * 9, "age": ["31", "None", "54"] * 9})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    for rows in (frame, read_table_file(tmp_path / "t.csv"), read_table_file(tmp_path / "t.parquet")):
        alcohol, age = Schema.from_frame(rows).columns
        assert sorted(alcohol.words) == ["None", "much", "some"]
        assert np.isnan(age.numbers(rows["age"])).tolist() == [False, True, False] * 9
        assert np.isnan(age.numbers(pd.Series(["None", "54"]))).tolist() == [True, False]


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl", "xlsx"])
def test_a_label_na_is_none_in_every_kind_of_file_and_a_class_in_python(ending, tmp_path, caplog):
    frame = pd.DataFrame({"a": np.arange(60) ** 0.5, "region": ["EU", "NA", "AS"] * 20, "v": [[0.5, 1.0]] * 60})
    frame["v"] = frame["v"] if ending in ("parquet", "jsonl") else "x"
    path = tmp_path / f"t.{ending}"
    write = {"parquet": frame.to_parquet, "jsonl": partial(frame.to_json, orient="records", lines=True)}
    write |= {"csv": partial(frame.to_csv, index=False), "xlsx": partial(frame.to_excel, index=False)}
    write[ending](path)
    rows = read_table_file(path)
    model = GaugeClassifier(preset="fast", experts=["linear"], verbose=False)
    assert model.fit(rows, "region").classes_.tolist() == ["AS", "EU"]
    assert "20 rows have no label, first row 1; columns and trust are learned from them, too" in caplog.text
    assert model.fit(frame, "region").classes_.tolist() == ["AS", "EU", "NA"]
    assert len(rows["v"].iloc[0]) == len(frame["v"].iloc[0])


def test_durations_of_python_are_those_of_pandas_and_no_times_of_day():
    minutes = np.random.default_rng(0).integers(5, 1400, 40)
    objects = pd.Series([timedelta(minutes=int(each)) for each in minutes], dtype=object, name="stay")
    column = Number.from_column(plain(objects))
    assert column.writing.note == "durations, in days"
    expected = column.numbers(pd.to_timedelta(objects))
    np.testing.assert_allclose(column.numbers(plain(objects)), expected)
    longer = pd.Series([timedelta(hours=30), None], dtype=object, name="stay")
    np.testing.assert_allclose(column.writing.read(plain(longer)), [1.25, np.nan])


def test_identifiers_beside_blanks_keep_their_last_digit(tmp_path):
    ids = [str(1234567890123456788 + row) for row in range(8)]
    pd.DataFrame({"row": range(10), "id": [*ids, "12", None]}).to_csv(tmp_path / "t.csv", index=False)
    assert read_table_file(tmp_path / "t.csv")["id"].tolist()[:9] == [*ids, "12"]
    pd.DataFrame({"row": range(8), "id": ids}).to_csv(tmp_path / "t.csv", index=False)
    assert read_table_file(tmp_path / "t.csv")["id"].astype(str).tolist() == ids


@pytest.mark.parametrize("form", ["%b %Y", "%m/%Y", "%Y-%m"])
def test_a_month_that_cannot_be_read_is_missing_in_training_and_later(form):
    months = pd.Series([*pd.date_range("2020-01-01", periods=40, freq="MS").strftime(form), "13/2020"])
    column = Number.from_column(months)
    scaled, days = column.numbers(months), column.writing.read(months)
    assert np.isnan(scaled[-1])
    assert (np.abs(scaled[:-1]) < 5).all()
    assert pd.Timestamp(0) + pd.Timedelta(days=days[3]) == pd.Timestamp("2020-04-01")


def test_a_unit_that_ends_in_s_is_no_plural_of_another():
    metres = Writing.from_values(pd.Series(["12 m", "15 m", "18 m"] * 10 + ["12 ms"]))
    assert metres.unit == "m"
    assert np.isnan(metres.read(pd.Series(["12 ms"])))[0]
    for unit, other in [("ms", "m"), ("µs", "µ"), ("fps", "fp"), ("bps", "bp")]:
        writing = Writing.from_values(pd.Series([f"{value} {unit}" for value in range(30)]))
        assert writing.unit == unit
        assert np.isnan(writing.read(pd.Series([f"3 {other}"])))[0]
    days = Writing.from_values(pd.Series(["2 days", "1 day", "12 days"] * 10))
    assert days.read(pd.Series(["1 day", "3 days"])).tolist() == [1, 3]


def test_numbers_of_a_spreadsheet_are_what_they_are_beside_numbers_in_texts():
    column = pd.Series([1.5, 2.5, 3.25, "33,2"] * 10, dtype=object)
    writing = Writing.from_values(column)
    assert writing.note == "numbers with a decimal comma"
    assert writing.read(column)[:4].tolist() == [1.5, 2.5, 3.25, 33.2]
    mixed = pd.Series([1500.5, 2500.0, 3.25, "2.897"] * 10, dtype=object)
    assert "'2.897' is read as a decimal, but beside '1500.5' every point" in Number.inspect(mixed)[1][0]


@pytest.mark.parametrize("end", ["4,5\n", "4,5"])
def test_a_line_with_fewer_fields_than_the_header_or_a_key_twice_is_refused(tmp_path, end):
    (tmp_path / "t.csv").write_text("a,b,c\n1,2,3\n\n7,8,\n" + end)
    with pytest.raises(ValueError, match=r"line 5 has 2 fields, but the header has 3; if the file is complete, write"):
        list(read_rows(tmp_path / "t.csv"))
    (tmp_path / "t.csv").write_text('a,b,c\n1,2,3\n4,"5')
    with pytest.raises(ValueError, match="its last row has a quote that is not closed; the file may have been cut off"):
        list(read_rows(tmp_path / "t.csv"))
    (tmp_path / "t.csv").write_text("a,b,c\n1,2,3\n\n7,8,\n,,\n")
    assert read_table_file(tmp_path / "t.csv").isna().sum().tolist() == [1, 1, 2]
    (tmp_path / "t.jsonl").write_text('{"a": 1}\n{"a": 1, "b": 2, "a": 3}\n')
    with pytest.raises(ValueError, match="line 2 has the key 'a' twice; remove one"):
        list(read_rows(tmp_path / "t.jsonl"))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x1f\x8b\x08\x00", "a gzip file, whatever its name; if it is one, let its name end in .csv.gz"),
        (b"PK\x03\x04aaaa", "sheet or a zip archive, whatever its name; if it is one, let its name end in .xlsx or"),
        (b"PAR1aaaa", "a Parquet file"),
        ("x,y\n1,2\n".encode("utf-16-le"), "bytes, which text has not; if it is UTF-16 or UTF-32, save it in UTF-8"),
        ("x,y\n1,2\n".encode("utf-32"), "zero bytes"),
        (b"x,y\n1,a\x00\n", "zero bytes"),
        (b"sep=;\r\nx;y\r\n1;2\r\n", "its first line, sep=, is not part of the table, and for Excel alone; remove the"),
        (b"Report\n\nx,y\n1,2\n", "remove titles above the header"),
    ],
)
def test_a_file_of_another_kind_is_refused_by_its_content(tmp_path, content, reason):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(ValueError, match=rf"t.csv cannot be read as a table \(.*{reason}"):
        read_table_file(tmp_path / "t.csv")
