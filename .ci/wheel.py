"""Uses an installed copy of the package, away from its sources: help, lists, and a tiny fit, predict and explain."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pandas as pd

import gauge

# Links to all packages but the laboratory, which the environment of a clone has installed: -S leaves that environment out.
packages = Path("packages")
packages.mkdir()
for installed in Path(sysconfig.get_path("purelib")).iterdir():
    if "gauge" not in installed.name:
        (packages / installed.name).symlink_to(installed)


def run(*arguments: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-S", "-m", "gauge.cli", *arguments],
        env=os.environ | {"PYTHONPATH": f"{Path('installed').resolve()}{os.pathsep}{packages.resolve()}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


assert Path(gauge.__file__).parent.parent == Path("installed").resolve(), gauge.__file__
assert not list(Path("installed").glob("gauge_lab*")), "the laboratory is not part of the wheel"
assert "mopoe" in run("list", "imputers")
for command in (["benchmark", "polymnist5k", "--seeds", "3"], ["reproduce", "--list"], ["demo"]):
    assert "belongs to the laboratory" in run(*command, code=2)
ages, labels = [31, None, 67, 58] * 10, ["well", "well", "ill", "ill"] * 10
pd.DataFrame({"age": ages, "smokes": ["no", "yes", None, "yes"] * 10, "label": labels}).to_csv("table.csv", index=False)
run("fit", "table.csv", "--target", "label", "--out", "model", "--epochs", "1")
assert run("predict", "model", "table.csv").count("\n") == 41
run("explain", "model", "table.csv", "--out", "evidence.html")
assert "Which evidence was used" in Path("evidence.html").read_text(encoding="utf-8")
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
