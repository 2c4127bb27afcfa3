"""Uses an installed copy of the package, away from its sources: help, lists, and a tiny fit, predict and explain."""

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd

import gauge
from gauge.tabular.evidence.explanation import PAGE_TITLE


def run(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "gauge.cli", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


assert Path(gauge.__file__).parent.parent == Path("installed").resolve(), gauge.__file__
assert "benchmark" in run("--help")
assert "polymnist5k" in run("list", "benchmarks")
ages, labels = [31, None, 67, 58] * 10, ["well", "well", "ill", "ill"] * 10
pd.DataFrame({"age": ages, "smokes": ["no", "yes", None, "yes"] * 10, "label": labels}).to_csv("table.csv", index=False)
run("fit", "table.csv", "--target", "label", "--out", "model", "--epochs", "1")
assert run("predict", "model", "table.csv").count("\n") == 41
run("explain", "model", "table.csv", "--out", "evidence.html")
assert PAGE_TITLE in Path("evidence.html").read_text(encoding="utf-8")
Path("mistakes.py").write_text(
    "import gauge\n\ngauge.NoSuchThing\ngauge.GaugeClassifier(epohcs=3)\ngauge.GaugeClassifier().predcit([])\n",
    encoding="utf-8",
)
# without the types of other packages, which take mypy most of a minute to read
options = ["--no-site-packages", "--ignore-missing-imports", "--follow-imports", "silent", "--cache-dir", "mypy"]
checked = subprocess.run(
    [sys.executable, "-m", "mypy", *options, "mistakes.py"],
    env=os.environ | {"MYPYPATH": "installed"},
    capture_output=True,
    text=True,
    check=False,
)
assert "mistakes.py:3: error: Module has no attribute" in checked.stdout, checked.stdout + checked.stderr
assert 'mistakes.py:4: error: Unexpected keyword argument "epohcs"' in checked.stdout, checked.stdout
assert 'mistakes.py:5: error: "GaugeClassifier" has no attribute "predcit"' in checked.stdout, checked.stdout
print(f"gauge-ml {gauge.__version__} works as a wheel")
