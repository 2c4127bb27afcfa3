"""What several commands print."""

import sys


def print_markdown(table: str) -> None:
    """Print a drawn table on a terminal, and Markdown into a pipe."""
    if not sys.stdout.isatty():
        print(table)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(table))
