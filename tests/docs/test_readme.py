"""The README keeps its word: its code runs, its tables are those of the committed results; the file map is the tree."""

import json
import re
import runpy
from collections.abc import Iterator

import pytest
from helpers import unchecked

from gauge_lab.manifest import Manifest
from gauge_lab.results import read_results


def test_its_code_prints_what_it_shows(page, cars, capsys, monkeypatch):
    """But for the last digits, which other processors round in other ways."""
    monkeypatch.chdir(cars)
    page("README.md").run()
    shown = re.search(r"^```text\n(.*?)^```$", page("README.md").text, re.MULTILINE | re.DOTALL)[1]
    words = [text.split() for text in (shown, capsys.readouterr().out)]
    for one, other in zip(*words, strict=True):
        number = re.fullmatch(r"-?\d\.\d\d", one)
        assert (float(other) == pytest.approx(float(one), abs=0.1)) if number else one == other


def test_one_address_is_left_for_a_release_to_fill_in(root):
    files = ("README.md", "pyproject.toml", "mkdocs.yml", "CITATION.cff")
    hosts = {host for name in files for host in re.findall(r"https?://([\w.-]+)", (root / name).read_text("utf-8"))}
    assert hosts - {"download.pytorch.org"} == {"gauge.example"}


def test_it_is_short_and_names_both_commands_which_exist(page, root):
    readme, makefile = page("README.md").text, (root / "Makefile").read_text()
    assert len(readme.splitlines()) <= 95
    for target in ("demo", "test"):
        assert f"make {target}" in readme
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_every_command_of_the_command_line_is_shown(page):
    from gauge.cli.main import app

    names = {command.name or command.callback.__name__ for command in app.registered_commands}
    names |= {group.name for group in app.registered_groups}
    assert set(re.findall(r"(?:^gauge |`)(\w+)", page("README.md").text, re.MULTILINE)) >= names


def mapped(text: str) -> Iterator[tuple[str, str]]:
    """(path, words) of every line of the file map."""
    block = re.search(r"## File map\n+```\n(.*?)```", text, re.DOTALL)[1]
    parent = ""
    for line in block.splitlines():
        name, _, words = line.strip().partition(" ")
        if not line.startswith(" "):
            parent = name
        yield (parent + name if line.startswith(" ") else name), words.strip()


def test_the_file_map_is_the_tree(page, root):
    listed = dict(mapped(page("CONTRIBUTING.md").text))
    assert [path for path, words in listed.items() if not words] == ["src/gauge/"]
    ignored = {line.strip("/") for line in (root / ".gitignore").read_text().split()}
    package = [path for path in (root / "src" / "gauge").iterdir() if path.name not in ignored]
    folders = {"src/gauge/"} | {f"src/gauge/{path.name}/" for path in package if path.is_dir()}
    folders |= {
        f"{path.name}/"
        for path in root.iterdir()
        if path.is_dir() and path.name != "src" and path.name not in ignored and not path.name.startswith(".")
    }
    modules = {f"src/gauge/{path.name}" for path in package if path.suffix == ".py" and not path.stem.startswith("__")}
    assert set(listed) - folders - modules == set(), "listed, but not in the tree"
    assert (folders | modules) - set(listed) == set(), "in the tree, but not listed"
    assert len(listed) <= 29
    tests = [path.name for path in (root / "tests").iterdir() if path.is_dir() and not path.name.startswith("_")]
    assert [name for name in tests if name not in listed["tests/"]] == []


def test_every_path_that_a_page_names_exists(root):
    for path in (*root.glob("*.md"), *root.glob("docs/*.md")):
        for name in re.findall(
            r"`((?:src|lab|tests|docs|studies|perf|results|examples)/[^`\s{}<>]*)", path.read_text()
        ):
            assert any(root.glob(name)), f"{path.name} names {name}, which does not exist"


def test_every_table_is_the_one_that_the_runs_of_its_entry_give(root, monkeypatch):
    monkeypatch.syspath_prepend(root / "docs")
    generate = runpy.run_path(str(root / "docs" / "generate.py"))
    from report.results import READ

    used = {}

    def recording(name, make):
        def table():
            READ.clear()
            text = make()
            used[name] = set(READ)
            return text

        return table

    generate["TABLES"].update({name: recording(name, make) for name, make in generate["TABLES"].items()})
    with unchecked():
        for page in generate["PAGES"]:
            text = page.read_text(encoding="utf-8")
            assert generate["generated"](text) == text, page
    entries = Manifest.from_folder(root / "results").docs
    assert used == {
        name: {run for run in entry.runs if (root / "results" / run / "results.json").exists()}
        for name, entry in entries.items()
    }


def test_decimals_in_results_stand_in_a_generated_table_of_their_page(root):
    table, decimal = (
        re.compile(r"<!-- table: .*?<!-- end -->", re.DOTALL),
        re.compile(r"(?<![\w.])\d[\d,]*\.\d+(?![\w.]*\d)"),
    )
    for page in [*sorted((root / "docs").glob("results-*.md")), root / "docs" / "gauge-plus.md"]:
        text = page.read_text(encoding="utf-8").split("## What the guard sees")[0]  # counted by studies/guard.py
        shown = [float(each.replace(",", "")) for each in re.findall(r"\d[\d,]*\.?\d*", "".join(table.findall(text)))]
        prose = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)|arXiv:[\d.]+", "", table.sub("", text), flags=re.DOTALL)
        for number in decimal.findall(prose):
            half = 0.5 * 10.0 ** -len(number.partition(".")[2]) + 1e-9
            value = float(number.replace(",", ""))
            assert any(abs(each - value) <= half for each in shown), (
                f"{page.name} says {number}, which no table of it shows"
            )


def test_every_result_says_where_it_came_from(root):
    files = sorted((root / "results").rglob("results.json"))
    assert len(files) >= 2
    with unchecked():
        results = [(path, result) for path in files for result in read_results(path)]
    for path, result in results:
        assert re.fullmatch("[0-9a-f]{40}", result.commit), path
        assert result.hardware["torch"]
    audits = {path: json.loads(path.read_text(encoding="utf-8")) for path in (root / "results").rglob("audit.json")}
    assert audits
    assert all(audits.values())
    assert all(re.fullmatch("[0-9a-f]{40}", each["commit"]) for records in audits.values() for each in records)
