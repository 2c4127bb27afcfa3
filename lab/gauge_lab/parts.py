"""What plans build methods from: the encoders, networks and imputer of a benchmark, described by plain values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gauge.nn.attention import Transformer
from gauge.nn.initialise import initialise
from gauge.paper.network import Network
from gauge.paper.units import UnitEncoder
from gauge.registry import ENCODERS, IMPUTERS
from gauge.training.settings import TrainSettings
from gauge.training.stages import Stage
from gauge.types import Encoder
from gauge_lab.benchmarks import Benchmark
from gauge_lab.encoders._as_vector import AsVector
from gauge_lab.vectors import VectorEncoder


@dataclass(frozen=True)
class EncoderPart:
    component: Callable[..., Encoder]
    shape: tuple[int, ...]
    options: Mapping[str, Any]

    def build(self, width: int) -> Encoder:
        return self.component(self.shape, width, **self.options)


@dataclass(frozen=True)
class Parts:
    """The networks of a benchmark to build: encoders that read a modality as evidence `units` or as `vectors`, those of the
    classifiers of single modalities (`experts`), and sizes."""

    units: Mapping[str, EncoderPart]
    vectors: Mapping[str, EncoderPart]
    experts: Mapping[str, EncoderPart]
    num_classes: int
    dim: int
    heads: int
    depth: int
    vector_dim: int
    small_init: bool
    shared_embedding: bool = False

    @staticmethod
    def from_benchmark(benchmark: Benchmark) -> "Parts":
        units, vectors, experts = {}, {}, {}
        for name, modality in benchmark.modalities.items():
            shape = modality.shape
            options = modality.options if modality.vector_options is None else modality.vector_options
            units[name] = EncoderPart(ENCODERS.get(modality.encoder), shape, modality.options)
            vectors[name] = EncoderPart(ENCODERS.get(modality.vector or modality.encoder), shape, options)
            channels = {option: value for option, value in modality.options.items() if option == "channels"}
            deep = EncoderPart(ENCODERS.get("deep_image"), shape, channels)
            experts[name] = deep if len(shape) == 3 else units[name]
        copied = ("num_classes", "dim", "heads", "depth", "small_init")
        sizes = {name: getattr(benchmark, name) for name in copied}
        return Parts(units, vectors, experts, vector_dim=benchmark.vector_dim or benchmark.dim, **sizes)

    def unit_network(self) -> tuple[UnitEncoder, Network]:
        """New encoders and a new classifier of the benchmark's sizes."""
        encoders = {name: part.build(self.dim) for name, part in self.units.items()}
        backbone = self.transformer()  # built before the units: the order decides the initial weights
        encoder = UnitEncoder(encoders, self.dim, shared_embedding=self.shared_embedding)
        network = Network(backbone, self.dim, self.num_classes)
        if self.small_init:
            initialise(encoder)
            initialise(network)
        return encoder, network

    def network(self) -> Network:
        """A new classifier with torch's default initialisation."""
        return Network(self.transformer(), self.dim, self.num_classes)

    def transformer(self) -> Transformer:
        return Transformer(self.dim, heads=self.heads, depth=self.depth)

    def vector_encoder(self, width: int | None = None) -> VectorEncoder:
        """New encoders of each modality as one vector of this width (by default `vector_dim`)."""
        return VectorEncoder(self.vector_encoders(width or self.vector_dim))

    def vector_encoders(self, width: int) -> dict[str, Encoder]:
        """The units of a modality without an encoder for a vector are projected to one."""
        encoders = {name: part.build(width) for name, part in self.vectors.items()}
        return {name: encoder if encoder.units == 1 else AsVector(encoder) for name, encoder in encoders.items()}


def imputer_stage(benchmark: Benchmark) -> Stage:
    """The benchmark's imputer, frozen for all methods; all seeds share one, unless the benchmark has several `imputers`."""
    make, settings = IMPUTERS.get(benchmark.imputer).from_dataset, benchmark.settings.imputer
    name = f"imputer-{benchmark.imputer}" + (f"-s{settings.seed}" if settings.seed else "")
    return Stage(name, make, benchmark.imputer_options, settings, split="imputer")


def table_columns(benchmark: Benchmark) -> dict[str, tuple[int, ...]]:
    """The modalities that are tables, with the number of categories of every column, 1 for numbers."""
    return {
        name: tuple(modality.options.get("cardinalities", (1,) * modality.shape[0]))
        for name, modality in benchmark.modalities.items()
        if len(modality.shape) == 1
    }


def seeded_with(settings: TrainSettings, seed: int) -> TrainSettings:
    return settings.model_copy(update={"seed": seed})
