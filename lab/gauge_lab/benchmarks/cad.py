"""CAD: coronary artery disease, from three phases of a heart and 75 measures (UK Biobank)."""

from functools import cache
from pathlib import Path

from gauge.data import Dataset
from gauge.training.metrics import AUC
from gauge_lab.benchmarks import Benchmark, Modality
from gauge_lab.benchmarks._image_table import image_table, image_table_settings
from gauge_lab.benchmarks.readers.tip import SIDE
from gauge_lab.benchmarks.readers.ukbb import COLUMNS, FOLDERS, LENGTHS, read_heart

__all__ = ["BENCHMARK"]


@cache
def read(split: str, data: Path) -> Dataset:
    return read_heart("CAD", split, data, train_rows=3_482)


BENCHMARK = Benchmark(
    name="cad",
    **image_table(Modality((3, SIDE, SIDE), "resnet_grid", {"depth": 50}, "resnet_vector"), COLUMNS),
    num_classes=2,
    settings=image_table_settings(
        "hearts", {"imputer": 500, "backbone": 300, "experts": 60, "finetune": 300}, batch_size=128, finetune_rate=1e-3
    ),
    read=read,
    files=f"{FOLDERS[0]}/{LENGTHS}",
    metric=AUC,
    imputer_split="own",
    small_init=True,
    method_options={"dymo": {"calibration": "ratio"}},  # as DyMo's code has it for these data sets
)
