"""The examples run as they stand and say what they promise: one after the other in a process, which imports torch once."""

import json
import re
from pathlib import Path

import pytest
from helpers import ONE_THREAD, python

EXAMPLES = Path(__file__).parents[2] / "examples"
TESTED = ["own_backbone.py", "own_dataset.py", "own_imputer.py", "inspect_gates.py"]
SCRIPT = """
import io, json, runpy, sys, torch
from contextlib import redirect_stdout
seed, printed = torch.initial_seed(), {}
for path in sys.argv[1:]:
    torch.manual_seed(seed)  # as in a new process
    with redirect_stdout(io.StringIO()) as out:
        runpy.run_path(path, run_name="__main__")
    printed[path] = out.getvalue()
print(json.dumps(printed))
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory) -> dict[str, str]:
    """What every example prints."""
    paths = [str(EXAMPLES / name) for name in TESTED]
    environment = ONE_THREAD | {"PYTHONPATH": str(EXAMPLES.parent / "src")}
    done = python("-c", SCRIPT, *paths, cwd=tmp_path_factory.mktemp("examples"), env=environment)
    return {Path(path).name: printed for path, printed in json.loads(done.stdout).items()}


def test_every_example_is_tested():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(TESTED)


@pytest.mark.parametrize("name", ["own_dataset.py", "own_imputer.py", "inspect_gates.py"])
def test_an_example_fits_one_screen(name):
    assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) <= 40


def test_own_dataset_is_far_better_than_the_larger_class_also_with_most_of_it_missing(output):
    printed = output["own_dataset.py"]
    accuracy = {protocol: float(value) for protocol, value in re.findall(r"(\S+) +accuracy ([\d.]+)", printed)}
    assert list(accuracy) == ["complete", "gamma-per-sample=0.5", "missing=mean", "missing=mean+worst"]
    assert accuracy["complete"] > 0.9
    assert min(accuracy.values()) > 0.8  # the larger class: 0.63


def test_inspect_gates_shows_every_unit(output):
    head, *rest = output["inspect_gates.py"].splitlines()
    assert int(head.split("%")[0]) > 80
    rows = [line.split() for line in rest[1:]]
    assert len(rows) == 13
    assert [row[1] for row in rows].count("imputed") == 5
    assert all(0 < float(row[3]) < 1 for row in rows)
    before, after = (sum(float(row[column]) for row in rows) for column in (4, 6))
    assert 0 < before < 1.01
    assert 0 < after < 1.01


def test_own_imputer_is_closer_than_the_mean_and_its_model_bears_a_missing_view(output):
    printed = output["own_imputer.py"]
    error = {name: float(value) for name, value in re.findall(r"(\w+) +is off by ([\d.]+)", printed)}
    assert error["Regression"] < error["Mean"] / 4
    accuracy = [float(value) for value in re.findall(r"accuracy ([\d.]+)", printed)]
    assert len(accuracy) == 3
    assert min(accuracy) > 0.8
