"""Rows predicted in a second by one process, and by Ray with one worker and with two, on this machine.

    python perf/on_ray.py [--rows 60000] [--out perf/results]

Needs the extra `ray`. Every form predicts a table of one part and one of `--rows` more, with all experts and a thread
for each process; the rate is that of the rows by which they differ, so that the start of Ray and of its workers counts as `start`.
Ratios are within this one run. `load` is the load average at the start.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path

import pandas as pd
import torch
from streaming import CATEGORIES, MODEL, NUMBERS, write

from gauge import GaugeClassifier
from gauge.deploy.cluster import Predictor, predict_on_ray
from gauge.deploy.scoring import answers_file, predict_table
from gauge.tabular.arrays import ROWS_AT_ONCE
from gauge.training.provenance import commit, hardware


def alone(model: Path, table: Path, out: Path) -> None:
    """In this process, part by part, as `gauge predict` does."""
    classifier = GaugeClassifier.load(model, device="cpu")
    with out.open("wb") as file, answers_file(file, ".parquet") as write_answers:
        predict_table(classifier, table, write_answers)


def on_ray(workers: int, model: Path, table: Path, out: Path) -> None:
    predict_on_ray(Predictor(model, device="cpu"), table, out, workers=workers)


def seconds(work: Callable[[Path, Path, Path], None], model: Path, table: Path, out: Path) -> float:
    started = time.perf_counter()
    work(model, table, out)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    torch.set_num_threads(1)
    about = {"date": str(date.today()), "commit": commit(), "load": round(os.getloadavg()[0], 1)}
    forms = {"one process": alone, "Ray, one worker": partial(on_ray, 1), "Ray, two workers": partial(on_ray, 2)}
    lines = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        train = pd.read_parquet(write(folder / "train", 2000))
        GaugeClassifier(**MODEL).fit(train, "label").save(folder / "model")
        little, much = write(folder / "little", ROWS_AT_ONCE), write(folder / "much", ROWS_AT_ONCE + options.rows)
        for form, work in forms.items():
            start, total = (
                seconds(work, folder / "model", table, folder / f"{form} {table.name}") for table in (little, much)
            )
            rate = options.rows / (total - start)
            lines.append({"form": form, "start": round(start, 1), "rows_per_second": round(rate)})
            print(lines[-1], flush=True)
    rates = [line["rows_per_second"] for line in lines]
    for line in lines:
        line["over_one_process"] = round(line["rows_per_second"] / rates[0], 2)
    record = about | {
        "hardware": hardware(torch.device("cpu")),
        "cpus": os.cpu_count(),
        "columns": NUMBERS + CATEGORIES,
    }
    record |= {"rows": options.rows, "two_workers_over_one": round(rates[2] / rates[1], 2), "runs": lines}
    (options.out / "ray-cpu.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
