"""The stage in which the encoders and the network of GAUGE+ are trained on all training samples, without labels."""

from collections.abc import Callable
from functools import partial
from typing import Any

from gauge.data import Dataset
from gauge.registry import PRETRAINERS
from gauge.training.stages import Stage
from gauge.types import Pretrainer
from gauge_lab.benchmarks import Benchmark
from gauge_lab.parts import Parts, seeded_with
from gauge_lab.plans._trunks import columns_of_units, plus_parts


def pretraining_stage(benchmark: Benchmark, seed: int) -> Stage:
    arguments = {"parts": plus_parts(benchmark), "tables": columns_of_units(benchmark)}
    settings = seeded_with(benchmark.settings.pretrain, seed)
    make = partial(make_pretraining, pretrainer=PRETRAINERS.get("self_supervised"))
    return Stage(f"pretrained-s{seed}", make, arguments, settings, split="imputer")


def make_pretraining(
    train: Dataset, *, pretrainer: Callable[..., Pretrainer], parts: Parts, **options: Any
) -> Pretrainer:
    return pretrainer(*parts.unit_network(), **options)
