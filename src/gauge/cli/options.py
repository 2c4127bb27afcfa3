"""Options shared by several commands, and how they are parsed."""

import re
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
Device = Annotated[
    str | None,
    typer.Option(
        callback=_check_device,
        help="auto, cpu, cuda, cuda:NUMBER or mps. Default: auto, a GPU if there is one.",
        autocompletion=lambda: ["auto", "cpu", "cuda", "mps"],
    ),
]
TableFile = Annotated[
    Path,
    typer.Argument(
        help="A table: .csv, .tsv, .jsonl (also as .csv.gz), .parquet or .xlsx, a folder or 'a pattern' of them."
    ),
]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--column", help="Kind of a column, NAME=number|category|text|image|signal|vector|ignore; may be repeated."
    ),
]
KIND = "ward=category"
MaxCategories = Annotated[
    int, typer.Option(min=2, max=4096, help="Categories that a column keeps; the others are rare.")
]
Model = Annotated[Path, typer.Argument(help="Folder that `gauge fit` wrote.")]
ModelOrExport = Annotated[
    Path, typer.Argument(help="Folder that `gauge fit` wrote, or file that `gauge export` wrote.")
]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="Refuse a table with values unlike training or that cannot be read: exit code 3."),
]
Epochs = Annotated[int | None, typer.Option(min=1, help="Train every stage for this many epochs, for a quick look.")]
Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        callback=_load_plugins,
        is_eager=True,
        help="Python file with components of your own; may be repeated.",
    ),
]
TimeLimitOption = Annotated[str | None, typer.Option(help="Stop after about this long, e.g. 8m or 1h30m.")]
OutsideImages = Annotated[
    bool, typer.Option("--outside-images", help="Also read images that lie outside the table's folder.")
]


def seconds(text: str) -> float:
    """The duration in 90s, 8m or 1h30m."""
    parts = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", text)
    if not text or not parts:
        raise ValueError(f"time limit {text!r} is not a duration; write for example 90s, 8m or 1h30m")
    hours, minutes, rest = (int(part or 0) for part in parts.groups())
    return 3600 * hours + 60 * minutes + rest


def named(option: str, texts: list[str] | None, example: str) -> dict[str, str]:
    """The values of NAME=VALUE by name; a path may contain equals signs, and any other value follows the last one."""
    values = {}
    for text in texts or []:
        name, _, value = text.partition("=") if option == "--encoder" else text.rpartition("=")
        if not name or not value:
            raise ValueError(f"{option} {text!r} is not NAME=VALUE; write for example {example}")
        values[name] = value
    return values
