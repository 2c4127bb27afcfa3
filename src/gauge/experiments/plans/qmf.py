"""Plan of QMF: trained on real values; the imputer is used for predictions only."""

from gauge.data import Dataset
from gauge.experiments.parts import Parts
from gauge.experiments.plans import Variant, baseline_plan, needs_imputer
from gauge.experiments.plans.late_fusion import make_unimodal
from gauge.methods.qmf import QMF
from gauge.types import Imputer

__all__ = ["PLAN"]


def make_qmf(train: Dataset, imputer: Imputer, *, parts: Parts) -> QMF:
    return QMF(make_unimodal(train, parts=parts), imputer, rows=len(train))


NOTE = "classifiers weighted by their energy, completed inputs"
PLAN = baseline_plan({"qmf": Variant(NOTE)}, make_qmf, needs_imputer)
