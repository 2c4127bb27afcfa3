"""Write examples/*.ipynb from the tutorials, so that nothing is written twice: `python docs/notebooks.py`.

With `--execute FOLDER` the notebooks are also run, and the results go to that folder: `make notebooks`.
"""

import json
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGES = ("own-data", "own-tensors", "own-transformer")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)\s#]+)")


def cell(number: int, source: str) -> dict[str, Any]:
    """Prose and blocks of code take turns, prose first."""
    common = {"id": f"cell-{number}", "metadata": {}, "source": source.strip().splitlines(keepends=True)}
    if number % 2:
        return {"cell_type": "code", "execution_count": None, "outputs": [], **common}
    return {"cell_type": "markdown", **common}


def notebook(page: str) -> str:
    """The tutorial as a notebook without results; its links start from examples/."""
    parts = BLOCK.split((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"))
    parts[::2] = [
        LINK.sub(lambda link: posixpath.relpath(posixpath.join("docs", link[1]), "examples"), prose)
        for prose in parts[::2]
    ]
    cells = [cell(number, part) for number, part in enumerate(parts) if part.strip()]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def path(page: str) -> Path:
    return ROOT / "examples" / f"{page.replace('-', '_')}.ipynb"


def execute(source: Path, folder: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    content = nbformat.read(source, as_version=4)
    NotebookClient(content, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()
    nbformat.write(content, folder / source.name)


if __name__ == "__main__":
    for page in PAGES:
        path(page).write_text(notebook(page), encoding="utf-8")
        if sys.argv[1:2] == ["--execute"]:
            execute(path(page), Path(sys.argv[2]))
