"""Plan of MUSE: trained from scratch, with torch's default initialisation."""

from gauge.data import Dataset
from gauge_lab.methods.muse import Muse
from gauge_lab.parts import Parts
from gauge_lab.plans import Variant, baseline_plan

__all__ = ["PLAN"]


def make_muse(train: Dataset, *, parts: Parts) -> Muse:
    return Muse(parts.vector_encoder(parts.dim), parts.dim, parts.num_classes)


PLAN = baseline_plan(
    {"muse": Variant("a graph of samples and modalities, contrasted with a copy that has fewer edges")}, make_muse
)
