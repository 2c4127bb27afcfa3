"""How the cost of the network grows with columns: seconds of a training step and of a prediction, for tables of one kind.

python perf/growth.py [--columns 10 50 200 500 501] [--rows 8] [--out perf/results]

Above 500 columns the network reads all numbers and categories as one unit.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from gauge.masks import UpTo
from gauge.tabular.experts._architecture import build
from gauge.tabular.experts._recipe import SIZES
from gauge.tabular.experts._training import Weighted
from gauge.tabular.table.schema import Schema
from gauge.tabular.table.tensors import dataset
from gauge.training.loop import seconds_per_step
from gauge.training.settings import TrainSettings
from gauge_lab.recording import origin, write_record


def measured(columns: int, rows: int) -> dict[str, float]:
    """A batch of `rows` rows of a table of numbers."""
    values = np.random.default_rng(0).normal(size=(rows, columns)).astype(np.float32)
    frame = pd.DataFrame(values, columns=[f"number{index}" for index in range(columns)])
    schema = Schema.from_frame(frame)
    train = dataset(schema.encode(frame), "train", np.arange(rows), np.arange(rows) % 2)
    model = build(schema, 2, SIZES["small"])
    settings = TrainSettings(epochs=1, batch_size=rows, masks=UpTo(0.5))
    step = seconds_per_step(Weighted(model, torch.ones(rows)), train, settings, steps=1)
    batch = train.batch(torch.arange(rows))
    model.eval().predict(batch)
    started = time.perf_counter()
    model.predict(batch)
    seconds = time.perf_counter() - started
    units = sum(model.encoder.unit_counts.values())
    return {
        "columns": columns,
        "units": units,
        "train_rows_per_second": round(rows / step, 1),
        "predicted_rows_per_second": round(rows / seconds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--columns", type=int, nargs="+", default=[10, 50, 200, 500, 501])
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs = []
    for columns in options.columns:
        runs.append(measured(columns, options.rows))
        print(runs[-1], flush=True)
    write_record(options.out / "growth-cpu.json", origin(options) | {"rows": options.rows, "runs": runs})


if __name__ == "__main__":
    main()
