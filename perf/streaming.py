"""Peak memory and time of prediction and training from files, in parts and in memory, against the number of rows.

python perf/streaming.py predict [--rows 30000 300000] [--out perf/results]
python perf/streaming.py fit [--rows 20000 100000]

Each measurement runs in a process of its own. Memory is anonymous memory (RssAnon), which cannot be given back while the
process runs; the pages of mapped files can. The network has no gates, which spares time, and streamed fits take a sample of
5,000 rows instead of 100,000, so that the tables are larger than the sample.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from gauge import GaugeClassifier
from gauge.deploy.scoring import predict_table
from gauge.tabular import stream
from gauge.training.provenance import commit, hardware

NUMBERS, CATEGORIES = 6, 4
PART = 50_000  # rows of a file
SAMPLE = 5_000  # rows, in streamed fits
MODEL: dict[str, Any] = {"epochs": 1, "gates": False, "random_state": 0, "verbose": False}


def write(folder: Path, rows: int) -> Path:
    """A table in Parquet files: ten columns, a fifth of the cells missing."""
    folder.mkdir(parents=True)
    for start in range(0, rows, PART):
        draw, count = np.random.default_rng(start), min(PART, rows - start)
        numbers = {f"number{index}": draw.normal(size=count) for index in range(NUMBERS)}
        words = {f"word{index}": draw.choice(list("abcde"), count) for index in range(CATEGORIES)}
        table = pd.DataFrame(numbers | words)
        label = np.where(table["number0"] + table["number1"] + (table["word0"] == "a") > 0, "yes", "no")
        table.mask(draw.random(table.shape) < 0.2).assign(label=label).to_parquet(
            folder / f"part-{start:09d}.parquet", index=False
        )
    return folder


def anonymous() -> float:
    """The anonymous memory of this process, in MB."""
    (line,) = (each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith("RssAnon"))
    return int(line.split()[1]) / 1024


def measured(work: Callable[[], object]) -> dict[str, float]:
    """Seconds, and how far memory rose above what it was before."""
    before, peak, done = anonymous(), [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            peak[0] = max(peak[0], anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    started = time.perf_counter()
    work()
    seconds = time.perf_counter() - started
    done.set()
    watcher.join()
    return {"seconds": round(seconds, 1), "peak_mb": round(max(peak[0] - before, 0), 1)}


def one(task: str, form: str, table: Path, model: Path) -> dict[str, float]:
    torch.set_num_threads(1)
    stream.SAMPLE = SAMPLE
    if task == "fit":
        made = GaugeClassifier(**MODEL, experts="network")
        return measured(lambda: made.fit(table if form == "parts" else pd.read_parquet(table), "label"))
    classifier = GaugeClassifier.load(model, device="cpu")
    classifier.predict_proba(pd.read_parquet(next(iter(sorted(table.iterdir()))))[:100])  # to warm up
    if form == "parts":
        return measured(lambda: predict_table(classifier, table, lambda answers: None))
    return measured(lambda: classifier.predict_proba(pd.read_parquet(table)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("task", choices=["predict", "fit"])
    parser.add_argument("--rows", type=int, nargs="+")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        form, table, model = options.one
        print(json.dumps(one(options.task, form, Path(table), Path(model))))
        return
    lines = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        train = pd.read_parquet(write(folder / "train", 2000))
        GaugeClassifier(**MODEL).fit(train, "label").save(folder / "model")
        for rows in options.rows or ([30_000, 300_000] if options.task == "predict" else [20_000, 100_000]):
            table = write(folder / f"table{rows}", rows)
            for form in ("parts", "memory"):
                command = [sys.executable, __file__, options.task, "--one", form, str(table), str(folder / "model")]
                result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
                lines.append({"form": form, "rows": rows, **result})
                print(lines[-1], flush=True)
    about = {"date": str(date.today()), "commit": commit(), "hardware": hardware(torch.device("cpu"))}
    record = about | {"columns": NUMBERS + CATEGORIES, "task": options.task, "runs": lines}
    (options.out / f"streaming-{options.task}-cpu.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
