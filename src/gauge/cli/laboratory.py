"""The commands of the laboratory, which entry points of the group `gauge.commands` name where it is installed."""

from importlib.metadata import entry_points
from typing import Any, NoReturn

import typer


def laboratory(command: str) -> Any:
    """The function or the group of that command, None where the laboratory is not installed."""
    return next((point.load() for point in entry_points(group="gauge.commands", name=command)), None)


def register(app: typer.Typer, panel: str) -> None:
    """Add the commands of the laboratory, or in their place commands that say how to get it."""
    for name in ("benchmark", "reproduce", "stage"):
        command = laboratory(name)
        if command is None:
            anything = {"ignore_unknown_options": True, "allow_extra_args": True}
            app.command(name, hidden=True, context_settings=anything)(_refusing)
        elif isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=panel)
        else:
            app.command(name, rich_help_panel=panel)(command)


def _refusing(context: typer.Context) -> None:
    refuse(str(context.info_name))


def refuse(command: str) -> NoReturn:
    """Say how to get the laboratory."""
    raise ValueError(
        f"`gauge {command}` belongs to the laboratory, which is not part of gauge-ml; clone the repository, and run "
        "`pip install --editable . --editable lab` there"
    )
