"""Rows predicted in a second by one process, and by Ray with one worker and with two, on this machine.

    python perf/on_ray.py [--rows 400000] [--out perf/results]

Needs the extra `ray`. Every form predicts the same files with all experts, a thread for each process. `start` is the time
before the first rows are predicted: Ray has to start its processes, which load the model. The rate is that of all rows after
it, reading and writing included. Ratios are within this one run. `load` is the load average at the start.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from streaming import CATEGORIES, MODEL, NUMBERS, write

from gauge import GaugeClassifier
from gauge.deploy.cluster import Predictor, predict_on_ray
from gauge.deploy.scoring import predictions_file
from gauge.tabular.table.arrays import ROWS_AT_ONCE
from gauge.tabular.table.files import read_rows
from gauge_lab.recording import origin, write_record

Work = Callable[[Path, Path, Path], None]
"""Predicts with a model, from files, to a file."""


class Timed(Predictor):
    """Leaves a file that says when it was first asked."""

    def __call__(self, rows: pd.DataFrame) -> pd.DataFrame:
        first = self.model.with_name(f"{os.getpid()}.first")
        if not first.exists():
            first.write_text(str(time.time()))
        return super().__call__(rows)


def alone(model: Path, table: Path, out: Path) -> None:
    """In this process, part by part, as `gauge predict` does."""
    predict = Timed(model, device="cpu")
    predict.classifier  # noqa: B018 - loads the model
    with out.open("wb") as file, predictions_file(file, ".parquet") as write_predictions:
        for part in read_rows(table, ROWS_AT_ONCE):
            write_predictions(predict(part))


def on_ray(workers: int, model: Path, table: Path, out: Path) -> None:
    predict_on_ray(Timed(model, device="cpu"), table, out, workers=workers)


def measured(work: Work, model: Path, table: Path, out: Path) -> tuple[float, float, int]:
    """Seconds before and after the first rows are predicted, and how many processes predict."""
    started = time.time()
    work(model, table, out)
    ended, files = time.time(), list(model.parent.glob("*.first"))
    first = min(float(path.read_text()) for path in files)
    for path in files:
        path.unlink()
    return first - started, ended - first, len(files)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    torch.set_num_threads(1)
    record: dict[str, Any] = {"load": round(os.getloadavg()[0], 1)}
    forms: dict[str, Work] = {
        "one process": alone,
        "Ray, one worker": partial(on_ray, 1),
        "Ray, two workers": partial(on_ray, 2),
    }
    lines = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        train = pd.read_parquet(write(folder / "train", 2000))
        GaugeClassifier(**MODEL).fit(train, "label").save(folder / "model")
        table = write(folder / "table", options.rows)
        for form, work in forms.items():
            start, rest, processes = measured(work, folder / "model", table, folder / form)
            rate = round(options.rows / rest)
            lines.append({"form": form, "processes": processes, "start": round(start, 1), "rows_per_second": rate})
            print(lines[-1], flush=True)
    rates = [line["rows_per_second"] for line in lines]
    for line in lines:
        line["over_one_process"] = round(line["rows_per_second"] / rates[0], 2)
    record |= {"cpus": os.cpu_count(), "columns": NUMBERS + CATEGORIES}
    record |= {"rows": options.rows, "two_workers_over_one": round(rates[2] / rates[1], 2), "runs": lines}
    write_record(options.out / "ray-cpu.json", origin(options) | record)


if __name__ == "__main__":
    main()
