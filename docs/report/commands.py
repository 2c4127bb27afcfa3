"""The reference of the command line: every command with all its options, as the commands describe themselves."""

from typing import Any

import typer

from gauge.cli.main import app

OPENING = """# Commands

Every command with all its options, written by `docs/generate.py` from the commands themselves; `gauge COMMAND --help` shows
the same. Commands under Research come with a clone, apart from `demo --table` and `list`. Results go to stdout and files,
progress to stderr.
"""


def command_page() -> str:
    """Return docs/commands.md."""
    root = typer.main.get_command(app)
    panels: dict[str, list[str]] = {}
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        panels.setdefault(str(command.rich_help_panel), []).append(_section(f"gauge {name}", command))
    return OPENING + "".join(f"\n## {panel}\n" + "".join(sections) for panel, sections in panels.items())


def _section(name: str, command: Any, level: int = 3) -> str:
    text = f"\n{'#' * level} {name}\n\n{_paragraphs(command.help)}\n"
    if hasattr(command, "commands"):
        return text + "".join(_section(f"{name} {each.name}", each, level + 1) for each in command.commands.values())
    records = [_record(each) for each in command.params if each.name != "help"]
    return text + "\n| argument or option | meaning |\n|---|---|\n" + "\n".join(records) + "\n"


def _record(parameter: Any) -> str:
    """A line of the table; the words for types differ between versions of typer, so values are just VALUE."""
    if parameter.param_type_name == "argument":
        names = parameter.name.upper()
    else:
        value = "" if getattr(parameter, "is_flag", False) else f" {parameter.metavar or 'VALUE'}"
        names = ", ".join((*parameter.opts, *parameter.secondary_opts)) + value
    meaning = " ".join((parameter.help or "").split())
    if parameter.required:
        meaning += " Required."
    elif (
        parameter.default not in (None, (), []) and not isinstance(parameter.default, bool) and "Default" not in meaning
    ):
        meaning += f" Default: {getattr(parameter.default, 'value', parameter.default)}."
    names, meaning = (text.replace("|", "\\|").replace("<", "&lt;") for text in (names, meaning))
    return f"| `{names}` | {meaning} |"


def _paragraphs(text: str | None) -> str:
    return "\n\n".join(" ".join(part.split()) for part in (text or "").split("\n\n"))
