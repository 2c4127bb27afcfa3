"""What a command imports: heavy modules only where they are used. Which ones is a fact; how long they take is not."""

import subprocess
import sys

import pandas as pd
import pytest
from helpers import ONE_THREAD

from gauge import GaugeClassifier

HEAVY = {"torch", "pandas", "sklearn", "lightgbm", "scipy", "sympy", "matplotlib", "transformers", "onnx"}
CODE = """
import sys
from gauge.cli.main import main
sys.argv = ["gauge", *sys.argv[1:]]
try:
    main()
finally:
    print("LOADED", *sys.modules, file=sys.stderr)
"""


def imported(*arguments, cwd, code=0):
    """The heavy modules that a command has imported when it ends."""
    run = [sys.executable, "-c", CODE, *map(str, arguments)]
    done = subprocess.run(run, capture_output=True, text=True, cwd=cwd, env=ONE_THREAD, check=False)
    assert done.returncode == code, done.stderr
    return HEAVY & set(done.stderr.rpartition("LOADED")[2].split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of numbers and categories, and a model of all experts."""
    folder = tmp_path_factory.mktemp("start")
    table = pd.DataFrame({"x": [1.0, 2.0, None, 4.0] * 15, "sex": list("fmmf") * 15, "y": list("pqpq") * 15})
    table.to_csv(folder / "table.csv", index=False)
    GaugeClassifier(epochs=1, random_state=0, verbose=False).fit(table, "y").save(folder / "model")
    return folder


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", "none.csv"],
        ["fit", "none.csv", "--target", "y", "--out", "new"],
        ["predict", "model", "none.csv"],
        ["predict", "none", "table.csv"],
        ["predict", "none.onnx", "table.csv"],
        ["evaluate", "model", "none.csv"],
        ["explain", "model", "none.csv", "--out", "page.html"],
    ],
)
def test_a_file_that_does_not_exist_is_reported_before_anything_heavy_is_imported(folder, arguments):
    assert imported(*arguments, cwd=folder, code=2) == set()


def test_inspecting_a_table_needs_no_torch(folder):
    assert imported("inspect", "table.csv", cwd=folder) <= {"pandas", "scipy"}


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_numbers_and_categories_are_predicted_without_the_libraries_of_training(folder, command):
    assert imported(command, "model", "table.csv", cwd=folder) <= {"torch", "pandas", "scipy"}
