"""Plan of classifiers of table cells: fitted once, after no epochs of training, on rows as GAUGE's training hides them."""

from functools import partial
from typing import Any

from gauge.data import Dataset
from gauge.masks import Complete
from gauge.training.stages import Stage
from gauge_lab.benchmarks import Benchmark
from gauge_lab.methods._cells import CellClassifier
from gauge_lab.parts import seeded_with, table_columns
from gauge_lab.plans import Plan, Variant


def cells_plan(name: str, method: type[CellClassifier], note: str) -> Plan:
    """The method on masked rows, and on the rows as they are."""
    variants = {
        name: Variant(f"{note}, cells hidden in training"),
        f"{name}-as-is": Variant(f"{note}, rows as they are"),
    }

    def stage(benchmark: Benchmark, variant: str, seed: int) -> Stage:
        masks = benchmark.settings.finetune.masks if variant == name else Complete()
        arguments = {
            "tables": table_columns(benchmark),
            "num_classes": benchmark.num_classes,
            "masks": masks,
            "seed": seed,
        }
        settings = seeded_with(benchmark.settings.baseline, seed).model_copy(update={"epochs": 0})
        return Stage(f"{variant}-s{seed}", partial(make_cells, method=method), arguments, settings)

    return Plan(
        variants, stage, rows=tuple(variants), unsupported=lambda benchmark: method.unsupported(benchmark.shapes)
    )


def make_cells(train: Dataset, *, method: type[CellClassifier], **options: Any) -> CellClassifier:
    return method(**options)
