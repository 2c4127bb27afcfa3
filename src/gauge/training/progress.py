"""Progress on stderr: a bar for each stage on a terminal, otherwise a line for an epoch, at most every 30 seconds."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from gauge.training.loop import Epoch

SECONDS = 30  # between two lines of a stage


@contextmanager
def stage_progress() -> Iterator[Callable[[str, Epoch], None]]:
    """The `on_epoch` callback of a Workspace, as a context."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(console)
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

        def on_epoch(stage: str, epoch: Epoch) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=epoch.of, note="")
            bars.update(tasks[stage], completed=epoch.number, note=_note(epoch))

        yield on_epoch


def _lines(console: Console) -> Callable[[str, Epoch], None]:
    """Prints the first and the last epoch of a stage, and others if the last line was some time ago."""
    printed: dict[str, float] = {}

    def on_epoch(stage: str, epoch: Epoch) -> None:
        if epoch.number < epoch.of and time.monotonic() < printed.get(stage, -SECONDS) + SECONDS:
            return
        printed[stage] = time.monotonic()
        console.out(f"{stage}: epoch {epoch.number} of {epoch.of}, {_note(epoch)}", highlight=False)

    return on_epoch


def _note(epoch: Epoch) -> str:
    if epoch.score is not None:
        return f"validation {100 * epoch.score:.1f} %"
    return ", ".join(f"{name} {value:.4g}" for name, value in epoch.losses.items())
