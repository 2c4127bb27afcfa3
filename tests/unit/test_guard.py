"""Every door reports what is unlike training, once per call: in one line, in a note per row, or with an exit code."""

import logging
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from gauge import ExportedClassifier, GaugeClassifier, export
from gauge.cli.tables import predict
from gauge.deploy.requests import Limits, RequestReader, RowCells
from gauge.deploy.store import Loaded
from gauge.tabular.table.guard import Limits as NumberLimits
from gauge.tabular.table.guard import Training, watched
from gauge.tabular.table.schema import Schema


def table(rows: int, seed: int) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    label = draw.integers(0, 2, rows)
    return pd.DataFrame(
        {
            "age": draw.normal(40 + 9 * label, 8).round(1),
            "ward": draw.choice(["north", "south", "west"], rows),
            "town": draw.choice([f"town{number}" for number in range(400)], rows),
            "note": [" ".join(draw.choice(["sore", "arm", "leg", "red", "itch", "cold"], 5)) for _ in range(rows)],
            "dose": np.where(draw.random(rows) < 0.2, np.nan, draw.gamma(2, 10, rows)),
            "label": np.array(["ill", "well"])[label],
        }
    )


@pytest.fixture(scope="module")
def doors(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guard")
    model = GaugeClassifier(experts=["linear"], trust=False, random_state=0).fit(table(600, 0), "label")
    model.save(folder / "model")
    export(model, folder / "model.onnx")
    return folder, model


CASES = [
    ("age", lambda rows: rows * 1000, "is unlike all of training ("),
    ("age", lambda rows: rows / 1000, "is unlike all of training ("),
    ("age", lambda rows: rows.where(rows.index != 7, 9999.0), "row 7: '9999.0' is unlike all of training ("),
    ("age", lambda rows: rows.abs().clip(lower=62), "in the highest twentieth of training"),
    ("ward", lambda rows: rows.where(rows.index != 3, "nord"), "row 3: 'nord' was not seen in training"),
    ("town", lambda rows: "Ort" + rows, "seen once in training or never, and is read as rare, and 59 more"),
    ("note", lambda rows: "mal di testa forte " + rows.str[:4], "has mostly words that training never saw"),
    ("dose", lambda rows: rows * np.nan, "column 'dose': missing in 100 % of the rows instead of"),
]


@pytest.mark.parametrize(("name", "change", "said"), CASES)
@pytest.mark.parametrize("door", ["folder", "file"])
def test_a_changed_column_is_reported_in_one_line_and_a_mere_split_is_not(doors, name, change, said, door, caplog):
    folder, model = doors
    classifier = model.fitted_ if door == "folder" else ExportedClassifier(folder / "model.onnx")
    rows = table(60, 1).drop(columns="label")
    caplog.set_level(logging.WARNING)
    classifier.predict(rows)
    assert caplog.text == ""
    classifier.predict_proba(rows.assign(**{name: change(rows[name])}))
    (line,) = caplog.messages
    assert said in line


def test_the_server_notes_each_row_that_is_unlike_training(doors):
    columns = doors[1].fitted_.columns
    loaded = Loaded(doors[1].fitted_, RequestReader(columns, Limits()), ())
    rows = table(3, 2)[[column.name for column in columns]].astype(object)
    rows["town"] = {column.name: column for column in columns}["town"].words[0]
    rows.loc[1, "age"] = 4000
    cells = [RowCells(row) for row in rows.to_numpy().tolist()]
    for part in (cells, cells[1:2]):
        notes = [answer["notes"] for answer in loaded.predictions([(row, None) for row in part])]
        flagged = [[(note["column"], note["value"]) for note in each] for each in notes]
        assert flagged == [[("age", "4000")] if row is cells[1] else [] for row in part]


def test_strict_refuses_a_table_with_an_exit_code_of_its_own_and_a_line_for_all_parts(doors, tmp_path):
    rows = pd.concat([table(5000, 3), table(5000, 4).assign(age=4000)])
    rows.to_csv(tmp_path / "new.csv", index=False)
    for options, code in ((["--strict"], 3), ([], 0)):
        command = [
            "predict",
            str(doors[0] / "model.onnx"),
            str(tmp_path / "new.csv"),
            "--out",
            str(tmp_path / "out.csv"),
        ]
        run = subprocess.run([sys.executable, "-m", "gauge", *command, *options], capture_output=True, text=True)
        assert run.returncode == code, run.stderr
        assert (tmp_path / "out.csv").exists() == (code == 0)
        assert run.stderr.count("'4000.0' is unlike all of training (") == 1
        assert "and 4999 more" in run.stderr


def test_strict_and_ray_are_refused_together(doors, tmp_path):
    model, rows = doors[0] / "model", tmp_path / "new.parquet"
    table(60, 3).to_parquet(rows)
    with pytest.raises(
        ValueError, match="--strict looks at all rows together, and workers of --ray see parts; leave one"
    ):
        predict(model, rows, strict=True, ray=True)


@pytest.mark.parametrize(
    ("training", "unlike", "like"),
    [
        (np.arange(1000), [12.345, -1.0], [0.0, 1100.0]),
        (-np.linspace(1, 9, 1000), [3.0], [-5.5, 0.0]),
        (np.linspace(-1, 9, 1000), [], [-1.5, 0.123]),
    ],
)
def test_a_fraction_and_the_other_sign_are_unlike_numbers_that_have_none(training, unlike, like):
    limits = NumberLimits.fit(training.astype(float), ratios=True)
    assert limits.beyond(np.array([*unlike, *like, np.nan])).tolist() == [
        *[True] * len(unlike),
        *[False] * (len(like) + 1),
    ]
    assert not limits.certain(np.array([*unlike, *like]))
    days = NumberLimits.fit(np.arange(18_000.0, 18_900), ratios=False)
    assert days.beyond(np.array([18_010.4, 18_010.0])).tolist() == [True, False]


def test_one_number_near_to_zero_is_unlike_training_only_where_all_of_that_has_one_sign():
    draw = np.random.default_rng(0)
    small, both = np.array([1e-9]), draw.normal(size=300)
    assert NumberLimits.fit(np.abs(both) + 0.1, ratios=True).certain(small)
    assert not NumberLimits.fit(both, ratios=True).certain(small)


def test_new_categories_are_no_alarm_where_training_had_as_many_rare_ones_but_always_noted():
    draw = np.random.default_rng(0)
    words = pd.Series([*draw.choice(["a", "b", "c"], 940), *(f"once {number}" for number in range(60))], name="x")
    kinds = {"x": "category", "y": "number"}
    open_list, closed = (
        Schema.from_frame(each.to_frame().assign(y=range(len(each))), kinds) for each in (words, words[:940])
    )

    def said(schema, new, rows):
        with watched(quiet=True) as watch:
            frame = pd.DataFrame({"x": [*(f"new {number}" for number in range(new)), *["a"] * (rows - new)], "y": 99})
            encoded = schema.encode(frame)
            watch.add_rows(encoded.observed["table"], Training(schema.columns, {"x": 0.0, "y": 0.0}, 1000))
        (seen,) = watch.seen.values()
        assert seen.rows == list(range(new))
        return [*watch.sentences()], [*watch.expected()]

    for schema, new, rows, alarm in (
        (open_list, 3, 60, False),
        (open_list, 30, 60, True),
        (open_list, 1, 5, True),
        (closed, 1, 60, True),
    ):
        alarms, expected = said(schema, new, rows)
        assert (alarms != [], expected != []) == (alarm, not alarm)
