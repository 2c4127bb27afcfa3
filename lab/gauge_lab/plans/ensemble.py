"""Plan of ensembles: several trainings of a row of another plan predict together, for changed copies of images where
training changes them."""

from gauge.training.stages import Stage
from gauge_lab.benchmarks import Benchmark
from gauge_lab.plans import Plan, Variant, options_of
from gauge_lab.plans._ensemble import ensemble_stage
from gauge_lab.plans.tta import ROWS as TTA_ROWS
from gauge_lab.plans.tta import over_copies

__all__ = ["PLAN"]

ROWS = {name.replace("tta", "ensemble"): members for name, members in TTA_ROWS.items()}


def stage(benchmark: Benchmark, variant: str, seed: int) -> Stage:
    plan, row = ROWS[variant]
    together = ensemble_stage(plan.stage(benchmark, row, seed), options_of(benchmark, "ensemble")["members"])
    return over_copies(together) if together.settings.augment else together


PLAN = Plan(
    {
        name: Variant(
            f"{plan.variants[row].note}; several trainings predict together, for copies of the images where training "
            "changes them"
        )
        for name, (plan, row) in ROWS.items()
    },
    stage,
    options={"members": 3},
)
