"""The command line as a newcomer meets it: real processes, real data, short training."""

import json
import os
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

from gauge import __version__
from gauge.registry import load_plugin
from gauge.reports.page import render_report
from gauge.tabular import demo as tables
from gauge.training.checkpoint import load
from gauge_lab import demo
from gauge_lab.benchmarks import Overrides
from gauge_lab.cli.reproduce import reproduce
from gauge_lab.experiment import Experiment
from gauge_lab.results import read_results, write_results
from gauge_lab.workspace import Workspace

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
    assert "Start with `gauge demo`" in gauge("--help", cwd=tmp_path).stdout


def test_commands_are_in_groups_and_python_m_gauge_is_the_command(tmp_path):
    printed = gauge("--help", cwd=tmp_path).stdout
    assert (
        printed.index("Your tables") < printed.index("inspect") < printed.index("Research") < printed.index("benchmark")
    )
    command = [sys.executable, "-m", "gauge", "-V"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == f"gauge-ml {__version__}\n"


def test_list_names_everything_also_for_machines(tmp_path):
    assert "taylor" in invoke("list", cwd=tmp_path).stdout
    listed = json.loads(invoke("list", "imputers", "--json", cwd=tmp_path).stdout)
    assert set(listed["imputers"]) == {
        "iterative",
        "masked_columns",
        "mean",
        "mopoe",
        "nearest",
        "oracle",
        "tip",
        "zero",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["benchmark", "polymnist5"], "there is no benchmark 'polymnist5'; did you mean 'polymnist5k'?"),
        (["benchmark", "polymnist"], "polymnist needs data; give --data DIR"),
        (
            ["benchmark", "polymnist5k", "--time-limit", "soon"],
            "time limit 'soon' is not a duration; write for example 90s",
        ),
        (["benchmark", "polymnist5k", "--method", "gage"], "there is no method 'gage'; did you mean 'gauge'?"),
        (["benchmark", "polymnist5k", "--method", "gauge:v9"], "there is no gauge variant 'v9'; known: masked, v1"),
        (["benchmark", "polymnist5k", "--protocol", "eta=0.5"], "eta=0.5 of 5 modalities is 2.5; choose a rate"),
        (["benchmark", "polymnist5k", "--protocol", "mostly"], "no missingness protocol 'mostly'; write complete"),
        (["benchmark", "polymnist5k", "--config", "absent.yaml"], "absent.yaml cannot be read as YAML"),
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
        invoke(
            "stage", "audit", str(model), *PLUGIN, "--protocol", "eta=0.8", "--samples", "40", "--json", cwd=runs
        ).stdout
    )
    assert audits[0]["samples"] == 40
    assert {"commit", "hardware", "fingerprint"} <= set(audits[0])
    assert "data" not in audits[0]
    assert 0 < audits[0]["gate_imputed"] < 1
    assert "gate" in audits[0]["separation"]


def test_the_units_of_a_sample_are_listed_by_name(runs):
    (model,) = (runs / "runs" / "digits" / "stages").glob("gauge-s0-*")
    lines = invoke(
        "stage", "gates", str(model), *PLUGIN, "--protocol", "eta=0.8", "--sample", "7", cwd=runs
    ).stdout.splitlines()
    assert lines[0].split()[:6] == ["sample", "modality", "unit", "state", "score", "gate"]
    assert len(lines) == 1 + 5 * 4
    assert sum("imputed" in line for line in lines) == 4 * 4
    assert all(line.split()[0] == "7" for line in lines[1:])


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


def test_a_time_limit_stops_at_a_checkpoint_and_says_how_to_continue(tmp_path):
    done = invoke("benchmark", "digits", *PLUGIN, "--time-limit", "1s", cwd=tmp_path, check=75)
    assert "stopped after 1s, results so far: 0; run the same command again to continue" in done.stderr
    assert list(tmp_path.glob("runs/digits/stages/*/last.safetensors"))


@pytest.mark.slow
def test_a_time_limit_leaves_a_table_of_what_is_finished(runs, tmp_path):
    rows = ["--method", "gauge", "--method", "moddrop", "--protocol", "eta=0.8"]
    limit = ["--time-limit", "1s", "--save", str(tmp_path)]
    done = gauge(*BENCHMARK, *rows, *limit, cwd=runs, check=75)
    assert "stopped after 1s, results so far: 1; run the same command again to continue" in done.stderr
    assert "| gauge |" in done.stdout
    assert [str(result.row) for result in read_results(tmp_path / "results.json")] == ["gauge"]
    assert not (tmp_path / "comparison.json").exists()  # one row has nothing to be compared with


def test_a_folder_that_holds_no_such_model_is_not_trained_by_evaluate(runs, tmp_path):
    (model,) = (runs / "runs" / "digits" / "stages").glob("gauge-s0-*")
    moved = tmp_path / "stages" / "elsewhere"
    moved.mkdir(parents=True)
    (moved / "experiment.json").write_text((model / "experiment.json").read_text())
    assert "or was moved; run `gauge benchmark" in mistake("stage", "evaluate", str(moved), *PLUGIN, cwd=tmp_path)
    assert list((tmp_path / "stages").iterdir()) == [moved]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("finetune: 20", "settings.yaml: finetune: Input should be a valid dictionary"),
        ("finetune: {seed: 7}", "finetune: Value error, seed cannot be overridden; the experiment and the benchmark"),
        ("finetune: {metric: auc}", "finetune: Value error, metric cannot be overridden; the experiment and the"),
        ("finetun: {epochs: 7}", "finetun: Extra inputs are not permitted, did you mean 'finetune'?"),
        ("finetune: {epoch: 7}", "finetune.epoch: Extra inputs are not permitted, did you mean 'epochs'?"),
        ("finetune: {masks: missing=nope}", "missing=nope names ['nope'], but the modalities are"),
        (
            "tuning: {epochs: 7}",
            "settings.yaml: tuning: Extra inputs are not permitted (settings: imputer, pretrain",
        ),
    ],
)
def test_a_wrong_settings_file_is_reported_before_anything_trains(settings, message, tmp_path):
    (tmp_path / "settings.yaml").write_text(settings)
    assert message in mistake("benchmark", "polymnist5k", "--config", "settings.yaml", cwd=tmp_path)
    assert not list(tmp_path.rglob("*.safetensors"))


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


@pytest.mark.slow
def test_a_killed_benchmark_continues_and_ends_like_the_uninterrupted_one(runs, tmp_path):
    command = [*BENCHMARK, "--method", "gauge", "--protocol", "eta=0.8"]
    process = subprocess.Popen(
        [sys.executable, "-m", "gauge.cli", *command], cwd=tmp_path, env=ONE_THREAD, stderr=subprocess.DEVNULL
    )
    stages = tmp_path / "runs" / "digits" / "stages"
    deadline = time.monotonic() + 200
    while not list(stages.glob("backbone-*/*.safetensors")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    gauge(*command, cwd=tmp_path)
    load_plugin(DIGITS)
    experiment = Experiment(benchmark="digits", overrides=Overrides().with_epochs(1))
    jobs = [Workspace(folder / "runs" / "digits", "cpu").job(experiment) for folder in (runs, tmp_path)]
    weights = [load(job.model_path)[0] for job in jobs]
    assert weights[0].keys() == weights[1].keys()
    assert all(bool((weights[0][name] == weights[1][name]).all()) for name in weights[0])


@pytest.fixture(scope="module")
def digit_questions(tmp_path_factory):
    """Those of the demo, on few samples."""
    load_plugin(DIGITS)
    with unchecked():
        return demo.run(tmp_path_factory.mktemp("demo"), ("sums", "hands"), epochs=1)


def test_the_demo_asks_for_sums_and_about_missing_and_wrong_views(digit_questions):
    sections, facts = digit_questions
    sums, missing, wrong = sections
    assert [[row.name for row in section.rows] for section in sections] == [
        ["GAUGE+", "Vote", "GAUGE"],
        ["GAUGE+", "Vote"],
        ["GAUGE+", "Vote"],
    ]
    outcomes = [[answer == sample.label for answer, _ in sample.answers.values()] for sample in sums.samples]
    assert 1 < len(outcomes) == len({tuple(each) for each in outcomes}) <= demo.SHOWN
    shares = [float(re.search(r"answered like (\d+) of 100$", sample.title)[1]) for sample in sums.samples]
    assert shares == sorted(shares, reverse=True)
    for sample in sums.samples:
        shown = [view.image is not None for view in sample.views]
        assert (sum(shown[:2]), sum(shown[2:])) == (1, 1), "one image of each digit"
        assert all(view.image.shape == (14, 14, 3) for view in sample.views if view.image is not None)
    assert missing.findings[0].startswith("With four of five views missing, ")
    assert wrong.findings[0].startswith("A right view is trusted more than a wrong one in ")
    views = [view for sample in missing.samples for view in sample.views]
    assert [view.image is None for view in views].count(False) == len(missing.samples) == demo.SHOWN
    assert all(view.trust is None for view in views)
    doubted = [view for sample in wrong.samples for view in sample.views]
    assert [view.wrong for view in doubted].count(True) == 2 * len(wrong.samples)
    assert all(0 <= view.trust <= 1 for view in doubted)
    assert re.fullmatch(r"[0-9a-f]{40}(\+changes)?", facts["commit"])


def table_questions():
    """Those of the demo, answered by its rivals; in the place of our classifier, by the mean of the two."""
    answered = {}
    for name, make in tables.TABLES.items():
        table, answers = make(), {}
        train, test = table.divided(0)
        rivals = tables.Rivals(table, train, seed=0)
        for rate in tables.RATES:
            given = rivals.answers(table.with_blanks(test, rate, seed=1))
            answers[rate] = {"GaugeClassifier": sum(given.values()) / len(given)} | given
        classes = sorted(table.rows[table.target].unique())
        answered[name] = answers, np.array([classes.index(label) for label in test[table.target]])
    return tables.section(answered)


VERDICT = re.compile(
    r"(?P<where>[^,]+), (?P<first>.+) minus (?P<other>.+): (?P<difference>[+−][\d.]+) right answers in 100 "
    r"\(95 % from (?P<low>[+−][\d.]+) to (?P<high>[+−][\d.]+), p [=<] (?P<p>[\d.]+)\): (?P<decided>.+)\."
)


def test_the_page_of_the_demo_has_all_parts_and_its_verdicts_follow_its_numbers(digit_questions):
    sections, facts = digit_questions
    report = demo_report((*sections, table_questions()), facts)
    page = Page(render_report(report))
    assert [each["id"] for tag, each in page.elements if tag == "h2" and "id" in each] == [
        "section-1",
        "section-2",
        "section-3",
        "section-4",
    ]
    assert "learned from the same 160 sums and answer the same 60 others" in page.text
    assert "learned from the same 160 digits and see the same views of the same 60 test digits" in page.text
    assert len(page.all("article")) == sum(len(section.samples) for section in sections)
    assert len(page.all("figure")) == 1
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
