"""The pages keep their word: code runs, links lead somewhere, notes and names are those of the code."""

import ast
import inspect
import json
import os
import re
import runpy
import shutil
from importlib import import_module
from itertools import chain
from pathlib import Path

import pytest
from helpers import python

import gauge

ROOT = Path(__file__).parents[2]
PAGES = sorted(path.name for path in (ROOT / "docs").glob("*.md"))
PROSE = sorted([*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.mark.parametrize("name", [name for name in PAGES if name != "extend.md"])
def test_the_code_of_a_page_runs_in_order(name, page, cars, monkeypatch):
    monkeypatch.chdir(cars)
    assert page(f"docs/{name}").files() == {}
    names = page(f"docs/{name}").run()
    if name == "gauge-plus-in-ten-minutes.md":  # what it promises
        both, *single = names["scores"]["low"].iloc[0], *names["scores"]["high"].iloc[1:]
        assert both > max(single) > 0.5


@pytest.fixture(scope="module")
def extended(tmp_path_factory, page) -> Path:
    """A copy of the package with the files that extend.md shows; compiled files come along, which saves seconds."""
    folder = tmp_path_factory.mktemp("extended")
    for top in ("src", "lab"):
        shutil.copytree(ROOT / top, folder / top, ignore=shutil.ignore_patterns("*.egg-info", "build"))
    for path, code in page("docs/extend.md").files().items():
        assert not (folder / path).exists(), f"{path} is taken; the page needs another example"
        (folder / path).write_text(code, encoding="utf-8")
    return folder


def run(extended: Path, *arguments: str) -> str:
    folders = [
        extended / "src",
        extended / "lab",
        ROOT / "tests",
        ROOT / "tests" / "laws",
        ROOT / "tests" / "contracts",
    ]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders)), "OMP_NUM_THREADS": "1"}
    return python(*arguments, cwd=extended, env=environment).stdout


def test_the_files_of_extend_are_listed_as_soon_as_they_are_there(extended):
    listed = run(extended, "-m", "gauge.cli", "list")
    assert "median         Median: every missing value" in listed
    assert "squared        Squared Taylor score" in listed
    assert "vote           Vote: a linear classifier" in listed
    assert "neighbours     Neighbours: the shares of the classes" in listed
    assert "my_method" not in listed


def test_the_benchmark_of_extend_is_learned_also_by_methods_that_need_vectors(extended, tmp_path):
    methods = [argument for name in ("any_subset", "concat", "mopoe", "vote") for argument in ("--method", name)]
    command = ["benchmark", "wine", *methods, "--out", str(tmp_path), "--device", "cpu", "--json"]
    results = json.loads(run(extended, "-m", "gauge", *command))
    scores = {(result["method"], result["protocol"]): result["value"] for result in results}
    assert {method for method, _ in scores} == {"any_subset", "concat", "vote"}  # mopoe serves images and texts only
    assert min(scores.values()) > 0.6  # the largest class: 0.4


CONTRACTS = """
import sys, helpers, pytest, test_components, test_imputers
from gauge.cli.main import app

assert "median" in test_imputers.BLIND
train, batch = helpers.dataset("train", rows=40), helpers.incomplete_batch()
test_imputers.test_observed_entries_come_back_bit_for_bit_and_flags_unchanged(train, batch, "median")
test_imputers.test_the_result_does_not_depend_on_hidden_values(train, batch, "median", "noise")
test_imputers.test_the_result_for_a_sample_does_not_depend_on_its_batch(train, batch, "median")
test_components.test_a_scorer_takes_every_option_and_leaves_no_graph("squared")
quiet = ["-q", "-W", "ignore::pytest.PytestAssertRewriteWarning"]  # plugins of pytest that the page imported before
options = [*quiet, "--noconftest", "-p", "no:cacheprovider", "-k", "vote or neighbours", "-rA"]
assert pytest.main([*options, *sys.argv[1:]]) == 0
app(["list", "methods", "--plugin", "my_components.py"])
"""


def test_the_files_of_extend_are_used_without_edits_and_keep_the_contracts(extended, page):
    contracts = [str(ROOT / "tests" / "contracts" / f"test_{kind}.py") for kind in ("methods", "experts")]
    printed = run(extended, "-c", page("docs/extend.md").code() + CONTRACTS, *contracts)
    assert set(re.findall(r"^PASSED .*(vote|neighbours)", printed, re.MULTILINE)) == {"vote", "neighbours"}
    assert "my_method      The shared network on what is observed" in printed  # a plugin, listed when it is named


def test_the_files_of_extend_keep_the_style(extended, page):
    config = ["--config", str(ROOT / "pyproject.toml"), "--no-cache"]
    files = list(page("docs/extend.md").files())
    run(extended, "-m", "ruff", "check", *config, *files)
    run(extended, "-m", "ruff", "format", "--check", *config, *files)


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.name)
def test_relative_links_lead_somewhere(path):
    for link in LINK.findall(path.read_text(encoding="utf-8")):
        target, _, anchor = link.partition("#")
        if target.startswith(("https:", "mailto:")):
            continue
        linked = (path.parent / target).resolve() if target else path
        assert linked.exists(), link
        assert linked.is_relative_to(ROOT), link
        assert not anchor or anchor in anchors(linked), link


def shelves() -> dict[str, list[str]]:
    """The pages of each shelf of the navigation."""
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2].partition("\nvalidation:")[0]
    parts = re.split(r"^  - ([\w ]+):$", nav, flags=re.MULTILINE)
    return {name: re.findall(r"\S+\.md", pages) for name, pages in zip(parts[1::2], parts[2::2], strict=True)}


def test_every_page_stands_on_one_shelf_and_the_index_leads_to_it():
    """Outside Results and Reference pages are short, and none tests a hypothesis."""
    assert list(shelves()) == ["Start", "How to", "Understand", "Results", "Reference"]
    assert sorted(chain(*shelves().values())) == sorted([*PAGES, "CHANGELOG.md", "CONTRIBUTING.md"])
    texts = {page: (ROOT / "docs" / page).read_text(encoding="utf-8") for page in PAGES}
    assert set(PAGES) - set(LINK.findall(texts["index.md"])) == {"index.md"}
    assert (
        sum(len(texts[page].split()) for name in ("Start", "How to", "Understand") for page in shelves()[name])
        <= 25_000
    )
    for name, most in (("Start", 900), ("How to", 400), ("Understand", 900)):
        for page in shelves()[name]:
            assert len(texts[page].split()) <= most, page
            assert not re.search(r"\bp ?[=<≤] ?0\.|p.values?", texts[page]), page


def documented(part) -> list[str]:
    """What the docstring of a class, function or method lacks."""
    text, signature = inspect.getdoc(part) or "", inspect.signature(part)
    names = [
        name
        for name, each in signature.parameters.items()
        if name != "self" and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w+\n---|\Z)", text, re.MULTILINE | re.DOTALL)
    listed = re.findall(r"^(\S.*)$", section[1] if section else "", re.MULTILINE)
    missing = [name for name in names if not any(re.search(rf"\b{name}\b", line) for line in listed)]
    returns = inspect.isclass(part) or signature.return_annotation in (None, "None") or "Returns\n---" in text
    return [
        *missing,
        *([] if returns else ["Returns"]),
        *([] if re.search("Examples\n---+\n.*?>>> ", text, re.DOTALL) else ["Examples"]),
    ]


def test_what_tutorials_and_how_tos_use_says_its_parameters_and_has_an_example(page):
    pages = ["README.md", *(f"docs/{name}" for shelf in ("Start", "How to") for name in shelves()[shelf])]
    nodes = [node for name in pages for node in ast.walk(ast.parse(page(name).code()))]
    used = {node.attr for node in nodes if isinstance(node, ast.Attribute) and node.attr[0] != "_"}
    imports = {(node.module, each.name) for node in nodes if isinstance(node, ast.ImportFrom) for each in node.names}
    parts = {
        name: getattr(import_module(module), name)
        for module, name in imports
        if module.startswith("gauge") and name != "Trees"
    }
    for name in ("Wrapped", "Explanation", "wrap", "save_wrapped", "load_wrapped", "export_wrapped"):  # gauge.wrap(...)
        parts[name] = getattr(gauge, name)
    own = [part for part in parts.values() if inspect.isclass(part) or inspect.isfunction(part)]
    methods = [getattr(part, name) for part in own if inspect.isclass(part) for name in used & set(dir(part))]
    own += [each for each in methods if inspect.isroutine(each) and each.__module__.startswith("gauge")]
    # Algorithm 1 is read on a few screens: its files state equations, and api.md shows their signatures
    path = ["gauge.values", "gauge.nn.attention", *(f"gauge.paper.{name}" for name in ("gauge", "network", "units"))]
    own = [part for part in own if part.__module__ not in path]
    assert len(own) > 40
    lacking = {each.__qualname__: documented(each) for each in own if each.__name__ not in ("evidence", "frame")}
    assert {name: lacks for name, lacks in lacking.items() if lacks} == {}


def test_the_reference_of_commands_is_what_the_commands_say(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    from report.commands import command_page

    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert text == command_page(), "commands.md is old; run make tables"


def test_every_note_on_the_paper_has_an_entry_and_every_entry_a_note():
    paths = [*(ROOT / "src").rglob("*.py"), *(ROOT / "lab").rglob("*.py")]
    source = "".join(path.read_text(encoding="utf-8") for path in sorted(paths))
    tags = re.findall(r"NOTE\[PAPER\](?: ([\w-]+):)?", source)
    assert "" not in tags, "a NOTE[PAPER] without a slug and a colon on its line"
    entries = re.findall(r"^## (.+)$", (ROOT / "docs" / "paper-notes.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(entries) == len(set(entries))
    assert set(entries) == set(tags)


def test_the_api_page_lists_the_public_names_once_each():
    listed = re.findall(r"^- `(\w+)`: .+\.$", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(gauge.__all__)
    assert all(hasattr(gauge, name) for name in listed)


def test_the_notebooks_are_short_and_those_of_the_start_pages():
    """Their code runs in `test_the_code_of_a_page_runs_in_order`."""
    notebooks = runpy.run_path(str(ROOT / "docs" / "notebooks.py"))
    paths = {page: notebooks["path"](page) for page in notebooks["PAGES"]}
    assert sorted(paths.values()) == sorted((ROOT / "examples").glob("*.ipynb"))
    for page, path in paths.items():
        written, tutorial = json.loads(path.read_text(encoding="utf-8"))["cells"], notebooks["cells"](page)
        sources = [[(each["cell_type"], each["source"]) for each in cells] for cells in (written, tutorial)]
        assert sources[0] == sources[1], f"{path.name} is old; run make notebooks, or docs/notebooks.py --prose"
        prose = [line for kind, source in sources[0] if kind == "markdown" for line in source]
        assert len(" ".join(prose).split()) <= 300, path.name


def test_every_equation_has_a_place_in_the_code():
    page = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")
    sections = re.findall(r"^### Eq\. (\d+): [^\n]+\n\n```math\n.+?\n```\n(.+?)(?=^#)", page, re.MULTILINE | re.DOTALL)
    assert [int(number) for number, _ in sections] == list(range(1, 11))
    for _, where in sections:
        assert LINK.search(where), where
        for names, link in re.findall(r"((?:`[\w.]+`(?:, )?)+) in \[[^\]]+\]\(([^)]+)\)", where):
            source = (ROOT / "docs" / link).read_text(encoding="utf-8")
            for name in re.findall(r"`([\w.]+)`", names):
                assert re.search(rf"(def|class) {name.split('.')[-1]}\b", source), name
