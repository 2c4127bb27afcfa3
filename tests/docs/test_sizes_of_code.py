"""What CONTRIBUTING.md says about the size of files and functions holds."""

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "gauge"
MAX_LINES, MAX_FUNCTION_LINES, MAX_PARAMETERS = 400, 60, 8
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
FILES = sorted(SOURCE.rglob("*.py"))


@cache
def parsed(path):
    return ast.parse(path.read_text())


def functions(path):
    """(name, node) of all functions; the constructor of the estimator and the commands of the command line are left out."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            command = path.is_relative_to(SOURCE / "cli") and not node.name.startswith("_")
            constructor = path == SOURCE / "tabular" / "estimator.py" and node.name == "__init__"
            if not command and not constructor:
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node


def lines(node):
    """Without the docstring."""
    start = node.body[1].lineno if ast.get_docstring(node) and len(node.body) > 1 else node.lineno
    return node.end_lineno - start + 1


def parameters(node):
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return len([each for each in given if each.arg not in ("self", "cls")])


def test_contributing_names_these_limits():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for limit in (f"under {MAX_LINES} lines", f"{MAX_FUNCTION_LINES} lines", f"{MAX_PARAMETERS} parameters"):
        assert limit in text


def code_lines(path):
    """The lines of a file without its docstrings."""
    documented = [node for node in ast.walk(parsed(path)) if isinstance(node, DOCUMENTED) and ast.get_docstring(node)]
    strings = [node.body[0] for node in documented]
    return len(path.read_text().splitlines()) - sum(string.end_lineno - string.lineno + 1 for string in strings)


def test_files_stay_under_the_limit():
    sizes = {str(path.relative_to(ROOT)): code_lines(path) for path in FILES}
    assert {name: size for name, size in sizes.items() if size >= MAX_LINES} == {}
    assert max(sizes.values()) > MAX_LINES / 2, "the count sees lines"


@pytest.mark.parametrize(("count", "limit"), [(lines, MAX_FUNCTION_LINES), (parameters, MAX_PARAMETERS)])
def test_functions_stay_within_the_limit(count, limit):
    sizes = {name: count(node) for path in FILES for name, node in functions(path)}
    assert {name: size for name, size in sizes.items() if size > limit} == {}
    assert max(sizes.values()) > limit / 2, "the count sees functions"
