"""What several commands print: tables, what was missing, progress."""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gauge.experiments.results import Result
    from gauge.training.stages import OnEpoch


def print_markdown(table: str) -> None:
    """As a drawn table on a terminal, as Markdown into a pipe."""
    if not sys.stdout.isatty():
        print(table)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(table))


def print_missing(results: "Sequence[Result]") -> None:
    """What was really missing, once for every protocol."""
    for protocol, missing in {result.protocol: result.data["missing"] for result in results}.items():
        print(f"missing under {protocol}: " + ", ".join(f"{name} {100 * rate:.1f} %" for name, rate in missing.items()))


def progress() -> "AbstractContextManager[OnEpoch]":
    from gauge.training.progress import stage_progress

    return stage_progress()
