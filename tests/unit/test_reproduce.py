"""The manifest covers the paper and the pages, and says truly what exists."""

import json
import re
import runpy
from pathlib import Path

import pytest

from gauge.cli import reproduce as cli
from gauge.experiments import manifest, reproduce
from gauge.experiments.benchmarks import BENCHMARKS, Overrides
from gauge.experiments.experiment import Experiment
from gauge.experiments.manifest import DOCS, MANIFEST, PAPER, RUNS, Run
from gauge.experiments.plans import plan_of
from gauge.experiments.published import PUBLISHED
from gauge.masks import parse_protocol

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


def test_every_generated_table_names_its_entry_of_the_manifest(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    tables = runpy.run_path(str(ROOT / "docs" / "generate.py"))["TABLES"]
    assert set(tables) == set(DOCS)
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = {name for page in pages for name in re.findall(r"<!-- table: ([\w-]+) -->", page.read_text("utf-8"))}
    assert shown == set(DOCS)


def test_the_manifest_covers_the_paper():
    assert {"table-1", "table-2", "table-3", "scoring", "normalization"} <= PAPER.keys()
    assert {"figure-gates", "figure-missing-rate", "figure-units"} <= PAPER.keys()
    tried = {RUNS[run].benchmark for run in PAPER["table-1"].runs}
    assert tried == set(PUBLISHED), "Table 1 has all six benchmarks"


def test_every_entry_needs_runs_and_scripts_that_exist():
    assert {run for entry in MANIFEST.values() for run in entry.runs} == RUNS.keys()
    for entry in MANIFEST.values():
        assert entry.runs or entry.scripts
        assert all((ROOT / script.split()[0]).is_file() for script in entry.scripts)


@pytest.mark.parametrize("name", RUNS)
def test_a_run_has_settings_rows_and_protocols_that_exist(name):
    run = RUNS[name]
    BENCHMARKS.get(run.benchmark).with_overrides(reproduce.settings_of(run, RESULTS))
    assert all(row.variant in plan_of(row.method).variants for row in reproduce.rows_of(run.rows))
    assert [str(parse_protocol(each)) for each in (*run.protocols, *run.audits)] == [*run.protocols, *run.audits]
    assert name.partition("/")[0] == run.benchmark


def test_every_folder_of_results_is_in_the_manifest():
    folders = {str(path.parent.relative_to(RESULTS)) for path in RESULTS.rglob("results.json")}
    assert folders <= RUNS.keys()


@pytest.fixture
def two_of_three(tmp_path, monkeypatch):
    """A run of three results, of which one is missing."""
    monkeypatch.setitem(RUNS, "polymnist5k/made", Run("polymnist5k", ("gauge",), 3, protocols=("eta=0.8",)))
    monkeypatch.setitem(manifest.MANIFEST, "made", manifest.Entry("made", ("polymnist5k/made",)))
    records = json.loads((RESULTS / "polymnist5k" / "results.json").read_text())
    kept = [r for r in records if r["variant"] == "gauge" and r["protocol"] == "eta=0.8" and r["seed"] < 2]
    (tmp_path / "polymnist5k" / "made").mkdir(parents=True)
    (tmp_path / "polymnist5k" / "made" / "results.json").write_text(json.dumps(kept))
    return tmp_path, kept


def test_status_names_what_is_missing(two_of_three):
    state = reproduce.status("polymnist5k/made", two_of_three[0])
    assert (state.expected, state.missing) == (3, (("gauge", 2, "eta=0.8"),))
    assert state.machines == ("CPU",)
    assert state.minutes > 0
    assert state.more is None, "older files do not have the number of training rows"


def test_what_is_missing_has_an_estimate_by_the_speed_of_the_benchmark(two_of_three):
    folder, records = two_of_three
    for record in records:
        record["config"] |= {"epochs": 10, "train_rows": 6000, "train_seconds": 60.0}
    (folder / "polymnist5k" / "made" / "results.json").write_text(json.dumps(records))
    missing = Experiment(benchmark="polymnist5k", seed=2)
    epochs = sum(stage.settings.epochs for stage in missing.stage(missing.configured()).all())
    estimate = reproduce.status("polymnist5k/made", folder).more
    assert (estimate.minutes, estimate.machine) == (pytest.approx(epochs / 10), "CPU")


def test_results_are_older_if_the_code_of_their_training_has_changed(two_of_three):
    folder, records = two_of_three
    experiment = Experiment(benchmark="polymnist5k", seed=1)
    code = experiment.stage(experiment.configured()).code
    records[0]["trained"] = {"commit": "a" * 40, "code": "0" * 12}
    records[1] |= {"seed": 1, "trained": {"commit": "a" * 40, "code": code}}
    records.append({**records[1], "trained": {"commit": "not recorded"}})
    (folder / "polymnist5k" / "made" / "results.json").write_text(json.dumps(records))
    assert reproduce.ages("polymnist5k/made", folder) == {"older": 1, "current": 1, "not recorded": 1}


def test_what_is_missing_is_run_as_the_manifest_says(two_of_three, monkeypatch):
    folder, asked = two_of_three[0], []
    monkeypatch.setattr(cli, "compare", lambda *given, **named: asked.append((given, named)))
    cli.reproduce("made", results=folder, out=folder / "runs", jobs=2)
    (experiments, *given), named = asked[0]
    assert [(str(each.row), each.seed) for each in experiments] == [("gauge", 2)]
    assert given == [("eta=0.8",), folder / "runs" / "polymnist5k", folder / "polymnist5k" / "made"]
    assert [each.cell for each in named["kept"]] == [("gauge", 0, "eta=0.8"), ("gauge", 1, "eta=0.8")]
    monkeypatch.setitem(RUNS, "polymnist5k/made", Run("polymnist5k", ("gauge",), 2, protocols=("eta=0.8",)))
    cli.reproduce("made", results=folder, out=folder / "runs")
    assert len(asked) == 1, "nothing is missing"


def test_mistakes_are_explained(tmp_path):
    with pytest.raises(ValueError, match="say what to reproduce; `gauge reproduce --list`"):
        cli.reproduce()
    with pytest.raises(ValueError, match="there is no entry of the manifest 'table-9'"):
        cli.reproduce("table-9")
    with pytest.raises(ValueError, match=r"perf/gates.py needs data; give --data DIR"):
        cli.reproduce("figure-gates", results=tmp_path)
    with pytest.raises(ValueError, match=r"the settings .*cosine.yaml do not exist; run this in a checkout"):
        cli.reproduce("polymnist", results=tmp_path)
    with pytest.raises(ValueError, match=r"perf/imputation.py needs data; give --data DIR"):
        cli.reproduce("leaf99-imputation", results=tmp_path)


def test_settings_of_a_run_are_those_of_its_file():
    assert reproduce.settings_of(RUNS["polymnist/labels256"], RESULTS).labels == 256
    assert reproduce.settings_of(RUNS["polymnist/gates50"], RESULTS).finetune.gate_rate == 50
    assert reproduce.settings_of(RUNS["ham10000"], RESULTS) == Overrides()
