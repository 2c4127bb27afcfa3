"""Plan of MoPoE classification: only the classifier is trained, on the imputer that all methods share."""

from typing import Any

from gauge.data import Dataset
from gauge.imputers.mopoe import MoPoE
from gauge_lab.benchmarks import Benchmark
from gauge_lab.methods.mopoe import LatentClassifier
from gauge_lab.plans import Variant, baseline_plan, needs_imputer

__all__ = ["PLAN"]

VARIANTS = {
    "mopoe": Variant("a linear classifier on the imputer's latent, trained on all that is observed"),
    "mopoe-dagger": Variant("the same, trained on random subsets", dagger=True),
}


def unsupported(benchmark: Benchmark) -> str | None:
    if benchmark.imputer == "mopoe":
        return None
    return f"it reads the latent of the imputer 'mopoe', and the benchmark has the imputer {benchmark.imputer!r}"


def arguments(benchmark: Benchmark) -> dict[str, Any]:
    # the imputer's default
    return {"latent": benchmark.imputer_options.get("latent", 512), "num_classes": benchmark.num_classes}


def make_latent_classifier(train: Dataset, imputer: MoPoE, **options: Any) -> LatentClassifier:
    return LatentClassifier(imputer, **options)


PLAN = baseline_plan(
    VARIANTS, make_latent_classifier, needs_imputer, arguments, rows=tuple(VARIANTS), unsupported=unsupported
)
