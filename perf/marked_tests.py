"""Run the tests with a marker (`gpu`, `timm`) and write what passed, with commit and hardware, to perf/results.

`python perf/marked_tests.py timm` writes timm-tests.json.
"""

import sys
from pathlib import Path

import pytest
import torch

from gauge_lab.recording import origin, write_record

ROOT = Path(__file__).parent


class Outcomes:
    """Collects the outcome of every test that ran."""

    def __init__(self) -> None:
        self.tests: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            self.tests[report.nodeid.partition("::")[2]] = report.outcome


def main(marker: str) -> int:
    outcomes = Outcomes()
    files = [str(path) for path in (ROOT.parent / "tests").rglob("test_*.py") if f"mark.{marker}" in path.read_text()]
    code = pytest.main(["-m", marker, "-p", "no:cacheprovider", *files], plugins=[outcomes])
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    write_record(ROOT / "results" / f"{marker}-tests.json", origin(device=device) | {"tests": outcomes.tests})
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
