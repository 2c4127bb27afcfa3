"""Options shared by several commands, and how they are parsed."""

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from gauge.registry import load_plugin


def _load_plugins(files: list[Path] | None) -> list[Path] | None:
    for file in files or []:
        load_plugin(file)
    return files


def _check_device(name: str | None) -> str | None:
    """Report a device that does not exist before anything is read."""
    if name is not None:
        from gauge.training.device import pick_device

        pick_device(name)
    return name


TABLES, PRODUCTION, RESEARCH = "Your tables", "Production", "Research"  # the groups of commands
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
DEVICE = "auto, cpu, cuda, cuda:NUMBER or mps. Default: auto, a GPU if there is one."
Device = Annotated[
    str | None, typer.Option(callback=_check_device, help=DEVICE, autocompletion=lambda: ["auto", "cpu", "cuda", "mps"])
]
Model = Annotated[Path, typer.Argument(help="Folder that `gauge fit` wrote.")]
Trusted = Annotated[
    Path | None, typer.Option(help="Public ed25519 key (KEY.pub); a model not signed with it is refused.")
]
Epochs = Annotated[int | None, typer.Option(min=1, help="Train every stage for this many epochs, for a quick look.")]
Protocols = Annotated[
    list[str] | None, typer.Option("--protocol", help="Conditions to evaluate, e.g. eta=0.8; may be repeated.")
]
PLUGIN = "Python file with components of your own; may be repeated."
Plugins = Annotated[list[Path] | None, typer.Option("--plugin", callback=_load_plugins, is_eager=True, help=PLUGIN)]
TimeLimit = Annotated[str | None, typer.Option(help="Stop after about this long, e.g. 8m or 1h30m.")]
TrainedModel = Annotated[
    Path, typer.Argument(help="Folder of a trained stage, WORKSPACE/stages/NAME, or one that `gauge fit` wrote.")
]
OutsideImages = Annotated[
    bool, typer.Option("--outside-images", help="Also read images that lie outside the table's folder.")
]


@contextmanager
def heavy_imports() -> Iterator[None]:
    """Import modules without looking for garbage meanwhile, which takes a fifth of the time and finds none, and never look
    through what they hold again, not even when the process ends."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def check_paths(model: Path | None, table: Path) -> None:
    """Report a table or a model that does not exist before anything heavy is imported."""
    from gauge.tabular.table.paths import table_files

    table_files(table)
    if model is not None and not model.exists():
        kind = "file" if model.suffix == ".onnx" else "folder"
        raise ValueError(
            f"there is no {kind} {model}; give a folder that `gauge fit` wrote, or a file of `gauge export`"
        )


def seconds(text: str) -> float:
    """The duration in 90s, 8m or 1h30m."""
    parts = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", text)
    if not text or not parts:
        raise ValueError(f"time limit {text!r} is not a duration; write for example 90s, 8m or 1h30m")
    hours, minutes, rest = (int(part or 0) for part in parts.groups())
    return 3600 * hours + 60 * minutes + rest


def named(option: str, texts: list[str] | None, example: str) -> dict[str, str]:
    """The values of NAME=VALUE by name; a value may contain equals signs."""
    values = {}
    for text in texts or []:
        name, _, value = text.partition("=")
        if not name or not value:
            raise ValueError(f"{option} {name!r} is not NAME=VALUE; write for example {example}")
        values[name] = value
    return values
