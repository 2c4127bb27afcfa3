"""The stage of an ensemble: a trained stage and others that differ from it by their seed."""

from dataclasses import replace

from gauge.data import Dataset
from gauge.training.stages import Stage
from gauge.types import Method
from gauge_lab.methods.ensemble import Ensemble

SEEDS = 1000  # between the seeds of two members


def ensemble_stage(first: Stage, members: object) -> Stage:
    """`members` is their number, as the settings give it. All start from the same `needs`; a single one is the stage
    itself."""
    if not isinstance(members, int) or members < 1:
        raise ValueError(f"{first.name} cannot be trained {members!r} times; give members or teachers as 1, 2, 3, ...")
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
