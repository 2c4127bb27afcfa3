"""The stage of an ensemble: a trained stage and others that differ from it by their seed."""

from dataclasses import replace

from gauge.data import Dataset
from gauge.methods.ensemble import Ensemble
from gauge.training.stages import Stage
from gauge.types import Method

SEEDS = 1000  # between the seeds of two members


def ensemble_stage(first: Stage, members: int) -> Stage:
    """All members start from the same `needs`. A single one is the stage itself."""
    if members == 1:
        return first
    stages = [first]
    for number in range(1, members):
        settings = first.settings.model_copy(update={"seed": first.settings.seed + SEEDS * number})
        stages.append(replace(first, name=f"{first.name}-{number}", settings=settings))
    settings = first.settings.model_copy(update={"epochs": 0})
    return Stage(f"{first.name}-ensemble", make_ensemble, {}, settings, tuple(stages))


def make_ensemble(train: Dataset, *members: Method) -> Ensemble:
    return Ensemble(members)
