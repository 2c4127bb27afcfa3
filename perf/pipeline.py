"""What the pipeline of a benchmark costs: seconds an epoch, samples and predictions a second, DyMo's selection.

    python perf/pipeline.py polymnist --data DIR [--device cuda] [--out perf/results]
    python perf/pipeline.py celeba --random 8192 --stages gauge --precision bf16

Networks and batch sizes are the benchmark's, weights random. On a GPU the share of a step that is launch overhead is what
recording it as a CUDA graph saves. On a CPU a few steps are timed and nothing is recorded. With `--random`, the modalities
are random bytes or numbers of the benchmark's shapes, and no files are read. `plain layout` runs convolutions in the layout
of the weights instead of `channels_last`.
"""

import argparse
import math
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from gauge.data import Dataset
from gauge.masks import Protocol
from gauge.nn import conv
from gauge.training.inference import predict_split
from gauge.training.stages import Stage
from gauge.training.step import arithmetic, training_step
from gauge.types import Method, Trainable
from gauge_lab.benchmarks import BENCHMARKS, Benchmark
from gauge_lab.experiment import Row
from gauge_lab.parts import imputer_stage
from gauge_lab.plans import last_stage
from gauge_lab.recording import origin, write_record

ROWS = ("any_subset", "gauge:masked", "gauge:v2", "gauge", "gauge_plus", "gauge_plus:gauge_plus-trust")


def random_split(benchmark: Benchmark, split: str, rows: int) -> Dataset:
    """Images and texts as bytes, as the readers of benchmarks store them, and tables as numbers."""
    inputs = {
        name: torch.randint(256, (rows, *modality.shape), dtype=torch.uint8)
        if len(modality.shape) > 1
        else torch.randn(rows, *modality.shape)
        for name, modality in benchmark.modalities.items()
    }
    return Dataset(split, inputs, torch.arange(rows) % benchmark.num_classes, note="random data")


def fresh(stage: Stage, train: Dataset) -> Trainable:
    """The stage with random weights, on random weights."""
    return stage.build(train, [fresh(need, train) for need in stage.needs]).to(train.device)


def seconds_an_epoch(stage: Stage, train: Dataset, *, record: bool, steps: int) -> float:
    """From the median of some steps, each waited for in groups of ten so that the device stays busy."""
    step = training_step(fresh(stage, train), train, stage.settings, record=record)
    size = stage.settings.batch_size
    index = torch.arange(size, device=train.device)
    group = 10 if train.device.type == "cuda" else 1

    def run(count: int) -> None:
        for _ in range(count):
            step(index, index, stage.settings.learning_rate)
        if train.device.type == "cuda":
            torch.cuda.synchronize()

    measured = []
    with arithmetic(stage.settings, train.device):
        run(group)
        for _ in range(max(1, steps // group)):
            started = time.perf_counter()
            run(group)
            measured.append((time.perf_counter() - started) / group)
    return statistics.median(measured) * math.ceil(len(train) / size)


def cost(stage: Stage, train: Dataset, test: Dataset, protocol: Protocol, *, steps: int) -> dict[str, float]:
    """Seconds an epoch, eager and recorded, samples a second and, of a method, predictions a second."""
    cuda = train.device.type == "cuda"
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    row = {"eager": seconds_an_epoch(stage, train, record=False, steps=steps)}
    if cuda:
        row["recorded"] = seconds_an_epoch(stage, train, record=True, steps=steps)
        row["launch_share"] = 1 - row["recorded"] / row["eager"]
        row["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
    row["samples_per_second"] = len(train) / min(row.get("recorded", row["eager"]), row["eager"])
    method = fresh(stage, train).eval()
    if isinstance(method, Method):
        predict_split(method, test, protocol)  # warms up
        started = time.perf_counter()
        predict_split(method, test, protocol)
        row["predictions_per_second"] = len(test) / (time.perf_counter() - started)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("benchmark", choices=BENCHMARKS.names())
    parser.add_argument("--data", type=Path, help="folder that `gauge benchmark --data` reads")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--random", type=int, metavar="ROWS", help="random data instead of --data")
    parser.add_argument("--stages", nargs="+", choices=("imputer", *ROWS, "dymo"), default=("imputer", *ROWS, "dymo"))
    parser.add_argument(
        "--precision", choices=("float32", "tf32", "bf16"), help="of training; the benchmark's if left out"
    )
    parser.add_argument("--plain-layout", action="store_true", help="time every stage in the plain layout too")
    parser.add_argument("--name", help="of the result file, after pipeline-")
    parser.add_argument("--steps", type=int, default=100, help="steps to time of each stage")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    device = torch.device(options.device)
    benchmark = BENCHMARKS.get(options.benchmark)
    started = time.perf_counter()
    if options.random:
        splits = [random_split(benchmark, split, options.random) for split in ("train", "val", "test")]
    else:
        splits = [benchmark.load(split, options.data) for split in ("train", "val", "test")]
    train, val, test = (split.to(device) for split in splits)
    rows: dict[str, dict[str, float]] = {"data": {"seconds": time.perf_counter() - started, "rows": len(train)}}
    stages = {row: last_stage(benchmark, *Row.parse(row), seed=0) for row in ROWS}
    for name, stage in {"imputer": imputer_stage(benchmark), **stages}.items():
        if name not in options.stages:
            continue
        changed = {"precision": options.precision} if options.precision else {}
        stage = replace(stage, settings=stage.settings.model_copy(update=changed))
        for layout in (torch.contiguous_format, torch.channels_last) if options.plain_layout else (conv.GPU_LAYOUT,):
            conv.GPU_LAYOUT = layout
            label = f"{name}, plain layout" if layout == torch.contiguous_format else name
            rows[label] = cost(stage, train, test, benchmark.protocols[-1], steps=options.steps)
            print(label, {key: round(value, 3) for key, value in rows[label].items()}, flush=True)
    if "dymo" in options.stages:
        rows["dymo"] = dymo_cost(benchmark, train, val, test)
        print("dymo", rows["dymo"], flush=True)
    path = options.out / f"pipeline-{options.name or benchmark.name}-{device.type}.json"
    write_record(path, origin(options, device) | {"rows": rows} | ratios(rows))
    print(f"written to {path}")


def ratios(rows: dict[str, dict[str, float]]) -> dict[str, Any]:
    """The step of GAUGE+ over that of the shared backbone, in each layout in which both were timed."""
    result = {}
    for layout in ("", ", plain layout"):
        plus, shared = rows.get(f"gauge_plus{layout}"), rows.get(f"any_subset{layout}")
        if plus and shared:
            fast = "recorded" if "recorded" in plus else "eager"
            result[f"gauge_plus_over_any_subset{layout}"] = plus[fast] / shared[fast]
    return result


def dymo_cost(benchmark: Benchmark, train: Dataset, val: Dataset, test: Dataset) -> dict[str, float]:
    """Seconds of DyMo's statistics and of its selection."""
    dymo = fresh(last_stage(benchmark, "dymo", "dymo", seed=0), train).eval()
    assert isinstance(dymo, Method)
    started = time.perf_counter()
    dymo.prepare(train if train.device.type == "cuda" else val)
    statistics_done = time.perf_counter()
    predict_split(dymo, test, benchmark.protocols[-1])
    return {"statistics": statistics_done - started, "selection": time.perf_counter() - statistics_done}


if __name__ == "__main__":
    main()
