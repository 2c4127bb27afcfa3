"""Plan of concat: trained on real values; the imputer is used for predictions only."""

from gauge.data import Dataset
from gauge.types import Imputer
from gauge_lab.methods.concat import Concat
from gauge_lab.parts import Parts
from gauge_lab.plans import Variant, baseline_plan, needs_imputer

__all__ = ["PLAN"]


def make_concat(train: Dataset, imputer: Imputer, *, parts: Parts) -> Concat:
    return Concat(parts.vector_encoder(), imputer, num_classes=parts.num_classes)


PLAN = baseline_plan(
    {"concat": Variant("one linear classifier on the vectors of all modalities, completed inputs")},
    make_concat,
    needs_imputer,
)
