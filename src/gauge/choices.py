"""Names that users choose from: the error for an unknown one suggests the nearest."""

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")


def pick(known: Mapping[str, T], name: str, what: str) -> T:
    """The entry of that name; the error for an unknown name suggests the nearest one, or lists them all."""
    if name not in known:
        hint = did_you_mean(name, known) or f"known: {', '.join(map(str, known))}"
        raise ValueError(f"there is no {what} {name!r}; {hint}")
    return known[name]


def as_names(names: str | Iterable[str]) -> list[str]:
    """Several names, or one."""
    return [names] if isinstance(names, str) else list(names)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that suggests the nearest known name; empty if none is near.

    >>> did_you_mean("gage", ["gauge", "dymo"])
    "did you mean 'gauge'?"
    """
    near = difflib.get_close_matches(str(name), list(known), n=1)
    return f"did you mean {near[0]!r}?" if near and near[0] != name else ""
