"""Finds the Python blocks of a page and runs them as a reader would: in order, in one namespace."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from helpers import unchecked

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```python(?: file=(?P<file>\S+))?\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Page:
    path: Path

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    def files(self) -> dict[str, str]:
        """Blocks that show a whole file, by its path in the repository."""
        return {block["file"]: block["code"] for block in FENCE.finditer(self.text) if block["file"]}

    def code(self) -> str:
        """All other Python blocks, on the lines where the page has them, so that an error points into the page."""
        lines = [""] * self.text.count("\n")
        for block in FENCE.finditer(self.text):
            if not block["file"]:
                start = self.text.count("\n", 0, block.start("code"))
                code = block["code"].splitlines()
                lines[start : start + len(code)] = code
        return "\n".join(lines) + "\n"

    def run(self) -> dict[str, object]:
        """The names that the page's code has defined."""
        names: dict[str, object] = {"__name__": self.path.stem}
        with torch.random.fork_rng(), unchecked():
            torch.manual_seed(0)
            exec(compile(self.code(), str(self.path), "exec"), names)
        return names


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def page() -> Callable[[str], Page]:
    return lambda name: Page(ROOT / name)


@pytest.fixture
def cars(tmp_path) -> Path:
    """A folder with the files that `gauge demo --table` writes first."""
    from gauge.tabular import demo

    table = demo.cars()
    train, test = table.divided(0)
    (folder := tmp_path / "gauge-table-demo").mkdir()
    train.to_csv(folder / "train.csv", index=False)
    table.with_blanks(test, 0.3, seed=1).to_csv(folder / "test-30.csv", index=False)
    return tmp_path
