"""Plan of PDF: trained on real values; the imputer only serves predictions."""

from gauge.data import Dataset
from gauge.experiments.parts import Parts
from gauge.experiments.plans._imputed import imputed_plan
from gauge.experiments.plans.late_fusion import vector_classifiers
from gauge.methods.pdf import PDF
from gauge.types import Imputer

__all__ = ["PLAN"]


def make_pdf(train: Dataset, imputer: Imputer, *, parts: Parts) -> PDF:
    return PDF(vector_classifiers(parts), imputer)


PLAN = imputed_plan("pdf", "classifiers weighted by predicted and relative confidence, completed inputs", make_pdf)
