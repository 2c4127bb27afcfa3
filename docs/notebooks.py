"""Write examples/*.ipynb from the tutorials, so that nothing is written twice, and run them for their outputs: `make notebooks`."""

import json
import posixpath
import re
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGES = ("own-data", "own-tensors", "own-transformer")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)\s#]+)")
SHOWN = ("text/plain", "text/html", "image/png")


def cell(number: int, source: str) -> dict[str, Any]:
    """Prose and blocks of code take turns, prose first."""
    common = {"id": f"cell-{number}", "metadata": {}, "source": source.strip().splitlines(keepends=True)}
    if number % 2:
        return {"cell_type": "code", "execution_count": None, "outputs": [], **common}
    return {"cell_type": "markdown", **common}


def cells(page: str) -> list[dict[str, Any]]:
    """The tutorial as cells without outputs; its links start from examples/."""
    parts = BLOCK.split((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"))
    parts[::2] = [
        LINK.sub(lambda link: posixpath.relpath(posixpath.join("docs", link[1]), "examples"), prose)
        for prose in parts[::2]
    ]
    return [cell(number, part) for number, part in enumerate(parts) if part.strip()]


def path(page: str) -> Path:
    return ROOT / "examples" / f"{page.replace('-', '_')}.ipynb"


def output(given: dict[str, Any]) -> dict[str, Any]:
    """An output as it is kept: long texts as lines, and only what a reader of the file can show."""
    kept = dict(given)
    if "text" in kept:
        kept["text"] = kept["text"].splitlines(keepends=True)
    if "data" in kept:
        kept["data"] = {
            kind: value if kind == "image/png" else value.splitlines(keepends=True)
            for kind, value in kept["data"].items()
            if kind in SHOWN
        }
    return kept


def executed(page: str) -> str:
    """The notebook with its outputs. Progress, which goes to stderr, is left out."""
    import nbformat
    from nbclient import NotebookClient

    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content: dict[str, Any] = {
        "cells": cells(page),
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    with tempfile.TemporaryDirectory() as folder:
        notebook = nbformat.reads(json.dumps(content), as_version=4)
        options: dict[str, Any] = {"timeout": 1200, "record_timing": False, "resources": {"metadata": {"path": folder}}}
        NotebookClient(notebook, **options).execute()
    for written, ran in zip(content["cells"], notebook.cells, strict=True):
        if written["cell_type"] == "code":
            written["execution_count"] = ran.execution_count
            written["outputs"] = [output(each) for each in ran.outputs if each.get("name") != "stderr"]
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    for page in PAGES:
        path(page).write_text(executed(page), encoding="utf-8")
