"""Name -> component: by file name in the package, by `register` in plugins (an entry point, or a file given by --plugin).

In a package the first name in a module's `__all__` is its component and the first line of its docstring its description.
"""

import ast
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gauge.choices import pick

if TYPE_CHECKING:  # nothing here needs torch
    from gauge.types import Encoder, Imputer, Pretrainer, Scorer

T = TypeVar("T")


@dataclass(frozen=True)
class Kind(Generic[T]):
    """All components of one kind. `noun` stands in messages, `packages` hold one file for each component; a plugin may add
    its own with `KIND.packages.append`.

    >>> "taylor" in SCORERS.names()
    True
    """

    noun: str
    packages: list[str]
    added: dict[str, T] = field(default_factory=dict)
    descriptions: dict[str, str] = field(default_factory=dict)

    @property
    def files(self) -> dict[str, tuple[str, Path]]:
        """Name -> module and file of every component in the packages."""
        load_installed_plugins()
        return {name: found for package in self.packages for name, found in _files(package).items()}

    def names(self) -> list[str]:
        """The names of all components, sorted."""
        return sorted({*self.files, *self.added})

    def get(self, name: str) -> T:
        """The component of that name; the error for an unknown name suggests the nearest one."""
        files = self.files
        if name in self.added:
            return self.added[name]
        if name not in files:
            pick(dict.fromkeys(self.names()), name, self.noun)
        module, path = files[name]
        return getattr(import_module(module), _first_export(path))

    def describe(self, name: str) -> str:
        """One line about the component; built-in ones are not imported for it."""
        if name in self.added:
            return self.descriptions.get(name, "")
        _, path = self.files[name]
        return (ast.get_docstring(_tree(path)) or "").partition("\n")[0]

    def register(self, name: str, description: str = "") -> Callable[[T], T]:
        """Adds a component from outside the package: `@IMPUTERS.register("my_imputer")`. A class or function is described by
        the first line of its docstring, unless there is a `description`."""

        def add(component: T) -> T:
            if name in self.names():
                article = "an" if self.noun[0] in "aeiou" else "a"
                raise ValueError(f"there is {article} {self.noun} {name!r} already; choose another name")
            own = (component.__doc__ or "").strip() if callable(component) else ""
            self.added[name] = component
            self.descriptions[name] = description or own.partition("\n")[0]
            return component

        return add


@cache
def _files(package: str) -> dict[str, tuple[str, Path]]:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    folders = map(Path, spec.submodule_search_locations or ())
    paths = [path for folder in folders for path in folder.glob("*.py") if not path.stem.startswith("_")]
    return {path.stem: (f"{package}.{path.stem}", path) for path in paths}


IMPUTERS: "Kind[type[Imputer]]" = Kind("imputer", ["gauge.imputers"])
PRETRAINERS: "Kind[Callable[..., Pretrainer]]" = Kind("pre-trainer", ["gauge.plus.pretrainers"])
ENCODERS: "Kind[Callable[..., Encoder]]" = Kind("encoder", ["gauge.encoders"])
SCORERS: "Kind[Scorer]" = Kind("scorer", ["gauge.paper.scoring"])
COLUMNS: Kind[Any] = Kind("kind of column", ["gauge.tabular.table.columns"])
EXPERTS: Kind[Any] = Kind("expert", ["gauge.tabular.experts"])

KINDS: dict[str, Kind[Any]] = {
    "imputers": IMPUTERS,
    "pretrainers": PRETRAINERS,
    "encoders": ENCODERS,
    "scorers": SCORERS,
    "columns": COLUMNS,
    "experts": EXPERTS,
}
"""What `gauge list` shows; plugins may add kinds of their own."""


plugin_files: list[Path] = []
"""The files that `load_plugin` has run in this process."""


def load_plugin(path: Path) -> None:
    """Run a Python file that registers components. A second call does nothing."""
    path = path.resolve()
    if path in plugin_files:
        return
    name = f"gauge_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ValueError(f"there is no plugin {path}; give a Python file that registers components")
    sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(sys.modules[name])
    except BaseException:
        del sys.modules[name]
        raise
    plugin_files.append(path)


@cache
def load_installed_plugins() -> None:
    """Import the modules that installed packages name under the entry-point group `gauge.plugins`."""
    for entry_point in entry_points(group="gauge.plugins"):
        entry_point.load()


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _first_export(path: Path) -> str:
    for node in _tree(path).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "__all__":
            return ast.literal_eval(node.value)[0]
    raise ValueError(f"{path.parent.name}/{path.name} has no __all__; name its component there first")
