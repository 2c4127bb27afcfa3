"""Predictions for tables in files on a Ray cluster: each worker loads the model once, and they are written in parts."""

import logging
import math
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path

import pandas as pd

from gauge.data.files import part_of
from gauge.deploy.exported import load_classifier
from gauge.deploy.scoring import predict_rows
from gauge.registry import load_plugin, plugin_files
from gauge.tabular.saved.classifier import TableClassifier
from gauge.tabular.table.arrays import rows_at_once
from gauge.tabular.table.paths import table_files


@dataclass
class Predictor:
    """Predicts frames with the model in a folder or file, which is loaded when it is first used: small to send to a worker,
    where it can serve as a function of Ray Data or of Spark's mapInPandas. `plugins` are files that register components of
    the model, by default those that this process has loaded."""

    model: Path
    keep: Sequence[str] = ()
    coverage: float | None = None
    by_class: bool = False
    device: str | None = None
    image_folder: Path | None = None
    outside_images: bool = False
    plugins: Sequence[Path] = field(default_factory=lambda: tuple(plugin_files))

    @cached_property
    def classifier(self) -> TableClassifier:
        for plugin in self.plugins:
            load_plugin(plugin)
        return load_classifier(
            self.model, device=self.device, image_folder=self.image_folder, outside_images=self.outside_images
        )

    def __call__(self, rows: pd.DataFrame) -> pd.DataFrame:
        return predict_rows(self.classifier, rows, self.keep, self.coverage, by_class=self.by_class)


def predict_on_ray(predictor: Predictor, table: Path, out: Path, *, workers: int) -> None:
    """Predicts Parquet files on the Ray cluster that this process belongs to, or that RAY_ADDRESS names, or on this machine.

    A worker that dies is replaced, and its part predicted again. The folder `out` appears when all parts are written. Model
    and files have to be readable on every machine. A worker on "cuda" gets a GPU of its own.
    """
    files = table_files(table)
    if files[0].suffix != ".parquet":
        raise ValueError(f"Ray reads Parquet only, not {files[0]}; convert the table, or predict it without Ray")
    if out.exists():
        raise ValueError(f"{out} already exists; choose a new folder for the parts")
    size = rows_at_once(replace(predictor).classifier.columns)  # a model that cannot be read is reported here
    try:
        import ray.data
    except ImportError as error:
        raise ValueError(f"a cluster needs {error.name}; install it with: pip install 'gauge-ml[ray]'") from error
    if not ray.is_initialized():
        ray.init(logging_level=logging.ERROR, log_to_driver=False)
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    rows = ray.data.read_parquet([str(path.resolve()) for path in files])
    # a worker takes a block at a time, and Ray makes one of up to 128 MB
    predictions = rows.repartition(target_num_rows_per_block=size).map_batches(
        type(predictor),
        fn_constructor_kwargs=asdict(predictor),
        batch_format="pandas",
        batch_size=size,
        compute=ray.data.ActorPoolStrategy(size=workers),
        num_cpus=_cpus(len(ray.nodes()), ray.cluster_resources().get("CPU", 0.0), workers),
        num_gpus=1 if str(predictor.device).startswith("cuda") else None,
    )
    part = part_of(out)
    try:
        predictions.write_parquet(str(part.resolve()), min_rows_per_file=100_000)  # in each part
        part.rename(out)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def _cpus(machines: int, cpus: float, workers: int) -> float:
    """What each worker takes: a CPU, but less on a single machine that would have none left to read and write.

    >>> _cpus(1, 8.0, 4), _cpus(1, 2.0, 2), _cpus(4, 8.0, 8)
    (1.0, 0.5, 1.0)
    """
    return 1.0 if machines > 1 else min(1.0, math.floor(100 * max(cpus - 1, 0) / workers) / 100)
