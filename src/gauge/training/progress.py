"""Progress on stderr: a bar for each stage on a terminal, with its score and the time left, and lines elsewhere."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from gauge.training.loop import Epoch


@contextmanager
def stage_progress() -> "Iterator[Callable[[str, Epoch], None]]":
    """The `on_epoch` callback of a Workspace, as a context."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lines(lambda line: console.print(line, highlight=False, markup=False, soft_wrap=True))
        return
    columns = (
        TextColumn("{task.description:24}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("epochs, {task.fields[note]:28}"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=console) as bars:
        tasks: dict[str, TaskID] = {}

        def on_epoch(stage: str, epoch: "Epoch") -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=epoch.of, note=_note(epoch))
            bars.update(tasks[stage], completed=epoch.number, note=_note(epoch))

        yield on_epoch


def lines(show: Callable[[str], object], clock: Callable[[], float] = time.monotonic) -> "Callable[[str, Epoch], None]":
    """Shows a line after the first and the last epoch of a stage, and after others if the latest line is 30 s old."""
    latest: dict[str, float] = {}

    def on_epoch(stage: str, epoch: "Epoch") -> None:
        # seconds between lines, at least, within a stage
        if epoch.number == epoch.of or clock() - latest.get(stage, -math.inf) >= 30.0:
            latest[stage] = clock()
            show(f"{stage}: epoch {epoch.number} of {epoch.of}, {_note(epoch)}")

    return on_epoch


def _note(epoch: "Epoch") -> str:
    if epoch.score is not None:
        return f"validation {100 * epoch.score:.1f} %"
    return ", ".join(f"{name} {value:.4g}" for name, value in epoch.losses.items())
