"""What a command imports: heavy modules only where they are used. Which ones is a fact; how long they take is not."""

import gc
import json
import subprocess
import sys

import pandas as pd
import pytest
from helpers import ONE_THREAD

from gauge import GaugeClassifier
from gauge.cli.loading import heavy_imports

HEAVY = {"torch", "pandas", "sklearn", "lightgbm", "scipy", "sympy", "matplotlib", "transformers", "onnx"}
CODE = """
import json, sys
from gauge.cli.main import main
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["gauge", *arguments]
    try:
        main()
    except SystemExit as ended:
        print("LOADED", json.dumps([ended.code or 0, *sys.modules]), file=sys.stderr)
"""


def imported(*commands, cwd):
    """The exit code of each command and the heavy modules imported by then; they run in one process, in turn."""
    run = [sys.executable, "-c", CODE, json.dumps(commands)]
    done = subprocess.run(run, capture_output=True, text=True, cwd=cwd, env=ONE_THREAD, check=True)
    ends = [line.partition(" ")[2] for line in done.stderr.splitlines() if line.startswith("LOADED")]
    assert len(ends) == len(commands), done.stderr
    return [(code, HEAVY & set(modules)) for code, *modules in map(json.loads, ends)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of numbers and categories, and a model of all experts."""
    folder = tmp_path_factory.mktemp("start")
    table = pd.DataFrame({"x": [1.0, 2.0, None, 4.0] * 15, "sex": list("fmmf") * 15, "y": list("pqpq") * 15})
    table.to_csv(folder / "table.csv", index=False)
    GaugeClassifier(epochs=1, random_state=0, verbose=False).fit(table, "y").save(folder / "model")
    return folder


def test_a_file_that_does_not_exist_is_reported_before_anything_heavy_is_imported(folder):
    commands = [
        ["inspect", "none.csv"],
        ["fit", "none.csv", "--target", "y", "--out", "new"],
        ["predict", "model", "none.csv"],
        ["predict", "none", "table.csv"],
        ["predict", "none.onnx", "table.csv"],
        ["evaluate", "model", "none.csv"],
        ["explain", "model", "none.csv", "--out", "page.html"],
    ]
    assert imported(*commands, cwd=folder) == [(2, set())] * len(commands)


def test_inspecting_a_table_needs_no_torch(folder):
    ((code, modules),) = imported(["inspect", "table.csv"], cwd=folder)
    assert code == 0
    assert modules <= {"pandas", "scipy"}


def test_numbers_and_categories_are_predicted_without_the_libraries_of_training(folder):
    commands = [["predict", "model", "table.csv"], ["evaluate", "model", "table.csv", "--out", "report.html"]]
    for (code, modules), curves in zip(imported(*commands, cwd=folder), (set(), {"sklearn"}), strict=True):
        assert code == 0
        assert modules <= {"torch", "pandas", "scipy", *curves}


def _fail():
    with heavy_imports():
        assert not gc.isenabled()
        raise ImportError


def test_garbage_is_collected_again_after_imports_also_failed_ones():
    try:
        with pytest.raises(ImportError):
            _fail()
        assert gc.isenabled()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
