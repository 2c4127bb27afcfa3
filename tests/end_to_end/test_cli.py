"""The command line as a newcomer meets it: real processes, real data, short training."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from helpers import ONE_THREAD, invoke, mistake, unchecked
from helpers import command as gauge
from pages import Page

from gauge.registry import load_plugin
from gauge.reports.page import render_report
from gauge.tabular import demo as tables
from gauge_lab import demo
from gauge_lab.cli.demo import demo_report
from gauge_lab.cli.reproduce import reproduce
from gauge_lab.results import read_results, write_results

DIGITS = Path(__file__).parents[1] / "digits.py"
PLUGIN, QUICK = ["--plugin", str(DIGITS)], ["--epochs", "1"]
BENCHMARK = ["benchmark", "digits", *PLUGIN, *QUICK]


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """A folder in which one GAUGE model was trained for an epoch."""
    folder = tmp_path_factory.mktemp("runs")
    invoke(*BENCHMARK, "--method", "gauge", "--protocol", "eta=0.8", cwd=folder)
    return folder


def test_help_starts_without_torch(tmp_path):
    names = "'torch' in sys.modules, 'pandas' in sys.modules, 'pydantic' in sys.modules"
    code = f"import sys, gauge, gauge.cli.main; print({names})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.split() == ["False", "False", "False"]
    assert "Start with `gauge demo --table`" in " ".join(gauge("--help", cwd=tmp_path).stdout.split())


def test_list_names_everything_also_for_machines(tmp_path):
    assert "taylor" in invoke("list", cwd=tmp_path).stdout
    listed = json.loads(invoke("list", "imputers", "--json", cwd=tmp_path).stdout)
    names = "iterative mean mopoe nearest oracle tip zero"
    assert " ".join(sorted(listed["imputers"])) == names


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["benchmark", "polymnist5"], "there is no benchmark 'polymnist5'; did you mean 'polymnist5k'?"),
        (["benchmark", "polymnist"], "polymnist needs data; give --data DIR"),
        (["benchmark", "polymnist5k", "--time-limit", "soon"], "limit 'soon' is not a duration; write for example 90s"),
        (["benchmark", "polymnist5k", "--method", "gage"], "there is no method 'gage'; did you mean 'gauge'?"),
        (["benchmark", "polymnist5k", "--method", "gauge:v9"], "there is no gauge variant 'v9'; known: masked, v1"),
        (["benchmark", "polymnist5k", "--protocol", "eta=0.5"], "eta=0.5 of 5 modalities is 2.5; choose a rate"),
        (["benchmark", "polymnist5k", "--protocol", "mostly"], "no missingness protocol 'mostly'; write complete"),
        (["benchmark", "polymnist5k", "--config", "absent.yaml"], "there is no file absent.yaml"),
        (["benchmark", "polymnist5k", "--device", "tpu9"], "there is no device 'tpu9'; use auto, cpu, cuda"),
        (["predict", "nowhere", "no.csv", "--device", "tpu9"], "there is no device 'tpu9'; use auto, cpu, cuda"),
        (["benchmark", "polymnist5k", "--device", "mps"], "mps was asked for, but this machine or this build"),
        (["benchmark", "polymnist5k", "--device", "cuda:99"], "cuda:99 was asked for, but torch sees"),
        (["stage", "evaluate", "nowhere"], "nowhere is not the folder of a trained method (no experiment.json)"),
        (["list", "methdos"], "there is no kind of component 'methdos'; did you mean 'methods'?"),
    ],
)
def test_a_mistake_is_reported_in_one_line_before_anything_trains(arguments, message, tmp_path):
    said = mistake(*arguments, cwd=tmp_path)
    assert message in said
    assert len(said.strip().splitlines()) == 1
    assert not list(tmp_path.rglob("*.safetensors"))


def test_a_benchmark_leaves_results_and_a_table_and_repeats_nothing(runs):
    workspace = runs / "runs" / "digits"
    (result,) = sorted((workspace / "results").glob("*.json"))
    content = json.loads(result.read_text())
    assert content["protocol"] == "eta=0.8"
    assert content["config"]["epochs"] == 1
    assert content["data"]["samples"] == 60
    assert sum(content["data"]["missing"].values()) == pytest.approx(4.0)
    assert "| gauge |" in (workspace / "table.md").read_text()
    before = {path: path.stat().st_mtime_ns for path in workspace.rglob("*.safetensors")}
    again = invoke(*BENCHMARK, "--method", "gauge", "--protocol", "eta=0.8", "--json", cwd=runs)
    assert json.loads(again.stdout)[0]["value"] == content["value"]
    assert {path: path.stat().st_mtime_ns for path in workspace.rglob("*.safetensors")} == before


def test_a_trained_model_is_evaluated_under_another_protocol(runs):
    (model,) = (runs / "runs" / "digits" / "stages").glob("gauge-s0-*")
    done = invoke("stage", "evaluate", str(model), *PLUGIN, "--protocol", "eta=0.2", cwd=runs)
    assert done.stdout.startswith("eta=0.2")
    assert "missing under eta=0.2: m0" in done.stdout


def test_the_evidence_of_a_trained_model_is_audited(runs):
    (model,) = (runs / "runs" / "digits" / "stages").glob("gauge-s0-*")
    audits = json.loads(
        invoke("stage", "audit", str(model), *PLUGIN, "--protocol", "eta=0.8", "--samples", "40", cwd=runs).stdout
    )
    assert audits[0]["samples"] == 40
    assert {"commit", "hardware", "fingerprint"} <= set(audits[0])
    assert "data" not in audits[0]
    assert 0 < audits[0]["gate_imputed"] < 1
    assert "gate" in audits[0]["separation"]


@pytest.mark.slow
def test_processes_side_by_side_use_what_one_has_trained(runs):
    command = [*BENCHMARK, "--method", "gauge", "--method", "any_subset", "--protocol", "every=0.8"]
    gauge(*command, "--jobs", "2", cwd=runs)
    workspace = runs / "runs" / "digits"
    before = (workspace / "results.json").read_text()
    assert before.count('"protocol": "every=0.8"') == 2
    gauge(*command, cwd=runs)  # the same, one after the other: nothing is evaluated again
    assert (workspace / "results.json").read_text() == before


MANIFEST = """
runs: {digits: {rows: [any_subset, gauge], seeds: 1, settings: settings.yaml, protocols: [eta=0.8], audits: [eta=0.8]}}
docs: {digits: {title: two rows, runs: [digits]}}
"""


def test_reproduce_runs_what_is_missing_only_and_keeps_the_rest(runs, tmp_path):
    load_plugin(DIGITS)
    stages = ("imputer", "backbone", "finetune", "experts")
    results, models = tmp_path / "results" / "digits", tmp_path / "runs" / "digits" / "stages"
    results.mkdir(parents=True)
    shutil.copytree(runs / "runs" / "digits" / "stages", models)
    (tmp_path / "results" / "manifest.yaml").write_text(MANIFEST)
    (tmp_path / "results" / "settings.yaml").write_text("\n".join(f"{each}: {{epochs: 1}}" for each in stages))
    reproduce("digits", results=tmp_path / "results", out=tmp_path / "runs")
    backbone, gated = read_results(results / "results.json")
    kept = gated.model_copy(update={"commit": "kept"})
    write_results(results / "results.json", [kept])
    (results / "audit.json").write_text((results / "audit.json").read_text().replace(gated.commit, "kept"))
    shutil.rmtree(models)
    reproduce("digits", results=tmp_path / "results", out=tmp_path / "runs")
    found = {str(each.row): each for each in read_results(results / "results.json")}
    assert found["gauge"] == kept
    assert found["any_subset"].value == backbone.value
    assert [each["commit"] for each in json.loads((results / "audit.json").read_text())] == ["kept"]
    assert {stage.name.split("-s")[0] for stage in models.iterdir()} == {"backbone"}


def test_an_interrupt_says_how_to_continue(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "gauge.cli", "benchmark", "polymnist5k"],
        cwd=tmp_path,
        env=ONE_THREAD,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (tmp_path / "runs").exists():
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130
    assert "run the same command again to continue" in said
    assert "Traceback" not in said


@pytest.fixture(scope="module")
def digit_questions(tmp_path_factory):
    """Those of the demo, on few samples."""
    load_plugin(DIGITS)
    with unchecked():
        return demo.run(tmp_path_factory.mktemp("demo"), ("sums", "hands"), epochs=1)


def table_questions():
    """Those of the demo, answered by its rivals; in the place of our classifier, by the mean of the two."""
    answered = {}
    for name, make in tables.TABLES.items():
        table, answers = make(), {}
        train, test = table.divided(0)
        rivals = tables.Rivals(table, train, seed=0)
        for rate in tables.RATES:
            given = rivals.predictions(table.with_blanks(test, rate, seed=1))
            answers[rate] = {"GaugeClassifier": sum(given.values()) / len(given)} | given
        classes = sorted(table.rows[table.target].unique())
        answered[name] = answers, np.array([classes.index(label) for label in test[table.target]])
    return tables.section(answered)


VERDICT = re.compile(
    r"(?P<where>[^,]+), (?P<first>.+) minus (?P<other>.+): (?P<difference>[+−][\d.]+) of 100 "
    r"\(95 % from (?P<low>[+−][\d.]+) to (?P<high>[+−][\d.]+), p [=<] (?P<p>[\d.]+)\): (?P<decided>.+)\."
)


def test_the_page_of_the_demo_has_all_parts_and_its_verdicts_follow_its_numbers(digit_questions):
    sections, facts = digit_questions
    report = demo_report((table_questions(), *sections), facts)
    page = Page(render_report(report))
    assert [each["id"] for tag, each in page.elements if tag == "h2" and "id" in each] == [
        f"section-{number}" for number in range(1, 5)
    ]
    assert "learned from the same 160 sums and predict the same 60 others" in page.text
    assert "learned from the same 160 digits and see the same views of the same 60 test digits" in page.text
    assert len(page.all("article")) == sum(len(section.samples) for section in sections)
    for section in report.sections:
        numbers = {row.name: [value for value, _, _ in row.cells] for row in section.rows}
        first = max(numbers, key=lambda name: numbers[name][-1])
        assert section.best.startswith(f"{first}: {numbers[first][-1]:.1f} of 100 right")
        verdicts = list(filter(None, map(VERDICT.fullmatch, section.findings)))
        assert len(verdicts) >= len(numbers) - 1
        for verdict in verdicts:
            column = 0 if verdict["where"] in ("With no cell blank", "With two images of each digit") else -1
            one, other = numbers[verdict["first"]][column], numbers[verdict["other"]][column]
            signed = {name: float(verdict[name].replace("−", "-")) for name in ("difference", "low", "high")}
            assert signed["difference"] == pytest.approx(one - other, abs=0.06)
            assert 0 <= signed["difference"] <= signed["high"]
            assert signed["low"] <= signed["difference"]
            decided = "too close to call" if float(verdict["p"]) > 0.05 else f"{verdict['first']} is better"
            assert verdict["decided"] == decided or verdict["p"] == "0.050"  # rounded
        for sentence in (section.title, section.asked, section.missing, section.best, *section.findings):
            assert " ".join(sentence.split()) in page.text
    assert all(value in page.text for value in facts.values())


def test_the_demo_runs_the_benchmark_that_comes_with_the_package(tmp_path):
    stopped = invoke("demo", "--epochs", "0", cwd=tmp_path, check=2)
    assert "epochs" in stopped.stderr
