"""Name -> component: by file name in the package, by `register` in plugins (an entry point, or a file named by --plugin).

In a package the first name in a module's `__all__` is its component and the first line of its docstring its description.
"""

import ast
import difflib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:  # nothing here needs torch
    from gauge.experiments.benchmarks import Benchmark
    from gauge.experiments.plans import Plan
    from gauge.types import Encoder, Imputer, Method, Scorer

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

    def names(self) -> list[str]:
        """The names of all components, sorted."""
        load_installed_plugins()
        built_in = (path.stem for path in self._folder().glob("*.py") if not path.stem.startswith("_"))
        return sorted({*built_in, *self.added})

    def get(self, name: str) -> T:
        """The component of that name; an unknown name is answered with the nearest."""
        pick(dict.fromkeys(self.names()), name, self.noun)
        if name in self.added:
            return self.added[name]
        exports = _exports(self._folder() / f"{name}.py")
        return getattr(import_module(f"{self.package}.{name}"), exports[0])

    def describe(self, name: str) -> str:
        """One line on the component, read without importing it where it is built in."""
        if name in self.added:
            return (getattr(self.added[name], "__doc__", "") or "").strip().partition("\n")[0]
        return (ast.get_docstring(_tree(self._folder() / f"{name}.py")) or "").partition("\n")[0]

    def register(self, name: str) -> Callable[[T], T]:
        """Adds a component from outside the package: `@METHODS.register("my_method")`."""

        def add(component: T) -> T:
            if name in self.names():
                raise ValueError(f"there is a {self.noun} {name!r} already; choose another name")
            self.added[name] = component
            return component

        return add

    def _folder(self) -> Path:
        spec = importlib.util.find_spec(self.package)
        assert spec is not None
        assert spec.origin is not None
        return Path(spec.origin).parent


BENCHMARKS: "Kind[Benchmark]" = Kind("benchmark", "gauge.experiments.benchmarks")
METHODS: "Kind[type[Method]]" = Kind("method", "gauge.methods")
PLANS: "Kind[Plan]" = Kind("plan", "gauge.experiments.plans")
IMPUTERS: "Kind[type[Imputer]]" = Kind("imputer", "gauge.imputers")
ENCODERS: "Kind[Callable[..., Encoder]]" = Kind("encoder", "gauge.model.encoders")
SCORERS: "Kind[Scorer]" = Kind("scorer", "gauge.model.scoring")

KINDS: dict[str, Kind[Any]] = {
    "benchmarks": BENCHMARKS,
    "methods": METHODS,
    "imputers": IMPUTERS,
    "encoders": ENCODERS,
    "scorers": SCORERS,
}
"""Those that `gauge list` shows."""


def pick(known: Mapping[str, T], name: str, what: str) -> T:
    """The entry of that name; an unknown name is answered with the nearest, or with all there are."""
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
        raise ValueError(f"there is no {what} {name!r}; {hint}")
    return known[name]


plugin_files: list[Path] = []
"""The files that `load_plugin` has run in this process."""


def load_plugin(path: Path) -> None:
    """Run a file of the user's own, whose components then register themselves. A second call does nothing."""
    path = path.resolve()
    if path in plugin_files:
        return
    name = f"gauge_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ValueError(f"there is no plugin {path}; give a Python file that registers components")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
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


def _exports(path: Path) -> list[str]:
    for node in _tree(path).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "__all__":
            return ast.literal_eval(node.value)
    raise ValueError(f"{path.parent.name}/{path.name} has no __all__; name its component there first")
