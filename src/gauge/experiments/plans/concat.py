"""Plan of concat: trained on real values; the imputer only serves predictions."""

from gauge.data import Dataset
from gauge.experiments.parts import Parts
from gauge.experiments.plans._imputed import imputed_plan
from gauge.methods.concat import Concat
from gauge.types import Imputer

__all__ = ["PLAN"]


def make_concat(train: Dataset, imputer: Imputer, *, parts: Parts) -> Concat:
    return Concat(parts.vector_encoder(), imputer, num_classes=parts.num_classes)


PLAN = imputed_plan("concat", "one linear classifier on the vectors of all modalities, completed inputs", make_concat)
