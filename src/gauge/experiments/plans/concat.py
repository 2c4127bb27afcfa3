"""Plan of concat: trained on real values; the imputer is used for predictions only."""

from gauge.data import Dataset
from gauge.experiments.parts import Parts
from gauge.experiments.plans import Variant, baseline_plan, needs_imputer
from gauge.methods.concat import Concat
from gauge.types import Imputer

__all__ = ["PLAN"]


def make_concat(train: Dataset, imputer: Imputer, *, parts: Parts) -> Concat:
    return Concat(parts.vector_encoder(), imputer, num_classes=parts.num_classes)


NOTE = "one linear classifier on the vectors of all modalities, completed inputs"
PLAN = baseline_plan({"concat": Variant(NOTE)}, make_concat, needs_imputer)
