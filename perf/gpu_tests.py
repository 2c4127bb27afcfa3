"""Run the tests marked `gpu` and write what passed, with commit and hardware, to perf/results/gpu-tests.json."""

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
        if report.when == "call" or report.failed:
            self.tests[report.nodeid.partition("::")[2]] = report.outcome


def main(out: Path) -> int:
    outcomes = Outcomes()
    code = pytest.main(["-m", "gpu", "-p", "no:cacheprovider", str(ROOT.parent / "tests" / "gpu")], plugins=[outcomes])
    record = {"commit": commit(), "hardware": hardware(torch.device("cuda")), "tests": outcomes.tests}
    out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return int(code)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "results" / "gpu-tests.json"))
