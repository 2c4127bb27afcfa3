"""Plan of Flex-MoE: the shared network with a bank and experts, trained on the data as it is and under random subsets."""

from gauge.data import Dataset
from gauge_lab.methods.flex_moe import FlexMoE
from gauge_lab.parts import Parts
from gauge_lab.plans import Variant, baseline_plan, with_subsets

__all__ = ["PLAN"]


def make_flex_moe(train: Dataset, *, parts: Parts, subsets_per_step: int) -> FlexMoE:
    return FlexMoE(*parts.unit_network(), subsets_per_step=subsets_per_step)


PLAN = baseline_plan(
    {"flex_moe": Variant("a bank of units for missing modalities, experts routed by the observed combination")},
    make_flex_moe,
    arguments=with_subsets,
)
