"""Plan of PDF: trained on real values; the imputer is used for predictions only."""

from gauge.data import Dataset
from gauge.types import Imputer
from gauge_lab.methods.pdf import PDF
from gauge_lab.parts import Parts
from gauge_lab.plans import Variant, baseline_plan, needs_imputer
from gauge_lab.plans.late_fusion import make_unimodal

__all__ = ["PLAN"]


def make_pdf(train: Dataset, imputer: Imputer, *, parts: Parts) -> PDF:
    return PDF(make_unimodal(train, parts=parts), imputer)


PLAN = baseline_plan(
    {"pdf": Variant("classifiers weighted by predicted and relative confidence, completed inputs")},
    make_pdf,
    needs_imputer,
)
