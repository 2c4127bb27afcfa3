"""Progress bars on stderr, one for each stage, with its score and the time left."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from gauge.training.loop import Epoch


@contextmanager
def stage_progress() -> Iterator[Callable[[str, Epoch], None]]:
    """The `on_epoch` callback of a Workspace, as a context."""
    columns = (
        TextColumn("{task.description:24}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("epochs, {task.fields[note]:28}"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, TaskID] = {}

        def on_epoch(stage: str, epoch: Epoch) -> None:
            note = ", ".join(f"{name} {value:.4g}" for name, value in epoch.losses.items())
            if epoch.score is not None:
                note = f"validation {100 * epoch.score:.1f} %"
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=epoch.of, note=note)
            bars.update(tasks[stage], completed=epoch.number, note=note)

        yield on_epoch
