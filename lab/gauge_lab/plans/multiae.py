"""Plan of MultiAE: the classifier, on a pre-training that both variants share."""

from typing import Any

from torch import nn

from gauge.data import Dataset
from gauge.imputers.mopoe import Coders, coders_of
from gauge.nn.conv import CHANNELS
from gauge.training.stages import Stage
from gauge_lab.benchmarks import Benchmark
from gauge_lab.methods.multiae import AutoEncoder, MultiAE, encoder_width
from gauge_lab.parts import Parts, seeded_with
from gauge_lab.plans import Variant, baseline_plan

__all__ = ["PLAN", "unsupported"]

VARIANTS = {
    "multiae": Variant("a classifier on the joint code, trained on all that is observed"),
    "multiae-dagger": Variant("the same, trained on random subsets", dagger=True),
}


def unsupported(benchmark: Benchmark) -> str | None:
    decoded = benchmark.imputer_options.get("coders", {})
    tables = [name for name, modality in benchmark.modalities.items() if len(modality.shape) == 1]
    undecoded = [name for name in tables if name not in decoded]
    return f"there is no decoder for the table {undecoded[0]!r}" if undecoded else None


def make_multiae(train: Dataset, start: AutoEncoder, **options: Any) -> MultiAE:
    return MultiAE(start.encoder, start.fuse, **options)


def pretraining(benchmark: Benchmark, seed: int) -> Stage:
    """The auto-encoder, with the decoders of the imputer's option `coders`."""
    options = benchmark.imputer_options
    arguments = {
        "parts": Parts.from_benchmark(benchmark),
        "subsets_per_step": benchmark.subsets_per_step,
        "decoders": {name: options.get("coders", {}).get(name, "conv_image") for name in benchmark.modalities},
        "channels": options.get("channels", CHANNELS),
        "hidden": options.get("hidden"),
    }
    settings = seeded_with(benchmark.settings.pretrain, seed)
    return Stage(f"multiae-pretraining-s{seed}", make_autoencoder, arguments, settings)


def make_autoencoder(
    train: Dataset, *, parts: Parts, subsets_per_step: int, decoders: dict[str, str | Coders], **sizes: Any
) -> AutoEncoder:
    kinds = coders_of(decoders, decoders, **sizes)
    encoder = parts.vector_encoder()
    writers = {name: kind.decoder(train.shapes[name], encoder_width(encoder)) for name, kind in kinds.items()}
    for name in decoders:
        if decoders[name] == "conv_image":  # its decoder has no output range; pixels are from 0 to 1
            writers[name] = nn.Sequential(writers[name], nn.Sigmoid())
    likelihoods = {name: kind.likelihood for name, kind in kinds.items()}
    return AutoEncoder(encoder, writers, likelihoods, subsets_per_step=subsets_per_step)


PLAN = baseline_plan(
    VARIANTS,
    make_multiae,
    lambda benchmark, seed: (pretraining(benchmark, seed),),
    lambda benchmark: {"num_classes": benchmark.num_classes},
    rows=tuple(VARIANTS),
    unsupported=unsupported,
)
