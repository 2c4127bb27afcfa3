"""What surrounds the package: lock files, the workflow and the Dockerfile agree with pyproject.toml and the Makefile."""

import json
import os
import re
import shlex
import subprocess
import sys
import time
import tomllib
import urllib.request
from pathlib import Path

import pandas as pd
import pytest
import yaml
from packaging.requirements import Requirement

from gauge import GaugeClassifier
from gauge.cli.main import app

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PIN = re.compile(r"^([a-z0-9-]+)==([^ ;]+)(.*?)(?=^[a-z]|\Z)", re.MULTILINE | re.DOTALL)


def pins(name: str) -> dict[str, str]:
    """The version of every package in a lock file; each has a hash."""
    found = {}
    for package, number, rest in PIN.findall((ROOT / name).read_text(encoding="utf-8")):
        assert "--hash=sha256:" in rest, package
        found[package] = number
    return found


@pytest.mark.parametrize(("lock", "extras"), [("requirements.lock", ["dev"]), ("serve.lock", ["serve", "onnx"])])
def test_a_lock_file_holds_all_that_the_project_names_in_versions_it_allows(lock, extras):
    torch = (ROOT / "torch.lock").read_text(encoding="utf-8").strip().partition("==")[2]
    pinned = pins(lock) | {"torch": torch}
    optional = PROJECT["optional-dependencies"]
    extras = [*extras, *(each for name in extras for own in optional[name] for each in Requirement(own).extras)]
    for line in [*PROJECT["dependencies"], *(line for extra in extras for line in optional[extra])]:
        wanted = Requirement(line)
        name = re.sub(r"[-_.]+", "-", wanted.name).lower()
        if name != "gauge-ml":
            assert pinned[name] in wanted.specifier, line


def test_pip_the_command_the_site_and_the_citation_say_the_same():
    for name in ("mkdocs.yml", "CITATION.cff"):
        assert f'"{PROJECT["description"]}"' in (ROOT / name).read_text(encoding="utf-8"), name
    assert app.info.help.startswith(PROJECT["description"])


def test_what_is_served_is_what_was_tested():
    assert pins("serve.lock").items() <= pins("requirements.lock").items()


def test_every_step_of_the_workflow_is_a_target_of_the_makefile():
    text = (ROOT / ".github" / "workflows" / "checks.yml").read_text(encoding="utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    (phony,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    versions = set()
    for job in jobs.values():
        matrix = job["strategy"]["matrix"]
        rows = [*({"target": each} for each in matrix["target"]), *matrix.get("include", [])]
        assert {row["target"] for row in rows} <= set(phony.split())
        versions |= {row["python"] for row in rows if row.get("target") == "test"}
        assert [step["run"] for step in job["steps"] if "run" in step] == ["make ${{ matrix.target }}"]
    classifiers = {each.rpartition(" ")[2] for each in PROJECT["classifiers"] if "Python :: 3." in each}
    assert versions == classifiers


def dockerfile() -> list[tuple[str, str]]:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines if not line.startswith("#"))]


def test_the_dockerfile_is_pinned_and_copies_what_exists():
    steps = dockerfile()
    word, image = steps[0]
    assert word == "FROM"
    version = re.fullmatch(r"python:(3\.\d+)\.\d+-slim-\w+", image)
    assert version, image
    assert f"Programming Language :: Python :: {version[1]}" in PROJECT["classifiers"]
    assert "--extra-index-url" not in str(steps)
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = [name for word, rest in steps if word == "COPY" for name in rest.split()[:-1]]
    assert set(copied) == kept
    assert all((ROOT / name).exists() for name in copied)


@pytest.mark.slow
def test_the_steps_of_the_dockerfile_lead_to_a_healthy_server(tmp_path):
    """In a new environment instead of a container; packages come from where this machine has them, and no user is added."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    source, model = tmp_path / "source", tmp_path / "model"
    source.mkdir()
    frame = pd.DataFrame({"x": [0.5, 1.5, 2.0] * 20, "y": [0, 1] * 30})
    GaugeClassifier(epochs=1, verbose=False).fit(frame, "y").save(model)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PATH"] = f"{tmp_path / 'env' / 'bin'}:{environment['PATH']}"
    check, server = [], None
    for word, rest in dockerfile():
        if word == "COPY":
            *names, target = rest.split()
            subprocess.run(["cp", "-r", *names, source / target], cwd=ROOT, check=True)
        elif word == "RUN" and not rest.startswith("useradd"):
            command = re.sub(r"--index-url \S+ ", "", rest).replace("/source", shlex.quote(str(source)))
            subprocess.run(command, shell=True, cwd=source, env=environment, check=True)
        elif word == "HEALTHCHECK":
            check = json.loads(rest.removeprefix("CMD "))
        elif word == "CMD":
            command = [str(model) if each == "/model" else each for each in json.loads(rest)]
            server = subprocess.Popen(["env", *command], cwd=tmp_path, env=environment)
    try:
        deadline = time.monotonic() + 120
        while subprocess.run(["env", *check], env=environment, stderr=subprocess.DEVNULL, check=False).returncode:
            assert time.monotonic() < deadline
            assert server.poll() is None
            time.sleep(1)
        with urllib.request.urlopen("http://127.0.0.1:8000/health") as answer:
            assert "model" in json.load(answer)
    finally:
        server.terminate()
        server.wait()
