"""Benchmarks of every kind with small networks, and random samples in their shapes."""

from dataclasses import replace

import numpy as np
import torch

from gauge.data import Dataset
from gauge_lab.benchmarks import Benchmark, leaf99, mst, polymnist5k, polysum
from gauge_lab.benchmarks._image_table import image_table

IMAGE = replace(polymnist5k.BENCHMARK.modalities["m0"], options={"channels": (2, 4, 4)})
CODERS = {"latent": 4, "channels": (2, 4, 4), "hidden": 8}
SIZES = {"dim": 16, "vector_dim": 16, "method_options": {"any_subset": {"projection": 4}}}
SMALL = replace(
    polymnist5k.BENCHMARK, **SIZES, modalities=dict.fromkeys(("m0", "m1", "m2"), IMAGE), imputer_options=CODERS
)

TABLE = image_table(IMAGE, {"sex": 2, "age": 1, "site": 3, "dose": 1}, width=16, depth=1, heads=2, waves=2)
MEAN = {"imputer": "mean", "imputer_options": {}}
TEXT = mst.BENCHMARK.imputer_options | CODERS
WORDS = mst.BENCHMARK.modalities | {"mnist": replace(mst.BENCHMARK.modalities["mnist"], options={"hidden": 8})}
PAIRS = dict.fromkeys(polysum.VIEWS, IMAGE)
LEAF99 = replace(leaf99.BENCHMARK, **TABLE | MEAN | SIZES, num_classes=3)
OTHERS = {
    "image-and-table": LEAF99,
    "images-and-text": replace(mst.BENCHMARK, **SIZES, modalities=WORDS, imputer_options=TEXT),
    "pairs-of-views": replace(polysum.BENCHMARK, **SIZES, modalities=PAIRS, imputer_options=CODERS),
    "one-image": replace(SMALL, modalities={"m0": IMAGE}),
    "one-table": replace(LEAF99, modalities={"table": LEAF99.modalities["table"]}),
}


def samples(benchmark: Benchmark, rows: int = 24) -> Dataset:
    """Random values of the benchmark's shapes; a vector is a table of two categories, a number, three and a number."""
    labels = torch.arange(rows) % benchmark.num_classes
    shapes = {name: modality.shape for name, modality in benchmark.modalities.items()}
    draw = torch.Generator().manual_seed(0)
    inputs, observed = {}, {}
    for name, shape in shapes.items():
        if len(shape) == 1:
            inputs[name] = torch.rand(rows, *shape, generator=draw) * torch.tensor([1, 1, 2, 1])
            inputs[name][:, [0, 2]] = inputs[name][:, [0, 2]].round()
            observed[name] = torch.rand(rows, *shape, generator=draw) > 0.2
        elif len(shape) == 2:
            inputs[name] = torch.from_numpy(mst.words(labels.byte().numpy(), np.random.default_rng(0)))
        else:
            inputs[name] = torch.randint(256, (rows, *shape), dtype=torch.uint8, generator=draw)
    return Dataset("train", inputs, labels, observed)
