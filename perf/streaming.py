"""Peak memory and time of prediction and training from files, in parts and in memory, against the number of rows.

    python perf/streaming.py predict [--rows 200000 5000000] [--in-memory 200000] [--out perf/results]
    python perf/streaming.py fit [--rows 200000 1000000]

Each measurement runs in a process of its own, in memory only up to `--in-memory` rows. Memory is anonymous memory (RssAnon),
which cannot be given back while the process runs; the pages of mapped files can. Predictions are those of all experts and
are written to a Parquet file. What is fitted is a network alone, for one epoch. It has no gates, which spares time. With
`--device cuda` networks run on a GPU.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from gauge import GaugeClassifier
from gauge.deploy.scoring import predict_table, predictions_file
from gauge_lab.recording import origin, write_record

NUMBERS, CATEGORIES = 6, 4
PART = 50_000  # rows of a file
ROWS = {"predict": [200_000, 5_000_000], "fit": [200_000, 1_000_000]}
MODEL: dict[str, Any] = {"epochs": 1, "random_state": 0, "verbose": False}


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
    (line,) = (text for text in Path("/proc/self/status").read_text().splitlines() if text.startswith("RssAnon"))
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


def one(task: str, form: str, table: Path, model: Path, device: str) -> dict[str, float]:
    torch.set_num_threads(1)
    if task == "fit":
        made = GaugeClassifier(**MODEL, experts="network", device=device)
        return measured(lambda: made.fit(table if form == "parts" else pd.read_parquet(table), "label"))
    classifier = GaugeClassifier.load(model, device=device)
    classifier.predict_proba(pd.read_parquet(next(iter(sorted(table.iterdir()))))[:100])  # to warm up
    if form == "memory":
        return measured(lambda: classifier.predict_proba(pd.read_parquet(table)))
    with table.with_suffix(".answers").open("wb") as file, predictions_file(file, ".parquet") as write_predictions:
        return measured(lambda: predict_table(classifier.fitted_, table, write_predictions))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("task", choices=["predict", "fit"])
    parser.add_argument("--rows", type=int, nargs="+")
    parser.add_argument("--in-memory", type=int, default=200_000, help="rows of the largest table that is read at once")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        form, table, model = options.one
        print(json.dumps(one(options.task, form, Path(table), Path(model), options.device)))
        return
    lines = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        train = pd.read_parquet(write(folder / "train", 2000))
        GaugeClassifier(**MODEL).fit(train, "label").save(folder / "model")
        for rows in options.rows or ROWS[options.task]:
            table = write(folder / f"table{rows}", rows)
            for form in ("parts", "memory") if rows <= options.in_memory else ("parts",):
                command = [sys.executable, __file__, options.task, "--device", options.device]
                command += ["--one", form, str(table), str(folder / "model")]
                result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
                lines.append({"form": form, "rows": rows, **result, "rows_per_second": round(rows / result["seconds"])})
                print(lines[-1], flush=True)
    record = origin(options, options.device) | {"columns": NUMBERS + CATEGORIES, "task": options.task, "runs": lines}
    write_record(options.out / f"streaming-{options.task}-{options.device}.json", record)


if __name__ == "__main__":
    main()
