"""Plan of QMF: trained on real values; the imputer only serves predictions."""

from gauge.data import Dataset
from gauge.experiments.parts import Parts
from gauge.experiments.plans._imputed import imputed_plan
from gauge.experiments.plans.late_fusion import vector_classifiers
from gauge.methods.qmf import QMF
from gauge.types import Imputer

__all__ = ["PLAN"]


def make_qmf(train: Dataset, imputer: Imputer, *, parts: Parts) -> QMF:
    return QMF(vector_classifiers(parts), imputer, rows=len(train))


PLAN = imputed_plan("qmf", "classifiers weighted by their energy, completed inputs", make_qmf)
