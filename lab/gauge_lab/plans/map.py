"""Plan of MAP: the method alone; † trains on several random subsets in each step."""

from gauge.data import Dataset
from gauge_lab.methods.map import MAP
from gauge_lab.parts import Parts
from gauge_lab.plans import Variant, baseline_plan

__all__ = ["PLAN"]

VARIANTS = {
    "map": Variant("prompts for every subset, trained on the input as it is"),
    "map-dagger": Variant("prompts for every subset, trained on several random subsets in every step", dagger=True),
}


def make_map(train: Dataset, *, parts: Parts, subsets_per_step: int | None) -> MAP:
    return MAP(*parts.unit_network(), subsets_per_step=subsets_per_step or 0)


PLAN = baseline_plan(VARIANTS, make_map, rows=tuple(VARIANTS))
