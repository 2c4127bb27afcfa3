"""Plan of QMF: trained on real values; the imputer is used for predictions only."""

from gauge.data import Dataset
from gauge.types import Imputer
from gauge_lab.methods.qmf import QMF
from gauge_lab.parts import Parts
from gauge_lab.plans import Variant, baseline_plan, needs_imputer
from gauge_lab.plans.late_fusion import make_unimodal

__all__ = ["PLAN"]


def make_qmf(train: Dataset, imputer: Imputer, *, parts: Parts) -> QMF:
    return QMF(make_unimodal(train, parts=parts), imputer, rows=len(train))


PLAN = baseline_plan(
    {"qmf": Variant("classifiers weighted by their energy, completed inputs")}, make_qmf, needs_imputer
)
