"""What several commands print: tables, progress."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gauge.training.stages import OnEpoch


def print_markdown(table: str) -> None:
    """Print a drawn table on a terminal, and Markdown into a pipe."""
    if not sys.stdout.isatty():
        print(table)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(table))


@contextmanager
def progress(tensorboard: Path | None = None) -> "Iterator[OnEpoch]":
    """The callback that shows progress and, with a folder, also logs for TensorBoard."""
    from gauge.training.progress import stage_progress
    from gauge.training.tensorboard import tensorboard_log

    with stage_progress() as show, nullcontext() if tensorboard is None else tensorboard_log(tensorboard) as log:
        yield lambda stage, epoch: [each(stage, epoch) for each in (show, log) if each is not None]
