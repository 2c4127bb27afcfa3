"""Which runs make which tables and figures: `manifest.yaml` in the folder of results, which the package does not contain."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from gauge.choices import pick
from gauge.training.settings import Settings


class Shown(Settings):
    """What a table shows of one benchmark: rows, the number of seeds, and protocols (by default those of the benchmark)."""

    rows: tuple[str, ...]
    seeds: int = Field(default=3, ge=1)
    protocols: tuple[str, ...] = ()


class Run(Settings):
    """One comparison, stored in the folder `name`, with the arguments of `gauge benchmark`. `settings` is a YAML file;
    `audits` are the protocols of `gauge stage audit` for every seed of the rows `audited`."""

    name: str
    rows: tuple[str, ...]
    seeds: int = Field(ge=1)
    settings: str = ""
    protocols: tuple[str, ...] = ()
    audits: tuple[str, ...] = ()
    audited: tuple[str, ...] = ("gauge",)

    @property
    def benchmark(self) -> str:
        return self.name.partition("/")[0]


class Entry(Settings):
    """A table or figure: the runs and scripts that it needs, and what it shows of each benchmark. By default it shows all of
    its runs. Scripts have the placeholders DATA, RUNS and RESULTS."""

    title: str
    runs: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    shows: dict[str, Shown] = Field(default_factory=dict)


class Manifest(Settings):
    """All runs, and the entries of each section that they make."""

    groups: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    runs: dict[str, Run]
    paper: dict[str, Entry] = Field(default_factory=dict)
    docs: dict[str, Entry] = Field(default_factory=dict)
    open: dict[str, Entry] = Field(default_factory=dict)

    @classmethod
    def from_folder(cls, results: Path) -> Self:
        path = results / "manifest.yaml"
        if not path.is_file():
            raise ValueError(
                f"{path} does not exist: manifest, settings and results are in the repository, not in the installed "
                "package; run this in a checkout, or give --results DIR"
            )
        return cls.load(path)

    @property
    def entries(self) -> dict[str, Entry]:
        return {**self.paper, **self.docs, **self.open}

    @model_validator(mode="before")
    @classmethod
    def _without_groups(cls, content: dict[str, Any]) -> dict[str, Any]:
        """The content with the members of groups in place of their names, and with the name of each run."""
        members = _without_groups(content, content.get("groups", {}))
        runs = {name: {"name": name, **run} for name, run in members.get("runs", {}).items()}
        return {**members, "runs": runs}

    @model_validator(mode="after")
    def _with_runs_that_exist(self) -> Self:
        for entry in self.entries.values():
            for run in entry.runs:
                pick(self.runs, run, "run in the manifest")
        return self


def _without_groups(value: Any, groups: Mapping[str, list[str]]) -> Any:
    if isinstance(value, dict):
        return {name: _without_groups(part, groups) for name, part in value.items()}
    if not isinstance(value, list):
        return value
    members: list[Any] = []
    group = "$"  # starts the name of a group
    for part in value:
        if isinstance(part, str) and part.startswith(group):
            members += _without_groups(pick(groups, part.removeprefix(group), "group in the manifest"), groups)
        else:
            members.append(part)
    return members
