"""Plan of MoPoE classification: the classifier alone, on the imputer that all methods share."""

from gauge.data import Dataset
from gauge.experiments.benchmarks import Benchmark
from gauge.experiments.parts import imputer_stage, seeded_with
from gauge.experiments.plans import Plan, Variant
from gauge.imputers.mopoe import MoPoE
from gauge.methods.mopoe import LatentClassifier
from gauge.training.stages import Stage

__all__ = ["PLAN"]

LATENT = 512  # of an imputer that does not say
VARIANTS = {
    "mopoe": Variant("a linear classifier on the imputer's latent, trained on all that is observed"),
    "mopoe-dagger": Variant("the same, trained on random subsets", dagger=True),
}


def unsupported(benchmark: Benchmark) -> str | None:
    if benchmark.imputer == "mopoe":
        return None
    return f"it reads the latent of the imputer 'mopoe', and the benchmark has the imputer {benchmark.imputer!r}"


def stage(benchmark: Benchmark, variant: str, seed: int) -> Stage:
    arguments = {
        "latent": benchmark.imputer_options.get("latent", LATENT),
        "num_classes": benchmark.num_classes,
        "subsets_per_step": benchmark.subsets_per_step if VARIANTS[variant].dagger else None,
    }
    settings = seeded_with(benchmark.settings.baseline, seed)
    return Stage(f"{variant}-s{seed}", make_latent_classifier, arguments, settings, (imputer_stage(benchmark),))


def make_latent_classifier(
    train: Dataset, imputer: MoPoE, *, latent: int, num_classes: int, subsets_per_step: int | None
) -> LatentClassifier:
    return LatentClassifier(imputer, latent, num_classes, subsets_per_step=subsets_per_step)


PLAN = Plan(VARIANTS, stage, rows=tuple(VARIANTS), unsupported=unsupported)
