"""Name -> component: by file name in the package, by `register` in plugins (an entry point, or a file given by --plugin).

In a package the first name in a module's `__all__` is its component and the first line of its docstring its description.
"""

import ast
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gauge.choices import pick

if TYPE_CHECKING:  # nothing here needs torch
    from gauge.types import Encoder, Imputer, Method, Pretrainer, Scorer

T = TypeVar("T")
ENTRY_POINTS = "gauge.plugins"


@dataclass(frozen=True)
class Kind(Generic[T]):
    """All components of one kind. `noun` stands in messages, `package` is where the built-in ones live.

    >>> "taylor" in SCORERS.names()
    True
    """

    noun: str
    package: str
    added: dict[str, T] = field(default_factory=dict)
    descriptions: dict[str, str] = field(default_factory=dict)

    @cached_property
    def folder(self) -> Path:
        return Path(__file__).parents[1] / self.package.replace(".", "/")

    def names(self) -> list[str]:
        """The names of all components, sorted."""
        load_installed_plugins()
        return sorted({*_built_in(self.folder), *self.added})

    def get(self, name: str) -> T:
        """The component of that name; the error for an unknown name suggests the nearest one."""
        load_installed_plugins()
        if name in self.added:
            return self.added[name]
        if name not in _built_in(self.folder):
            pick(dict.fromkeys(self.names()), name, self.noun)
        return getattr(import_module(f"{self.package}.{name}"), _first_export(self.folder / f"{name}.py"))

    def describe(self, name: str) -> str:
        """One line about the component; built-in ones are not imported for it."""
        if name in self.added:
            return self.descriptions.get(name, "")
        return (ast.get_docstring(_tree(self.folder / f"{name}.py")) or "").partition("\n")[0]

    def register(self, name: str, description: str = "") -> Callable[[T], T]:
        """Adds a component from outside the package: `@METHODS.register("my_method")`. A class or function is described by
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
def _built_in(folder: Path) -> frozenset[str]:
    return frozenset(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_"))


METHODS: "Kind[type[Method]]" = Kind("method", "gauge_lab.methods")
IMPUTERS: "Kind[type[Imputer]]" = Kind("imputer", "gauge.imputers")
PRETRAINERS: "Kind[Callable[..., Pretrainer]]" = Kind("pre-trainer", "gauge.plus.pretrainers")
ENCODERS: "Kind[Callable[..., Encoder]]" = Kind("encoder", "gauge.encoders")
SCORERS: "Kind[Scorer]" = Kind("scorer", "gauge.paper.scoring")
COLUMNS: Kind[Any] = Kind("kind of column", "gauge.tabular.table.columns")
EXPERTS: Kind[Any] = Kind("expert", "gauge.tabular.experts")

KINDS: dict[str, Kind[Any]] = {
    "benchmarks": Kind("benchmark", "gauge_lab.benchmarks"),
    "methods": METHODS,
    "imputers": IMPUTERS,
    "pretrainers": PRETRAINERS,
    "encoders": ENCODERS,
    "scorers": SCORERS,
    "columns": COLUMNS,
    "experts": EXPERTS,
}
"""What `gauge list` shows. What stands above this module is typed where it is defined: `BENCHMARKS` in
`gauge_lab.benchmarks`, `PLANS` in `gauge_lab.plans`."""


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
    for entry_point in entry_points(group=ENTRY_POINTS):
        entry_point.load()


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _first_export(path: Path) -> str:
    for node in _tree(path).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "__all__":
            return ast.literal_eval(node.value)[0]
    raise ValueError(f"{path.parent.name}/{path.name} has no __all__; name its component there first")
