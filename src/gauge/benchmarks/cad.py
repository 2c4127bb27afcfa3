"""CAD: coronary artery disease, from three phases of a heart and 75 measures (UK Biobank)."""

from functools import cache
from pathlib import Path

from gauge.benchmarks import Benchmark, Modality
from gauge.config import TrainSettings
from gauge.data import Dataset
from gauge.data.tables import GAMMA_PROTOCOLS
from gauge.data.tip import SIDE
from gauge.data.ukbb import CARDINALITIES, read_heart

__all__ = ["BENCHMARK"]


@cache
def read(split: str, data: Path | None = None) -> Dataset:
    """One split in the order of its files."""
    return read_heart("CAD", split, data, train_rows=3_482)


BENCHMARK = Benchmark(
    name="cad",
    modalities={
        "image": Modality((3, SIDE, SIDE), "resnet_grid", {"depth": 50}, "resnet_vector"),
        "table": Modality(
            (len(CARDINALITIES),),
            "tabular",
            {"cardinalities": CARDINALITIES, "inner": 512, "depth": 4, "heads": 8},
            "tabular_vector",
        ),
    },
    num_classes=2,
    dim=256,
    heads=8,
    depth=2,
    subsets_per_step=2,
    projection=128,
    imputer="tip",
    imputer_options={"cardinalities": CARDINALITIES, "width": 512, "depth": 4, "heads": 8, "resnet": 50},
    protocols=GAMMA_PROTOCOLS,
    settings={
        "imputer": TrainSettings(
            epochs=500,
            batch_size=128,
            learning_rate=3e-4,
            schedule="cosine",
            patience=None,
            augment="hearts-tip",
            precision="tf32",
        ),
        "backbone": TrainSettings(
            epochs=300,
            batch_size=128,
            learning_rate=3e-4,
            augment="hearts",
            selection=GAMMA_PROTOCOLS,
            precision="tf32",
        ),
        "experts": TrainSettings(
            epochs=60, batch_size=128, schedule="cosine", patience=None, augment="hearts", precision="tf32"
        ),
        "finetune": TrainSettings(
            epochs=300,
            batch_size=128,
            learning_rate=1e-3,
            masks="any-gamma",
            augment="hearts",
            selection=GAMMA_PROTOCOLS,
            precision="tf32",
        ),
    },
    read=read,
    metric="auc",
)
