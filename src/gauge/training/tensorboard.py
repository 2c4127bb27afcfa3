"""Losses and validation scores of every stage for TensorBoard (extra `tensorboard`)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gauge.training.loop import Epoch


@contextmanager
def tensorboard_log(folder: Path) -> "Iterator[Callable[[str, Epoch], None]]":
    """The `on_epoch` callback that writes one run for each stage to `folder`, as a context."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ValueError(
            "TensorBoard is not installed; install it with: pip install 'gauge-ml[tensorboard]'"
        ) from error
    writers: dict[str, Any] = {}

    def on_epoch(stage: str, epoch: "Epoch") -> None:
        if stage not in writers:
            writers[stage] = SummaryWriter(str(folder / stage))
        values = {f"loss/{name}": value for name, value in epoch.losses.items()} | {"seconds": epoch.seconds}
        if epoch.score is not None:
            values["validation"] = epoch.score
        for name, value in values.items():
            writers[stage].add_scalar(name, value, epoch.number)

    try:
        yield on_epoch
    finally:
        for writer in writers.values():
            writer.close()
