"""Your own table on the command line: inspect, fit, predict, explain, and what happens when a fit is interrupted."""

import errno
import json
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from filelock import FileLock
from helpers import ONE_THREAD, assert_equal, clinic, command, invoke, mistake

from gauge import GaugeClassifier
from gauge.cli.options import named
from gauge.training.checkpoint import load

FIT = ["fit", "train.csv", "--target", "diagnosis", "--epochs", "3"]


def gauge(*arguments, cwd):
    """What the command prints, run in this process."""
    return invoke(*arguments, cwd=cwd).stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Images, notes, numbers and categories, 30 % missing, and a model of them."""
    folder = tmp_path_factory.mktemp("tables")
    table = clinic(folder / "photos", rows=80).assign(photo=lambda table: "photos/" + table["photo"])
    table.to_csv(folder / "train.csv", index=False)
    table.drop(columns="diagnosis")[:50].to_csv(folder / "new.csv", index=False)
    done = invoke(*FIT, "--out", "model", cwd=folder)
    assert done.stdout == "the model is in model; next: gauge predict model NEW.csv\n"
    assert done.stderr.count("combined") == 1  # the leaderboard
    return folder


def test_fit_takes_options_from_a_file_and_replaces_a_model_when_forced(tmp_path):
    table = pd.DataFrame({"x": [1.0, 2.0, None, 4.0] * 10, "y": ["p", "q", "p", "q"] * 10})
    table.to_csv(tmp_path / "train.csv", index=False)
    (tmp_path / "options.yaml").write_text("{epochs: 2, trust: false, learning_rate: 0.01}")
    fit = ["fit", "train.csv", "--target", "y", "--out", "model"]
    gauge(*fit, "--config", "options.yaml", "--epochs", "1", cwd=tmp_path)
    model = GaugeClassifier.load(tmp_path / "model")
    assert not model.trust
    assert model.epochs_["backbone"] == 1  # the command line wins
    with pytest.raises(ValueError, match="already holds a model; choose another folder, or replace it with --force"):
        gauge(*fit, cwd=tmp_path)
    gauge(*fit, "--epochs", "1", "--force", cwd=tmp_path)
    assert GaugeClassifier.load(tmp_path / "model").trust
    for decision, message in (
        (("sens=0.9", "p"), "threshold 'sens=0.9' is not one"),
        (("0.4", "P"), "there is no class 'P'"),
    ):  # before anything is learned
        with pytest.raises(ValueError, match=message):
            gauge(*fit, "--force", "--threshold", decision[0], "--positive", decision[1], cwd=tmp_path)
        assert not (tmp_path / "model" / ".training").exists()
    assert GaugeClassifier.load(tmp_path / "model").trust
    (tmp_path / "options.yaml").write_text("{epoch: 2}")
    with pytest.raises(ValueError, match=r"there is no option in options.yaml 'epoch'; did you mean 'epochs'\?"):
        gauge(*fit, "--config", "options.yaml", "--force", cwd=tmp_path)


def test_inspect_finds_copies_image_files_that_do_not_exist_and_missing_labels(tmp_path):
    table = pd.DataFrame({"x": [1, 1, 2], "photo": ["a.png", "a.png", "b.png"], "y": ["p", "p", None]})
    table.to_csv(tmp_path / "t.csv", index=False)
    printed = gauge("inspect", "t.csv", "--target", "y", cwd=tmp_path)
    assert "1 rows are exact copies" in printed
    assert "photo: 3 image files do not exist, first 'a.png'" in printed
    assert "y: 1 labels are missing" in printed
    assert "y: there is only one class" in printed


def test_predict_answers_every_row_in_order_also_when_the_file_is_read_in_parts(folder, monkeypatch):
    gauge("predict", "model", "new.csv", "--out", "whole.csv", cwd=folder)
    whole = pd.read_csv(folder / "whole.csv")
    assert whole["row"].tolist() == list(range(50))
    assert np.allclose(whole.filter(like="p(").sum(axis=1), 1, atol=1e-4)
    printed = command("predict", "model", "new.csv", cwd=folder).stdout  # in a process of its own
    assert printed == (folder / "whole.csv").read_text(encoding="utf-8")
    monkeypatch.setattr("gauge.tabular.table.arrays.ROWS_AT_ONCE", 7)
    assert "50 predictions in parts.csv" in gauge("predict", "model", "new.csv", "--out", "parts.csv", cwd=folder)
    parts = pd.read_csv(folder / "parts.csv")
    assert parts["prediction"].tolist() == whole["prediction"].tolist()
    assert np.allclose(parts.filter(like="p("), whole.filter(like="p("), atol=2e-6)


def test_predict_reads_many_files_as_one_table_and_writes_parquet(folder, monkeypatch):
    table = pd.read_csv(folder / "new.csv")
    table[:30].to_csv(folder / "part-0.csv", index=False)
    table[30:].to_csv(folder / "part-1.csv", index=False)
    gauge("predict", "model", "new.csv", "--keep", "age", "--out", "whole.csv", cwd=folder)
    monkeypatch.setattr("gauge.tabular.table.arrays.ROWS_AT_ONCE", 20)
    printed = gauge("predict", "model", "part-*.csv", "--keep", "age", "--out", "all.parquet", cwd=folder)
    assert "50 predictions in all.parquet" in printed
    whole, parts = pd.read_csv(folder / "whole.csv"), pd.read_parquet(folder / "all.parquet")
    assert parts["age"].astype(float).equals(whole["age"])
    assert parts[["row", "prediction"]].astype(object).equals(whole[["row", "prediction"]].astype(object))
    assert np.allclose(parts.filter(like="p("), whole.filter(like="p("), atol=2e-6)


@pytest.mark.parametrize("name", ["row", "prediction", "p(wart)"])
def test_a_kept_column_never_takes_the_place_of_an_answer(folder, name):
    pd.read_csv(folder / "new.csv").assign(**{name: "mine"}).to_csv(folder / "named.csv", index=False)
    message = mistake("predict", "model", "named.csv", "--keep", name, cwd=folder)
    assert f"column '{name}' cannot be kept: the result has one of that name; rename it in the table" in message


def test_evaluate_compares_with_baselines_and_predict_scores_a_labelled_file(folder):
    printed = gauge("evaluate", "model", "train.csv", cwd=folder)
    assert "80 rows, 95 % intervals" in printed
    assert "class shares" in printed
    assert "boosted trees" in printed
    assert len(json.loads(gauge("evaluate", "model", "train.csv", "--json", cwd=folder))["scores"]) == 12
    result = invoke("predict", "model", "train.csv", "--out", "scored.csv", cwd=folder)
    assert "of 80 labelled rows); more: gauge evaluate model train.csv" in result.stderr


def test_explain_writes_a_page_or_a_table(folder):
    gauge("explain", "model", "train.csv", "--rows", "3:9", "--out", "evidence.html", "--exact", cwd=folder)
    page = (folder / "evidence.html").read_text(encoding="utf-8")
    assert "Row 3" in page
    assert "Row 9" not in page
    gauge("explain", "model", "new.csv", "--rows", "0:4", "--out", "evidence.csv", cwd=folder)
    assert set(pd.read_csv(folder / "evidence.csv")["row"]) == {0, 1, 2, 3}


def test_a_fit_that_was_killed_continues_to_the_same_model(folder):
    process = subprocess.Popen(
        [sys.executable, "-m", "gauge.cli", *FIT, "--out", "again"],
        cwd=folder,
        env=ONE_THREAD,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while not list((folder / "again").glob(".training/*/backbone-*/last.safetensors")):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (folder / "again" / "model.json").exists()
    gauge(*FIT, "--out", "again", cwd=folder)
    first, second = (load(folder / name / "model.safetensors")[0] for name in ("model", "again"))
    assert_equal(first, second)
    assert not (folder / "again" / ".training").exists()


def test_a_fit_that_was_killed_while_saving_continues(tmp_path):
    pd.DataFrame({"x": [1.0, 2.0, None, 4.0] * 10, "y": list("pqpq") * 10}).to_csv(tmp_path / "t.csv", index=False)
    fit = ["fit", "t.csv", "--target", "y", "--epochs", "1", "--experts", "network"]
    gauge(*fit, "--out", "model", cwd=tmp_path)
    shutil.copytree(tmp_path / "model", tmp_path / "half")
    (tmp_path / "half" / "model.json").unlink()
    (tmp_path / "half" / ".training").mkdir()
    gauge(*fit, "--out", "half", cwd=tmp_path)
    files = ["README.md", "metrics.jsonl", "model.json", "model.safetensors"]
    assert sorted(path.name for path in (tmp_path / "half").iterdir()) == files
    (tmp_path / "model" / ".training").mkdir()  # killed after it was saved
    before, _ = load(tmp_path / "model" / "model.safetensors")
    gauge(*fit, "--out", "model", cwd=tmp_path)
    assert_equal(load(tmp_path / "model" / "model.safetensors")[0], before)


def test_a_second_fit_into_the_same_folder_is_refused(folder):
    (folder / "shared" / ".training").mkdir(parents=True)
    with (
        FileLock(folder / "shared" / ".training" / "lock"),
        pytest.raises(ValueError, match="another `gauge fit` is writing to shared; wait for it, or choose another"),
    ):
        gauge(*FIT, "--out", "shared", cwd=folder)


def test_a_full_disk_is_one_line_and_leaves_no_half_of_a_file(folder, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    for arguments in (
        ["predict", "model", "new.csv", "--out", "p.csv"],
        ["explain", "model", "new.csv", "--out", "e.csv"],
    ):
        with pytest.raises(OSError, match=r"No space left on device: '[pe].csv'"):
            gauge(*arguments, cwd=folder)
    assert not [*folder.glob("p.csv*"), *folder.glob("e.csv*")]


def test_a_table_that_lost_its_header_or_names_or_has_other_fields_is_refused(folder):
    lines = (folder / "new.csv").read_text(encoding="utf-8").splitlines()
    wrong = {
        "headless.csv": (lines[1:], "the table has 0 of the model's 5 columns"),
        "renamed.csv": ([lines[0].upper(), *lines[1:]], "it lacks 'age'; its columns are 'AGE'"),
        "commas.csv": ([lines[0], *(line + "," for line in lines[1:])], "line 2 has 6 fields, but the header has 5"),
        "late.csv": ([*lines[:9], lines[9] + ",,", *lines[10:]], "line 10 has 7 fields, but the header has 5"),
    }
    for name, (content, message) in wrong.items():
        (folder / name).write_text("\n".join(content) + "\n", encoding="utf-8")
        with pytest.raises(ValueError, match=message):
            gauge("predict", "model", name, "--out", "none.csv", cwd=folder)
    assert not (folder / "none.csv").exists()


def test_a_quantity_is_divided_into_classes(folder):
    options = ["--target", "age", "--classes", "3", "--epochs", "1", "--column", "photo=ignore"]
    labelled = pd.read_csv(folder / "train.csv").dropna(subset="age")
    labelled.to_csv(folder / "ages.csv", index=False)
    gauge("fit", "ages.csv", *options, "--out", "ages", cwd=folder)
    result = invoke("predict", "ages", "ages.csv", cwd=folder)
    assert result.stdout.splitlines()[0].count("p(") == 3
    assert "p(above " in result.stdout.splitlines()[0]
    assert "accuracy" in result.stderr  # a quantity is the class of its range


def test_a_kept_column_of_several_types_cannot_be_parquet(folder, monkeypatch):
    table = pd.read_csv(folder / "new.csv").drop(columns="photo")
    for ids in ([*range(30), *map(str, range(20))], [*map(str, range(30)), *range(20)]):
        table.assign(id=pd.Series(ids, dtype=object)).to_json(folder / "ids.jsonl", orient="records", lines=True)
        for rows in (5000, 20):
            monkeypatch.setattr("gauge.tabular.table.arrays.ROWS_AT_ONCE", rows)
            said = mistake("predict", "model", "ids.jsonl", "--keep", "id", "--out", "p.parquet", cwd=folder)
            assert "a column to keep has values of several types (" in said
            assert "write a .csv file" in said


def test_a_class_or_a_column_may_have_an_equals_sign():
    assert named("--class-weight", ["<=50K=2", ">50K=9"], "ill=5") == {"<=50K": "2", ">50K": "9"}
    assert named("--encoder", ["note=/models/seed=1"], "note=bert") == {"note": "/models/seed=1"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "train.csv", "--target", "diagnosis", "--out", "model"], "already holds a model; choose another"),
        (["fit", "train.csv", "--target", "nothing", "--out", "m"], "there is no column 'nothing' with the labels"),
        (["fit", "none.csv", "--target", "x", "--out", "m"], "there is no file none.csv"),
        ([*FIT, "--out", "m", "--column", "age"], "--column 'age' is not NAME=VALUE; write for example ward=category"),
        ([*FIT, "--out", "m", "--time-limit", "soon"], "time limit 'soon' is not a duration"),
        ([*FIT, "--out", "photos"], "photos is not empty; choose a new folder for the model"),
        ([*FIT, "--out", "new.csv"], "new.csv is a file; choose a new folder for the model"),
        (["predict", "photos", "new.csv"], "photos is not a saved classifier"),
        (["predict", "model", "new.csv", "--out", "new.csv"], "is the table itself, which would be overwritten"),
        (["predict", "model", "new.csv", "--out", "p.xlsx"], "p.xlsx should end in .csv or .parquet"),
        (["predict", "model", "no-*.csv"], "no-*.csv holds no table; give a file, a folder or a pattern"),
        (["predict", "model", "new.csv", "--keep", "agee"], "there is no column to keep 'agee'; did you mean 'age'?"),
        (["inspect", "train.csv", "--column", "age=integer"], "there is no kind of column 'integer'; known: number"),
        (["explain", "model", "new.csv", "--out", "e.html", "--rows", "5"], "--rows '5' is not FIRST:LAST"),
        (["explain", "model", "new.csv", "--out", "e.html", "--rows", "500:600"], "new.csv has no rows 500:600"),
        (["explain", "model", "new.csv", "--out", "e.pdf"], "e.pdf should end in .html or .csv"),
    ],
)
def test_a_mistake_is_reported_in_one_line(folder, arguments, message):
    assert message in mistake(*arguments, cwd=folder)
