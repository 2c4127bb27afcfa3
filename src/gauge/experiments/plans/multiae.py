"""Plan of MultiAE: the classifier, on a pre-training that both variants share."""

from collections.abc import Sequence

from torch import nn

from gauge.data import Dataset
from gauge.experiments.benchmarks import Benchmark
from gauge.experiments.parts import Parts, seeded_with
from gauge.experiments.plans import Plan, Variant
from gauge.imputers.mopoe import known_coders
from gauge.methods.multiae import AutoEncoder, MultiAE, encoder_width
from gauge.model.nn.conv import CHANNELS
from gauge.registry import pick
from gauge.training.stages import Stage

__all__ = ["PLAN", "unsupported"]

VARIANTS = {
    "multiae": Variant("a classifier on the joint code, trained on all that is observed"),
    "multiae-dagger": Variant("the same, trained on random subsets", dagger=True),
}


def unsupported(benchmark: Benchmark) -> str | None:
    coders = benchmark.imputer_options.get("coders", {})
    tables = [
        name for name, modality in benchmark.modalities.items() if len(modality.shape) == 1 and name not in coders
    ]
    return f"there is no decoder for the table {tables[0]!r}" if tables else None


def stage(benchmark: Benchmark, variant: str, seed: int) -> Stage:
    count = benchmark.subsets_per_step if VARIANTS[variant].dagger else None
    arguments = {"num_classes": benchmark.num_classes, "subsets_per_step": count}
    settings = seeded_with(benchmark.settings.baseline, seed)
    return Stage(f"{variant}-s{seed}", make_multiae, arguments, settings, (pretraining(benchmark, seed),))


def make_multiae(train: Dataset, start: AutoEncoder, *, num_classes: int, subsets_per_step: int | None) -> MultiAE:
    return MultiAE(start.encoder, start.fuse, num_classes, subsets_per_step=subsets_per_step)


def pretraining(benchmark: Benchmark, seed: int) -> Stage:
    """The auto-encoder. Its decoders are those of the imputer, which names them for each modality (`coders`)."""
    options = benchmark.imputer_options
    arguments = {
        "parts": Parts.of(benchmark),
        "subsets_per_step": benchmark.subsets_per_step,
        "decoders": {name: options.get("coders", {}).get(name, "conv_image") for name in benchmark.modalities},
        "channels": options.get("channels", CHANNELS),
        "hidden": options.get("hidden"),
    }
    settings = seeded_with(benchmark.settings.pretrain, seed)
    return Stage(f"multiae-pretraining-s{seed}", make_autoencoder, arguments, settings)


def make_autoencoder(
    train: Dataset,
    *,
    parts: Parts,
    subsets_per_step: int,
    decoders: dict[str, str],
    channels: Sequence[int],
    hidden: int | None,
) -> AutoEncoder:
    known = known_coders(channels, hidden, reversed_text=False)
    kinds = {name: pick(known, decoder, "coder") for name, decoder in decoders.items()}
    encoder = parts.vector_encoder()
    writers = {name: kind.decoder(train.shapes[name], encoder_width(encoder)) for name, kind in kinds.items()}
    for name in decoders:
        if decoders[name] == "conv_image":  # its decoder leaves open what range values have; here they are pixels
            writers[name] = nn.Sequential(writers[name], nn.Sigmoid())
    likelihoods = {name: kind.likelihood for name, kind in kinds.items()}
    return AutoEncoder(encoder, writers, likelihoods, subsets_per_step=subsets_per_step)


PLAN = Plan(VARIANTS, stage, rows=tuple(VARIANTS), unsupported=unsupported)
