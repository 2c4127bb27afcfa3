"""What a trained stage depends on: its arguments as plain values, and the source of the code that reads them.

The source is compared as a syntax tree without docstrings, so paths, comments, formatting and the version of Python do not
matter. The code of a module includes all modules of its package that it imports, directly or indirectly.
"""

import ast
import hashlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel
from torch import Tensor, nn

from gauge.types import ADDED_LATER

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
            return {str(name): plain(each) for name, each in value.items()}
        case tuple() | list():
            return [plain(each) for each in value]
        case _ if isinstance(value, type) or inspect.isroutine(value):
            return _name(value)
    return {"": _name(type(value)), **{name: plain(each) for name, each in _content(value).items()}}


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
        return value.model_dump(mode="json")
    if isinstance(value, partial):
        return {"function": value.func, "args": value.args, "keywords": value.keywords}
    if is_dataclass(value):
        given = [(each, getattr(value, each.name)) for each in fields(value) if each.compare]
        return {each.name: own for each, own in given if each.metadata != ADDED_LATER or own != each.default}
    if isinstance(value, nn.Module):
        return {"modules": repr(value), **value.state_dict()}
    try:
        return vars(value)
    except TypeError as error:
        raise ValueError(f"a {type(value).__name__} cannot tell trained stages apart; give plain values") from error


def _name(value: Any) -> str:
    return f"{value.__module__}:{value.__qualname__}"


def _definitions(values: Iterable[Any]) -> Iterator[Any]:
    """The classes and functions among the values, at any depth."""
    for value in values:
        if isinstance(value, type) or inspect.isfunction(value):
            yield value
        elif isinstance(value, partial):
            yield from _definitions([value.func, *value.args, *value.keywords.values()])
        elif isinstance(value, Mapping):
            yield from _definitions(value.values())
        elif isinstance(value, tuple | list):
            yield from _definitions(value)
        elif not isinstance(value, str | int | float | Tensor | np.ndarray | None):
            yield type(value)
            if is_dataclass(value):
                yield from _definitions(getattr(value, each.name) for each in fields(value) if each.compare)


def _closure(module: str) -> dict[str, str]:
    """The hashes of a module and of all that it imports from the package it belongs to."""
    packages = (f"{module.partition('.')[0]}.", "gauge.")
    hashes: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        source = None if name in hashes else _source(name)
        if source is not None:
            hashes[name], imported = source
            waiting += [each for each in imported if each.startswith(packages)]
    return hashes


@cache
def _source(module: str) -> tuple[str, list[str]] | None:
    """The hash of a module's source and the modules it imports, if it has a source."""
    path = _path(module)
    if path is None:
        return None
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return digest(_syntax(tree)), [each for node in ast.walk(tree) for each in _imported(node, module, path)]


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
    """The modules that an import statement may load."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = node.module or ""
    if node.level:
        parents = module.split(".")
        above = node.level - (path.name == "__init__.py")
        base = ".".join(filter(None, [*parents[: len(parents) - above], base]))
    return [base, *(f"{base}.{alias.name}" for alias in node.names)]


def _syntax(node: Any) -> Plain:
    """A syntax tree as lists, without docstrings and without fields that only some versions of Python have."""
    if isinstance(node, ast.AST):
        content = {name: value for name, value in ast.iter_fields(node) if value not in (None, []) and name != "ctx"}
        if isinstance(node, Documented) and ast.get_docstring(node, clean=False):
            content["body"] = content["body"][1:]
        return [type(node).__name__, *([name, _syntax(value)] for name, value in content.items())]
    if isinstance(node, list):
        return [_syntax(each) for each in node]
    return repr(node)
