"""A command alone and beside one other busy process, on two cores: how many times as long it takes.

python perf/beside.py [--epochs 5] [--repeats 3] [--out perf/results]

The command is `gauge demo --table` with the number of threads that it chooses itself, and with two (OMP_NUM_THREADS=2), as
many as torch chooses on two cores.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gauge_lab.recording import origin, write_record

THREADS = {"the default": None, "two threads": "2"}
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@contextmanager
def busy_process() -> Iterator[None]:
    """A process that never waits."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def seconds(epochs: int, threads: str | None) -> float:
    """The time that the command takes."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    if threads is not None:
        environment["OMP_NUM_THREADS"] = threads
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "gauge", "demo", "--table", "--epochs", str(epochs), "--out", folder]
        started = time.perf_counter()
        subprocess.run(command, env=environment, check=True, capture_output=True)
        return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    runs = {}
    for name, threads in THREADS.items():
        alone = [seconds(options.epochs, threads) for _ in range(options.repeats)]
        with busy_process():
            beside = [seconds(options.epochs, threads) for _ in range(options.repeats)]
        runs[name] = {
            "alone_seconds": [round(each, 1) for each in alone],
            "beside_seconds": [round(each, 1) for each in beside],
            "ratio": round(min(beside) / min(alone), 2),
        }
        print(name, runs[name], flush=True)
    write_record(options.out / "beside-cpu.json", origin(options) | {"epochs": options.epochs, "runs": runs})


if __name__ == "__main__":
    main()
