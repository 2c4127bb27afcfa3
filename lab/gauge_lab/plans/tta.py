"""Plan of test-time augmentation: rows of other plans, as trained there, that predict changed copies of images."""

from gauge.data import Dataset
from gauge.training.stages import Stage
from gauge.types import Method
from gauge_lab.benchmarks import Benchmark
from gauge_lab.methods.tta import COPIES, TTA
from gauge_lab.plans import Plan, Variant
from gauge_lab.plans.gauge_plus import PLAN as GAUGE_PLUS
from gauge_lab.plans.late_fusion import PLAN as LATE_FUSION

__all__ = ["PLAN"]

ROWS = {  # the plan and the row that trains what predicts
    "tta": (GAUGE_PLUS, "gauge_plus"),
    "gauge_plus-pretrained": (GAUGE_PLUS, "gauge_plus-pretrained"),
    "late_fusion": (LATE_FUSION, "late_fusion"),
    "late_fusion-pretrained": (LATE_FUSION, "pretrained"),
}


def stage(benchmark: Benchmark, variant: str, seed: int) -> Stage:
    plan, row = ROWS[variant]
    return over_copies(plan.stage(benchmark, row, seed))


def over_copies(trained: Stage) -> Stage:
    settings = trained.settings.model_copy(update={"epochs": 0})
    return Stage(f"{trained.name}-tta", make_tta, {"augmentation": trained.settings.augment}, settings, (trained,))


def make_tta(train: Dataset, trained: Method, *, augmentation: str) -> TTA:
    return TTA(trained, augmentation)


def unsupported(benchmark: Benchmark) -> str | None:
    if not any(len(modality.shape) == 3 for modality in benchmark.modalities.values()):
        return "it has no images"
    if not benchmark.settings.plus.augment:
        return "its images are not augmented in training, see the setting plus.augment"
    return None


COPIED = f"the mean prediction for {COPIES} copies of the images, changed as in training"
PLAN = Plan(
    {name: Variant(f"{plan.variants[row].note}; {COPIED}") for name, (plan, row) in ROWS.items()},
    stage,
    unsupported=unsupported,
)
