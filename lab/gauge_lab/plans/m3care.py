"""Plan of M3Care: trained from scratch; † on random subsets of the modalities."""

from typing import Any

from gauge.data import Dataset
from gauge.nn.initialise import initialise
from gauge_lab.methods.m3care import M3Care
from gauge_lab.parts import Parts
from gauge_lab.plans import Variant, baseline_plan

__all__ = ["PLAN"]

VARIANTS = {
    "m3care": Variant("trained on the training data as it is"),
    "m3care-dagger": Variant("trained on random subsets of the modalities", dagger=True),
}


def make_m3care(train: Dataset, *, parts: Parts, **options: Any) -> M3Care:
    network = parts.network()
    method = M3Care(parts.vector_encoder(parts.dim), network, **options)
    if parts.small_init:
        initialise(method)
    return method


PLAN = baseline_plan(VARIANTS, make_m3care, rows=tuple(VARIANTS))
