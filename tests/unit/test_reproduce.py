"""The manifest covers the paper and the pages, and says truly what exists."""

import re
import runpy
import shutil
from functools import cache
from pathlib import Path

import pytest
from helpers import unchecked

from gauge.masks import parse_protocol
from gauge_lab import reproduce
from gauge_lab.benchmarks import BENCHMARKS
from gauge_lab.cli import reproduce as cli
from gauge_lab.cli.benchmark import Execution
from gauge_lab.experiment import Experiment
from gauge_lab.manifest import Entry, Manifest, Run, Shown
from gauge_lab.plans import plan_of
from gauge_lab.published import PUBLISHED
from gauge_lab.results import Result, read_results, write_results

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
MANIFEST = Manifest.from_folder(RESULTS)
RUNS = MANIFEST.runs
MADE = """
runs: {polymnist5k/made: {rows: [gauge], seeds: %d, protocols: [eta=0.8]}}
docs: {made: {title: made, runs: [polymnist5k/made]}}
"""


def test_every_generated_table_names_its_entry_of_the_manifest(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    tables = runpy.run_path(str(ROOT / "docs" / "generate.py"))["TABLES"]
    assert set(tables) == set(MANIFEST.docs)
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = {name for page in pages for name in re.findall(r"<!-- table: ([\w-]+) -->", page.read_text("utf-8"))}
    assert shown == set(MANIFEST.docs)


def test_every_result_belongs_to_a_row_seed_and_protocol_of_its_run():
    for name, run in RUNS.items():
        cells = {result.cell for result in reproduce.saved(run, RESULTS)}
        unplanned = cells - set(state(name).cells) if cells else set()
        assert {row for row, _, _ in unplanned} == set(), name


def test_the_manifest_covers_the_paper():
    tables = ("table-1", "table-2", "scoring", "normalization")
    assert {*tables, "table-3", "figure-gates", "figure-missing-rate", "figure-units"} <= MANIFEST.paper.keys()
    published = {(benchmark, row) for benchmark, rows in PUBLISHED.items() for row in rows}
    shown = {
        (benchmark, row)
        for name in tables
        for benchmark, part in MANIFEST.paper[name].shows.items()
        for row in part.rows
    }
    assert shown == published


@cache
def state(run):
    with unchecked():  # a million calls
        return reproduce.status(RUNS[run], RESULTS)


@pytest.mark.parametrize("name", [name for name, entry in MANIFEST.entries.items() if entry.shows])
def test_the_runs_of_an_entry_have_the_rows_seeds_and_protocols_that_it_shows(name):
    entry = MANIFEST.entries[name]
    states = {run: state(run) for run in entry.runs}
    assert reproduce.coverage(entry, RUNS, states).unplanned == {}
    for benchmark, shown in entry.shows.items():
        columns = {protocol for row in shown.rows for protocol in PUBLISHED[benchmark].get(row, ())}
        assert columns >= {*shown.protocols} or name.startswith("figure"), "the columns of a table are published ones"


def test_every_entry_needs_runs_and_scripts_that_exist():
    assert {run for entry in MANIFEST.entries.values() for run in entry.runs} == RUNS.keys()
    for entry in MANIFEST.entries.values():
        assert entry.runs or entry.scripts
        assert all((ROOT / script.split()[0]).is_file() for script in entry.scripts)


@pytest.mark.parametrize("name", RUNS)
def test_a_run_has_settings_rows_and_protocols_that_exist(name):
    run = RUNS[name]
    BENCHMARKS.get(run.benchmark).with_overrides(reproduce.settings_of(run, RESULTS))
    assert all(row.variant in plan_of(row.method).variants for row in reproduce.rows_of(run.rows))
    assert [str(parse_protocol(each)) for each in (*run.protocols, *run.audits)] == [*run.protocols, *run.audits]


def test_every_folder_of_results_is_in_the_manifest():
    folders = {str(path.parent.relative_to(RESULTS)) for path in RESULTS.rglob("results.json")}
    assert folders <= RUNS.keys()


def rewrite(folder, records):
    results = [Result.model_validate(record) for record in records]
    write_results(folder / "polymnist5k" / "made" / "results.json", results)


@pytest.fixture
def two_of_three(tmp_path):
    """A run of three results, of which one is missing."""
    cells = [("gauge", seed, "eta=0.8") for seed in range(2)]
    results = [result for result in read_results(RESULTS / "polymnist5k" / "results.json") if result.cell in cells]
    kept = [result.model_dump(mode="json") for result in results]
    (tmp_path / "polymnist5k" / "made").mkdir(parents=True)
    rewrite(tmp_path, kept)
    (tmp_path / "manifest.yaml").write_text(MADE % 3)
    return tmp_path, kept


@pytest.fixture
def made(two_of_three) -> Run:
    return Manifest.from_folder(two_of_three[0]).runs["polymnist5k/made"]


@pytest.mark.parametrize(
    ("shown", "missing", "unplanned"),
    [
        ({"rows": ["gauge"], "seeds": 2, "protocols": ["eta=0.8"]}, 0, ()),
        ({"rows": ["gauge"], "seeds": 3, "protocols": ["eta=0.8"]}, 1, ()),
        ({"rows": ["gauge"], "seeds": 4, "protocols": ["eta=0.8"]}, 1, ("gauge",)),
        ({"rows": ["gauge"], "seeds": 2}, 0, ("gauge",)),
        ({"rows": ["gauge", "dymo"], "seeds": 2, "protocols": ["eta=0.8"]}, 0, ("dymo",)),
    ],
)
def test_an_entry_is_complete_if_all_that_it_shows_was_measured(made, two_of_three, shown, missing, unplanned):
    entry = Entry(title="made", runs=(made.name,), shows={"polymnist5k": Shown(**shown)})
    covered = reproduce.coverage(entry, {made.name: made}, {made.name: reproduce.status(made, two_of_three[0])})
    assert len(covered.missing.get("polymnist5k", ())) == missing
    assert covered.unplanned.get("polymnist5k", ()) == unplanned
    assert covered.is_complete == (not missing and not unplanned)


def test_results_are_older_if_the_code_of_their_training_has_changed(made, two_of_three):
    folder, records = two_of_three
    experiment = Experiment(benchmark="polymnist5k", seed=1)
    code = experiment.stage(experiment.configured()).code
    records[0]["trained"] = {"commit": "a" * 40, "code": "0" * 12}
    records[1] |= {"seed": 1, "trained": {"commit": "a" * 40, "code": code}}
    records.append({**records[1], "trained": {"commit": "not recorded"}})
    rewrite(folder, records)
    assert reproduce.ages(made, folder) == {"older": 1, "current": 1, "not recorded": 1}


def test_what_is_missing_is_run_as_the_manifest_says(two_of_three, monkeypatch):
    folder, asked = two_of_three[0], []
    monkeypatch.setattr(cli, "compare", lambda *given, **named: asked.append((given, named)))
    cli.reproduce("made", results=folder, out=folder / "runs", jobs=2)
    (experiments, *given), named = asked[0]
    assert [(str(each.row), each.seed) for each in experiments] == [("gauge", 2)]
    execution = Execution(folder / "runs" / "polymnist5k", folder / "polymnist5k" / "made", jobs=2)
    assert given == [("eta=0.8",), execution]
    assert [each.cell for each in named["kept"]] == [("gauge", 0, "eta=0.8"), ("gauge", 1, "eta=0.8")]
    (folder / "manifest.yaml").write_text(MADE % 2)
    cli.reproduce("made", results=folder, out=folder / "runs")
    assert len(asked) == 1, "nothing is missing"


def test_mistakes_are_explained(tmp_path):
    with pytest.raises(ValueError, match="name what to reproduce; `gauge reproduce --list`"):
        cli.reproduce()
    with pytest.raises(ValueError, match=r"does not exist: .* not in the installed package; .* --results DIR"):
        cli.reproduce("table-1", results=tmp_path)
    with pytest.raises(ValueError, match="there is no entry of the manifest 'table-9'"):
        cli.reproduce("table-9", results=RESULTS)
    shutil.copy(RESULTS / "manifest.yaml", tmp_path)
    with pytest.raises(ValueError, match=r"gates.py needs data; give --data DIR"):
        cli.reproduce("figure-gates", results=tmp_path)
    (tmp_path / "manifest.yaml").write_text("groups: {few: [gauge]}\nruns: {polymnist5k: {rows: [$fwe], seeds: 1}}")
    with pytest.raises(ValueError, match="there is no group in the manifest 'fwe'; did you mean 'few'?"):
        cli.reproduce("polymnist", results=tmp_path)
