"""Plan of TIP classification: the weights of the benchmark's imputer, fine-tuned to the task."""

from typing import Any

from gauge.data import Dataset
from gauge_lab.benchmarks import Benchmark
from gauge_lab.imputers.tip import TIP
from gauge_lab.methods.tip import TipClassifier
from gauge_lab.plans import Variant, baseline_plan, needs_imputer

__all__ = ["PLAN"]


def unsupported(benchmark: Benchmark) -> str | None:
    reason = TipClassifier.unsupported(benchmark.shapes)
    if reason is None and benchmark.imputer != "tip":
        reason = f"it starts from the imputer 'tip', and the benchmark has the imputer {benchmark.imputer!r}"
    return reason


def arguments(benchmark: Benchmark) -> dict[str, Any]:
    return {"num_classes": benchmark.num_classes}


def make_tip(train: Dataset, imputer: TIP, *, num_classes: int) -> TipClassifier:
    return TipClassifier(imputer, num_classes)


PLAN = baseline_plan(
    {"tip": Variant("the pre-trained encoders of the imputer, fine-tuned under three linear classifiers")},
    make_tip,
    needs_imputer,
    arguments,
    unsupported=unsupported,
)
