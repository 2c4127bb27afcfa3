"""Plan of ShaSpec: one shared and several specific networks of the shared sizes, trained on random subsets."""

from gauge.data import Dataset
from gauge.nn.initialise import initialise
from gauge_lab.methods.shaspec import ShaSpec
from gauge_lab.parts import Parts
from gauge_lab.plans import Variant, baseline_plan, with_subsets

__all__ = ["PLAN"]


def make_shaspec(train: Dataset, *, parts: Parts, subsets_per_step: int) -> ShaSpec:
    encoder, shared = parts.unit_network()
    specific = [parts.network() for _ in parts.units]
    method = ShaSpec(encoder, shared, specific, subsets_per_step=subsets_per_step)
    if parts.small_init:
        initialise(method)
    return method


PLAN = baseline_plan(
    {"shaspec": Variant("shared and specific features; missing modalities from what the others share")},
    make_shaspec,
    arguments=with_subsets,
)
