"""What a trained stage depends on: its arguments as plain values, and the source of the code that reads them.

The source is compared as a syntax tree without docstrings, so paths, comments, formatting and the version of Python do not
matter. The code of a module includes all modules of its package that it imports when it runs, directly or indirectly:
imports for type checkers alone do not count, and names that a package loads lazily are found through its stub.

A value that is left at its default is no part of a key, so a setting may be added without training anything again. A changed
default changes the source of the class that declares it.
"""

import ast
import hashlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel
from torch import Tensor, nn

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Plain = None | bool | int | float | str | list[Any] | dict[str, Any]


def digest(value: Plain) -> str:
    """A short hash of a plain value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def plain(value: Any) -> Plain:
    """The value in a form that JSON can hold; different values have different forms.

    >>> plain({"rate": 0.5, "shape": (3, 4), "loss": nn.MSELoss})
    {'rate': 0.5, 'shape': [3, 4], 'loss': 'torch.nn.modules.loss:MSELoss'}
    """
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Path():
            return str(value)
        case Mapping():
            return {str(name): plain(item) for name, item in value.items()}
        case tuple() | list():
            return [plain(item) for item in value]
        case _ if isinstance(value, type) or inspect.isroutine(value):
            return _name(value)
    return {"": _name(type(value)), **{name: plain(item) for name, item in _content(value).items()}}


def code(*values: Any) -> dict[str, str]:
    """Module name -> hash of its source, for all modules that the classes and functions among the values come from."""
    modules: dict[str, str] = {}
    for value in _definitions(values):
        modules |= _closure(value.__module__)
    return dict(sorted(modules.items()))


def _content(value: Any) -> dict[str, Any]:
    """What distinguishes a value from others of its class."""
    if isinstance(value, Tensor | np.ndarray):
        array = value.detach().cpu().numpy() if isinstance(value, Tensor) else value
        content = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
        return {"dtype": str(array.dtype), "shape": array.shape, "sha256": content}
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_defaults=True)
    if isinstance(value, partial):
        return {"function": value.func, "args": value.args, "keywords": value.keywords}
    if is_dataclass(value):
        compared = {field: getattr(value, field.name) for field in fields(value) if field.compare}
        return {field.name: own for field, own in compared.items() if not _is_default(field, own)}
    if isinstance(value, nn.Module):
        return {"modules": repr(value), **value.state_dict()}
    try:
        return vars(value)
    except TypeError as error:
        raise ValueError(f"a {type(value).__name__} cannot tell trained stages apart; give plain values") from error


def _is_default(field: Field, value: Any) -> bool:
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return default is not MISSING and plain(value) == plain(default)


def _name(value: Any) -> str:
    if inspect.ismethod(value):
        return f"{_name(value.__self__)}.{value.__name__}"
    return f"{value.__module__}:{value.__qualname__}"


def _definitions(values: Iterable[Any]) -> Iterator[Any]:
    """The classes and functions among the values, at any depth."""
    for value in values:
        if isinstance(value, type) or inspect.isfunction(value):
            yield value
        elif inspect.ismethod(value):
            yield from _definitions([value.__self__])
        elif isinstance(value, partial):
            yield from _definitions([value.func, *value.args, *value.keywords.values()])
        elif isinstance(value, Mapping):
            yield from _definitions(value.values())
        elif isinstance(value, tuple | list):
            yield from _definitions(value)
        elif not isinstance(value, str | int | float | Tensor | np.ndarray | None):
            yield type(value)
            if is_dataclass(value):
                yield from _definitions(getattr(value, field.name) for field in fields(value) if field.compare)


def _closure(module: str) -> dict[str, str]:
    """The hashes of a module and of all that it imports from the package it belongs to."""
    hashes: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        source = None if name in hashes else _source(name)
        if source is not None:
            hashes[name], imported = source
            waiting += imported
    return hashes


@cache
def _source(module: str) -> tuple[str, list[str]] | None:
    """The hash of a module's source and the modules it imports, if it has a source."""
    path = _path(module)
    if path is None:
        return None
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return digest(_syntax(tree)), [name for node in _executed(tree) for name in _imported(node, module, path)]


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all nodes within it, except the bodies of `if TYPE_CHECKING`."""
    yield node
    for child in ast.iter_child_nodes(node):
        checked = isinstance(child, ast.If) and ast.unparse(child.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for statement in child.orelse if isinstance(child, ast.If) and checked else [child]:
            yield from _executed(statement)


@cache
def _lazy(package: str) -> dict[str, str]:
    """Name -> module, for all that a package loads when it is first used: what its stub imports."""
    path = _path(package)
    stub = None if path is None else path.with_suffix(".pyi")
    if path is None or stub is None or not stub.is_file():
        return {}
    nodes = [node for node in ast.parse(stub.read_text(encoding="utf-8")).body if isinstance(node, ast.ImportFrom)]
    return {alias.name: _base(node, package, path) for node in nodes for alias in node.names}


def _path(module: str) -> Path | None:
    """The Python file of a module, if it has one."""
    if module in sys.modules:
        origin = getattr(sys.modules[module], "__file__", None)
    else:
        try:
            origin = getattr(importlib.util.find_spec(module), "origin", None)
        except (ImportError, ValueError):  # `from package import name`, where the name is no module
            return None
    return Path(origin) if origin and origin.endswith(".py") else None


def _imported(node: ast.AST, module: str, path: Path) -> list[str]:
    """The modules of the same package, or of this one, that an import statement may load. The package itself is none of
    them: it holds the version."""
    loaded: list[str] = []
    ours = ("gauge", "gauge_lab")  # also read where another package imports them
    if isinstance(node, ast.Import):
        loaded = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        base = _base(node, module, path)
        own = base.partition(".")[0] in (module.partition(".")[0], *ours)
        loaded = [base, *(name for alias in node.names for name in _origins(base, alias.name))] if own else []
    return [name for name in loaded if name.partition(".")[0] in (module.partition(".")[0], *ours) and "." in name]


def _origins(base: str, name: str) -> list[str]:
    """The modules that `from base import name` may load, besides the base."""
    lazy = _lazy(base).get(name)
    return [f"{base}.{name}"] if lazy is None else [lazy, *_origins(lazy, name)]


def _base(node: ast.ImportFrom, module: str, path: Path) -> str:
    """The module that names are imported from."""
    if not node.level:
        return node.module or ""
    parents = module.split(".")
    above = node.level - (path.name == "__init__.py")
    return ".".join(filter(None, [*parents[: len(parents) - above], node.module]))


def _syntax(node: Any) -> Plain:
    """A syntax tree as lists, without docstrings and without fields that only some versions of Python have."""
    if isinstance(node, ast.AST):
        content = {name: value for name, value in ast.iter_fields(node) if value not in (None, []) and name != "ctx"}
        if isinstance(node, Documented) and ast.get_docstring(node, clean=False):
            content["body"] = content["body"][1:]
        return [type(node).__name__, *([name, _syntax(value)] for name, value in content.items())]
    if isinstance(node, list):
        return [_syntax(child) for child in node]
    return repr(node)
