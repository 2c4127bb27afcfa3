"""Leaves100: which of 100 plants a leaf is from, by 64 measures each of its margin, shape and texture (UCI)."""

from functools import cache
from pathlib import Path

from gauge.data import Dataset
from gauge_lab.benchmarks import Benchmark
from gauge_lab.benchmarks._views import vector_views
from gauge_lab.benchmarks.readers.notes import part_note
from gauge_lab.benchmarks.readers.views import LEAF_FEATURES, leaf_features, views_dataset

__all__ = ["BENCHMARK"]

SPECIES = 100
LEAVES = 1599  # with a margin, a shape and a texture
VIEWS = {"margin": "data_Mar_64.txt", "shape": "data_Sha_64.txt", "texture": "data_Tex_64.txt"}


@cache
def read(split: str, data: Path, fold: int = 0, disjoint: bool = True) -> Dataset:
    """One split, by species in alphabetical order."""
    features, classes, folder = leaf_features(data, VIEWS)
    species = int(classes.max()) + 1
    if species > SPECIES:
        raise ValueError(f"the files in {folder} have {species} species; the official ones have {SPECIES}")
    note = part_note("part of the leaves", len(classes), LEAVES, "leaves")
    return views_dataset(split, features, classes, folder, fold=fold, disjoint=disjoint, notes=[note])


BENCHMARK = Benchmark(
    name="leaves100",
    **vector_views(dict.fromkeys(VIEWS, LEAF_FEATURES), epochs=40, rows=LEAVES),
    num_classes=SPECIES,
    read=read,
    files=f"{', '.join(VIEWS.values())}",
)
