"""The example of a method continues that of its class, and the files that examples write lie in a folder of their own."""

from doctest import SKIP, DocTestParser
from functools import cache
from sys import modules
from typing import Any

import pytest


@cache
def defined_by_example(part: type) -> dict[str, Any]:
    """The names that the example in the docstring of a class defines, beside those of its module."""
    names = vars(modules[part.__module__]).copy()
    for example in DocTestParser().get_examples(part.__doc__ or ""):
        if SKIP not in example.options:
            exec(example.source, names)
    return names


@pytest.fixture(autouse=True)
def continued_example(request: pytest.FixtureRequest) -> None:
    if isinstance(request.node, pytest.DoctestItem):
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))
        names = request.node.dtest.globs
        owner, _, method = request.node.dtest.name.removeprefix(f"{names['__name__']}.").partition(".")
        if method:
            names.update(defined_by_example(names[owner]))
