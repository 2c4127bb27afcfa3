"""Run the tests with a marker (`gpu`, `timm`) and write what passed, with commit and hardware, to perf/results.

`python perf/marked_tests.py timm` writes timm-tests.json.
"""

import json
import sys
from pathlib import Path

import pytest
import torch

from gauge.training.provenance import commit, hardware

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
    code = pytest.main(["-m", marker, "-p", "no:cacheprovider", str(ROOT.parent / "tests")], plugins=[outcomes])
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    record = {"commit": commit(), "hardware": hardware(device), "tests": outcomes.tests}
    out = ROOT / "results" / f"{marker}-tests.json"
    out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
