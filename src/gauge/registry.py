"""Name -> component, found by file name: a new file in the right folder is registered by being there.

The first name in a module's `__all__` is its component, the first line of its docstring its description.
"""

import ast
import difflib
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

KINDS = {
    "benchmarks": "benchmark",
    "methods": "method",
    "imputers": "imputer",
    "encoders": "encoder",
    "scoring": "scorer",
}


def names(kind: str) -> list[str]:
    """The registered names of a kind, sorted.

    >>> "taylor" in names("scoring")
    True
    """
    return sorted(path.stem for path in _folder(kind).glob("*.py") if not path.stem.startswith("_"))


def get(kind: str, name: str) -> Any:
    """The component of that name; an unknown name is answered with the nearest."""
    return getattr(module(kind, name), _exports(kind, name)[0])


def module(kind: str, name: str) -> Any:
    """The module a component lives in."""
    pick(dict.fromkeys(names(kind)), name, KINDS[kind])
    return import_module(f"gauge.{kind}.{name}")


def pick(known: Mapping[str, T], name: str, what: str) -> T:
    """The entry of that name; an unknown name is answered with the nearest, or with all there are."""
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
        raise ValueError(f"there is no {what} {name!r}; {hint}")
    return known[name]


def describe(kind: str, name: str) -> str:
    """The first line of the component's file, read without importing it."""
    return (ast.get_docstring(_tree(kind, name)) or "").partition("\n")[0]


def _folder(kind: str) -> Path:
    pick(KINDS, kind, "kind of component")
    spec = find_spec(f"gauge.{kind}")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _tree(kind: str, name: str) -> ast.Module:
    return ast.parse((_folder(kind) / f"{name}.py").read_text(encoding="utf-8"))


def _exports(kind: str, name: str) -> list[str]:
    for node in _tree(kind, name).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "__all__":
            return ast.literal_eval(node.value)
    raise ValueError(f"{kind}/{name}.py has no __all__; name its component there first")
