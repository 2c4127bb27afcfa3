"""Write examples/*.ipynb from the pages of Start, so that nothing is written twice, with their outputs: `make notebooks`.

A notebook has all code of its page, and of the prose the headings and the paragraph before each block.

With `--prose` only the prose is written anew and outputs are kept.
"""

import json
import posixpath
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGES = ("table-in-five-minutes", "gauge-plus-in-ten-minutes", "wrap-in-five-minutes")
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
    """The page as cells without outputs; its links start from examples/."""
    parts = BLOCK.split((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"))[:-1]
    parts[::2] = [
        LINK.sub(lambda link: posixpath.relpath(posixpath.join("docs", link[1]), "examples"), brief(prose))
        for prose in parts[::2]
    ]
    return [cell(number, part) for number, part in enumerate(parts) if part.strip()]


def brief(prose: str) -> str:
    """Headings that have code, and what stands before it."""
    paragraphs = prose.strip().split("\n\n")
    return "\n\n".join([*(each for each in paragraphs[:-1] if each.startswith("#")), paragraphs[-1]][-2:])


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


def is_progress(given: dict[str, Any]) -> bool:
    """Bars and lines that training shows while it runs."""
    return given.get("name") == "stderr" or given["output_type"] == "display_data"


def with_outputs(page: str) -> list[dict[str, Any]]:
    """The cells after running them."""
    import nbformat
    from nbclient import NotebookClient

    written = cells(page)
    with tempfile.TemporaryDirectory() as folder:
        demo = [
            sys.executable,
            "-m",
            "gauge",
            "demo",
            "--table",
            "--epochs",
            "1",
        ]  # its files are read by the first page
        subprocess.run(demo, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        notebook = nbformat.reads(notebook_of(written), as_version=4)
        options: dict[str, Any] = {"timeout": 1200, "record_timing": False, "resources": {"metadata": {"path": folder}}}
        NotebookClient(notebook, **options).execute()
    for each, ran in zip(written, notebook.cells, strict=True):
        if each["cell_type"] == "code":
            each["execution_count"] = ran.execution_count
            each["outputs"] = [output(given) for given in ran.outputs if not is_progress(given)]
    return written


def with_new_prose(page: str) -> list[dict[str, Any]]:
    """The cells with the outputs that the notebook has, if its code is still that of the tutorial."""
    written = cells(page)
    code, before = (
        [each for each in all_cells if each["cell_type"] == "code"]
        for all_cells in (written, json.loads(path(page).read_text(encoding="utf-8"))["cells"])
    )
    if [each["source"] for each in code] != [each["source"] for each in before]:
        sys.exit(f"the code of docs/{page}.md has changed; run make notebooks")
    for each, old in zip(code, before, strict=True):
        each |= {name: old[name] for name in ("execution_count", "outputs")}
    return written


def notebook_of(written: list[dict[str, Any]]) -> str:
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {"cells": written, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    make = with_new_prose if sys.argv[1:] == ["--prose"] else with_outputs
    for page in PAGES:
        path(page).write_text(notebook_of(make(page)), encoding="utf-8")
