"""What several commands print: tables, what was missing, progress."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gauge_lab.results import Result

    from gauge.training.stages import OnEpoch


def print_markdown(table: str) -> None:
    """Print a drawn table on a terminal, and Markdown into a pipe."""
    if not sys.stdout.isatty():
        print(table)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(table))


def print_missing(results: "Sequence[Result]") -> None:
    """Print the shares of values that were missing, once for every protocol."""
    for protocol, missing in {result.protocol: result.data["missing"] for result in results}.items():
        print(f"missing under {protocol}: " + ", ".join(f"{name} {100 * rate:.1f} %" for name, rate in missing.items()))


@contextmanager
def progress(tensorboard: Path | None = None) -> "Iterator[OnEpoch]":
    """The callback that shows progress and, with a folder, also logs for TensorBoard."""
    from gauge.training.progress import stage_progress
    from gauge.training.stages import both
    from gauge.training.tensorboard import tensorboard_log

    with stage_progress() as show, nullcontext() if tensorboard is None else tensorboard_log(tensorboard) as log:
        yield show if log is None else both(show, log)
