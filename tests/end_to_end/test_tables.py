"""A table of one's own on the command line: inspect, fit, predict, explain, and what happens when it is interrupted."""

import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from helpers import ONE_THREAD, assert_equal, clinic, command, mistake

from gauge.training.checkpoint import load

FIT = ["fit", "train.csv", "--target", "diagnosis", "--strategy", "mask", "--epochs", "4"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Pictures, notes, numbers and words, 30 % blanked out, and a model of them."""
    folder = tmp_path_factory.mktemp("tables")
    table = clinic(folder / "photos").assign(photo=lambda table: "photos/" + table["photo"])
    table.to_csv(folder / "train.csv", index=False)
    table.drop(columns="diagnosis")[:50].to_csv(folder / "new.csv", index=False)
    command(*FIT, "--out", "model", cwd=folder)
    return folder


def test_inspect_tells_kinds_gaps_and_problems_and_draws_them(folder):
    told = command("inspect", "train.csv", "--target", "diagnosis", "--out", "gaps.png", cwd=folder).stdout
    assert "160 rows, 5 columns" in told
    assert [kind in told for kind in ("number", "category", "image", "text")] == [True] * 4
    assert (folder / "gaps.png").stat().st_size > 1000


def test_inspect_finds_copies_absent_pictures_and_labels_that_are_missing(tmp_path):
    table = pd.DataFrame({"x": [1, 1, 2], "photo": ["a.png", "a.png", "b.png"], "y": ["p", "p", None]})
    table.to_csv(tmp_path / "t.csv", index=False)
    told = command("inspect", "t.csv", "--target", "y", cwd=tmp_path).stdout
    assert "1 rows are exact copies" in told
    assert "photo: 3 pictures are not there, first 'a.png'" in told
    assert "y: 1 labels are missing" in told
    assert "y: there is only one class" in told


def test_predict_answers_every_row_in_order_also_when_the_file_is_read_in_parts(folder):
    command("predict", "model", "new.csv", "--out", "found.csv", cwd=folder)
    found = pd.read_csv(folder / "found.csv")
    assert found["row"].tolist() == list(range(50))
    assert np.allclose(found.filter(like="p(").sum(axis=1), 1, atol=1e-4)
    printed = command("predict", "model", "new.csv", cwd=folder).stdout
    assert printed == (folder / "found.csv").read_text(encoding="utf-8")
    code = "from gauge import cli, cli_tables; cli_tables.ROWS_AT_ONCE = 7; cli.main()"
    parts = subprocess.run(
        [sys.executable, "-c", code, "predict", "model", "new.csv", "--out", "parts.csv"],
        cwd=folder,
        env=ONE_THREAD,
        check=True,
    )
    assert parts.returncode == 0
    again = pd.read_csv(folder / "parts.csv")
    assert again["prediction"].tolist() == found["prediction"].tolist()
    assert np.allclose(again.filter(like="p("), found.filter(like="p("), atol=2e-6)


def test_columns_can_be_kept_and_a_table_without_rows_is_told(folder):
    printed = command("predict", "model", "new.csv", "--keep", "age", cwd=folder).stdout
    assert printed.startswith("row,age,prediction,")
    (folder / "head.csv").write_text((folder / "new.csv").read_text(encoding="utf-8").splitlines()[0] + "\n")
    told = command("predict", "model", "head.csv", "--out", "none.csv", cwd=folder, check=2).stderr
    assert "head.csv has no rows" in told
    assert not list(folder.glob("none.csv*"))


def test_explain_writes_a_page_or_a_table(folder):
    command("explain", "model", "train.csv", "--rows", "3:9", "--out", "evidence.html", "--exact", cwd=folder)
    page = (folder / "evidence.html").read_text(encoding="utf-8")
    assert "Row 3" in page
    assert "Row 9" not in page
    command("explain", "model", "new.csv", "--rows", "0:4", "--out", "evidence.csv", cwd=folder)
    assert pd.read_csv(folder / "evidence.csv")["row"].nunique() == 4


def test_a_fit_that_was_killed_continues_to_the_same_model(folder):
    process = subprocess.Popen(
        [sys.executable, "-m", "gauge.cli.main", *FIT, "--out", "again"],
        cwd=folder,
        env=ONE_THREAD,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while not list((folder / "again").glob(".training/*/backbone/last.safetensors")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (folder / "again" / "model.json").exists()
    command(*FIT, "--out", "again", cwd=folder)
    first, second = (load(folder / name / "model.safetensors")[0] for name in ("model", "again"))
    assert_equal(first, second)
    assert not (folder / "again" / ".training").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["fit", "train.csv", "--target", "diagnosis", "--out", "model"],
            "model holds a model already; choose another",
        ),
        (["fit", "train.csv", "--target", "nothing", "--out", "m"], "there is no column 'nothing' with the labels"),
        (["fit", "none.csv", "--target", "x", "--out", "m"], "there is no file none.csv"),
        ([*FIT, "--out", "m", "--column", "age"], "--column 'age' is not NAME=VALUE; write for example ward=category"),
        ([*FIT, "--out", "m", "--time-limit", "soon"], "time limit 'soon' is not a duration"),
        ([*FIT, "--out", "photos"], "photos is not empty; choose a new folder for the model"),
        ([*FIT, "--out", "new.csv"], "new.csv is a file; choose a new folder for the model"),
        (["predict", "photos", "new.csv"], "photos is not a saved classifier"),
        (["predict", "model", "new.csv", "--out", "new.csv"], "new.csv is the table itself, which would be lost"),
        (["predict", "model", "new.csv", "--out", "p.xlsx"], "p.xlsx should end in .csv"),
        (["predict", "model", "new.csv", "--keep", "agee"], "there is no column to keep 'agee'; did you mean 'age'?"),
        (["explain", "model", "new.csv", "--out", "e.html", "--rows", "5"], "--rows '5' is not FIRST:LAST"),
        (["explain", "model", "new.csv", "--out", "e.html", "--rows", "500:600"], "rows 500:600 of new.csv are none"),
        (["explain", "model", "new.csv", "--out", "e.pdf"], "e.pdf should end in .html or .csv"),
    ],
)
def test_a_mistake_is_told_in_one_line(folder, arguments, message):
    assert message in mistake(*arguments, cwd=folder)
