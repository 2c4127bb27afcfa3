"""Stages: what trains, on which settings, standing on what. Declared here, run and cached by `experiment`."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from gauge import __version__, registry
from gauge.backbones.transformer import Transformer
from gauge.benchmarks import Benchmark, Modality
from gauge.config import TrainSettings
from gauge.data import Dataset
from gauge.network import Network
from gauge.nn.attention import initialise
from gauge.types import Encoder
from gauge.units import UnitEncoder, VectorEncoder

SIZES = ("dim", "heads", "depth", "num_classes", "small_init", "vector_dim")


@dataclass(frozen=True)
class Variant:
    """One row of a table. `dagger` is the policy that tables mark †: each step trains on several random subsets."""

    note: str
    dagger: bool = False


@dataclass(frozen=True)
class Stage:
    """One thing to train. `build(train, *modules)` makes it from the training split and the trained modules of `needs`;
    `config` names everything that `build` depends on, for the cache."""

    name: str
    build: Callable[..., nn.Module]
    config: Mapping[str, Any]
    settings: TrainSettings
    needs: tuple["Stage", ...] = ()

    def all(self) -> list["Stage"]:
        """This stage after all that it stands on, each once."""
        found: dict[str, Stage] = {}
        for need in self.needs:
            found |= {stage.key(""): stage for stage in need.all()}
        return [*found.values(), self]

    def key(self, data: str) -> str:
        """The hash that this stage is cached under: settings, data, and the stages it stands on."""
        content = {
            "version": __version__,
            "config": dict(self.config),
            "settings": self.settings.model_dump(mode="json"),
            "data": data,
            "needs": [stage.key(data) for stage in self.needs],
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:12]


def imputer_stage(benchmark: Benchmark) -> Stage:
    """The benchmark's imputer: trained once, frozen for every method and seed."""

    def build(train: Dataset) -> nn.Module:
        return registry.get("imputers", benchmark.imputer).of(train, **benchmark.imputer_options)

    config = {"imputer": benchmark.imputer, **benchmark.imputer_options}
    return Stage(f"imputer-{benchmark.imputer}", build, config, benchmark.settings["imputer"])


def unit_network(benchmark: Benchmark) -> tuple[UnitEncoder, Network]:
    """Encoders and classifier at the benchmark's sizes, fresh."""
    encoders = {
        name: registry.get("encoders", modality.encoder)(modality.shape, benchmark.dim, **modality.options)
        for name, modality in benchmark.modalities.items()
    }
    backbone = Transformer(benchmark.dim, heads=benchmark.heads, depth=benchmark.depth)
    encoder, network = UnitEncoder(encoders, benchmark.dim), Network(backbone, benchmark.dim, benchmark.num_classes)
    if benchmark.small_init:
        initialise(encoder)
        initialise(network)
    return encoder, network


def vector_encoder(benchmark: Benchmark, width: int | None = None) -> VectorEncoder:
    """Fresh encoders that give one vector of that width (the benchmark's `vector_dim` when None) for each modality."""
    width = width or benchmark.vector_dim or benchmark.dim

    def built(modality: Modality) -> Encoder:
        options = modality.options if modality.vector_options is None else modality.vector_options
        return registry.get("encoders", modality.vector or modality.encoder)(modality.shape, width, **options)

    return VectorEncoder({name: built(modality) for name, modality in benchmark.modalities.items()})


def network_config(benchmark: Benchmark) -> dict[str, Any]:
    """What `unit_network` and `vector_encoder` depend on."""
    sizes = {name: getattr(benchmark, name) for name in SIZES}
    encoders = {
        name: [m.shape, m.encoder, m.options, m.vector, m.vector_options] for name, m in benchmark.modalities.items()
    }
    return {**sizes, "encoders": encoders}
