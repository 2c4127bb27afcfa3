"""Write the lock files from the packages installed beside this Python: exact versions and the hashes of all their files.

requirements.lock holds what `make` needs, serve.lock what the Dockerfile needs of it. torch is in neither: its builds for
CPUs and for each CUDA are different files of one version, and the CUDA builds need further packages; torch.lock names the
version alone.
"""

import re
import subprocess
import sys
from importlib.metadata import requires, version
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
OPTIONS = ["--no-deps", "--generate-hashes", "--universal", "--python-version", "3.11", "--no-header", "--no-annotate"]
EXTRAS = {"requirements.lock": "dev", "serve.lock": "serve,onnx"}


def needed(requirement: str, known: dict[str, str]) -> dict[str, str]:
    """The installed version of every package that a requirement leads to in this environment."""
    wanted = Requirement(requirement)
    name = re.sub(r"[-_.]+", "-", wanted.name).lower()
    for extra in (*sorted(wanted.extras), ""):
        if (key := f"{name}[{extra}]") in known:
            continue
        known[key] = version(wanted.name)
        for each in requires(wanted.name) or []:
            marker = Requirement(each).marker
            if marker is None or marker.evaluate({"extra": extra}):
                needed(each, known)
    return known


for file, extras in EXTRAS.items():
    packages = {key.partition("[")[0]: value for key, value in needed(f"gauge-ml[{extras}]", {}).items()}
    del packages["gauge-ml"]
    torch = packages.pop("torch").partition("+")[0]
    compiled = subprocess.run(
        [sys.executable, "-m", "uv", "pip", "compile", "--quiet", *OPTIONS, "-"],
        input="\n".join(f"{name}=={number}" for name, number in sorted(packages.items())),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    (ROOT / file).write_text(f"# Written by `make lock`; torch is in torch.lock.\n{compiled.stdout}", encoding="utf-8")
(ROOT / "torch.lock").write_text(f"torch=={torch}\n", encoding="utf-8")
