"""Training with two processes against one: samples a second with the same global batch, a thread for each process.

python perf/processes.py [--batch 256] [--epochs 3] [--out perf/results]
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from gauge import TrainSettings, fit
from gauge.masks import UpTo
from gauge.tabular.experts._architecture import build
from gauge.tabular.experts._recipe import SIZES
from gauge.tabular.experts._training import Weighted
from gauge.tabular.table.schema import Schema
from gauge.tabular.table.tensors import dataset
from gauge.training.distributed import is_main
from gauge_lab.recording import origin, write_record

ROWS, COLUMNS = 1024, 20


def train(batch: int, epochs: int) -> None:
    """Print the samples a second of every epoch but the first."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    values = np.random.default_rng(0).normal(size=(ROWS, COLUMNS))
    frame = pd.DataFrame(values, columns=[f"number{index}" for index in range(COLUMNS)])
    schema = Schema.from_frame(frame)
    split = dataset(schema.encode(frame), "train", np.arange(ROWS), (values[:, 0] > 0).astype(int))
    model = Weighted(build(schema, 2, SIZES["small"]), torch.ones(ROWS))
    progress = fit(model, split, settings=TrainSettings(epochs=epochs, batch_size=batch, masks=UpTo(0.5)))
    if is_main():
        print(json.dumps([round(ROWS / epoch["seconds"], 1) for epoch in progress.history[1:]]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--train", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        train(options.batch, options.epochs)
        return
    speeds = {}
    for processes in (1, 2):
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        command = [*torchrun, __file__, "--train", "--batch", str(options.batch), "--epochs", str(options.epochs)]
        speeds[processes] = max(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
    ratio = round(speeds[2] / speeds[1], 2)
    record = origin(options) | {
        "batch": options.batch,
        "columns": COLUMNS,
        "samples_per_second": speeds,
        "ratio": ratio,
    }
    print(record)
    write_record(options.out / "processes-cpu.json", record)


if __name__ == "__main__":
    main()
