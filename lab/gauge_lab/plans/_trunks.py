"""The encoders of GAUGE+ and of the voters that it is compared with: fine units and, last, the whole of each modality."""

from dataclasses import replace

from gauge.encoders._with_whole import WithWhole
from gauge.encoders.deep_grid import DeepGrid
from gauge.encoders.flat_table import FlatTable
from gauge.registry import ENCODERS
from gauge.types import Encoder
from gauge_lab.benchmarks import Benchmark, Modality
from gauge_lab.parts import EncoderPart, Parts, table_columns
from gauge_lab.plans import options_of

TABLES = ("cells", "columns", "tabular")  # whose whole unit `flat_table` makes


def plus_parts(benchmark: Benchmark) -> Parts:
    units = {name: unit_part(modality) for name, modality in benchmark.modalities.items()}
    dim = options_of(benchmark, "gauge_plus")["dim"] or benchmark.dim
    return replace(Parts.from_benchmark(benchmark), units=units, dim=dim, small_init=False)


def voter_parts(benchmark: Benchmark) -> Parts:
    """The same for classifiers of single modalities, which need of a table only the encoder of its whole unit."""
    parts = plus_parts(benchmark)
    return replace(
        parts,
        units={name: whole_part(modality) or parts.units[name] for name, modality in benchmark.modalities.items()},
    )


def columns_of_units(benchmark: Benchmark) -> dict[str, tuple[int, ...]]:
    """The tables whose units are their columns, with the number of categories of each."""
    columns = table_columns(benchmark)
    return {name: columns[name] for name in columns if benchmark.modalities[name].encoder in TABLES}


def unit_part(modality: Modality) -> EncoderPart:
    """A modality's encoder, a ResNet or a deep grid for images, and its whole unit."""
    fine = EncoderPart(ENCODERS.get(modality.encoder), modality.shape, modality.options)
    # encoders of images that stay; `deep_grid` takes the place of all others
    if len(modality.shape) == 3 and modality.encoder not in ("resnet_grid", "resnet_vector"):
        channels = {name: value for name, value in modality.options.items() if name == "channels"}
        fine = EncoderPart(DeepGrid, modality.shape, channels)
    return EncoderPart(fine_and_whole, modality.shape, {"fine": fine, "whole": whole_part(modality)})


def whole_part(modality: Modality) -> EncoderPart | None:
    """The encoder of a table's whole unit; the whole of another modality is made of its fine units."""
    if modality.encoder not in TABLES:
        return None
    cells = {name: value for name, value in modality.options.items() if name == "cardinalities"}
    return EncoderPart(FlatTable, modality.shape, cells)


def fine_and_whole(shape: tuple[int, ...], width: int, *, fine: EncoderPart, whole: EncoderPart | None) -> Encoder:
    """An encoder with a single unit reads all of the modality as it is."""
    encoder = fine.build(width)
    return encoder if encoder.units == 1 else WithWhole(encoder, None if whole is None else whole.build(width))
