"""What the experts are told: how to train, by the options of the estimator, and what to learn, by rows and labels."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gauge.choices import pick
from gauge.registry import IMPUTERS
from gauge.tabular.experts import Task
from gauge.tabular.experts._architecture import SIZES
from gauge.tabular.experts._recipe import Recipe, Strategy
from gauge.tabular.table import inputs
from gauge.tabular.table.columns import ImageFiles
from gauge.tabular.table.labelled import Labelled
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Encoded, Schema
from gauge.training.metrics import ACCURACY, AUC, METRICS

MIN_HIDDEN_RATE, MAX_HIDDEN_RATE = 0.5, 0.9  # limits of the share of values that training hides
STRATEGIES: dict[str, tuple[Strategy, ...]] = {"auto": ("mask", "impute"), "mask": ("mask",), "impute": ("impute",)}
COPIED = ("size", "imputer", "gates", "epochs", "batch_size", "learning_rate", "tune_rate", "tune_decay", "donors")


def make_recipe(options: Mapping[str, Any], seed: int, classes: int) -> Recipe:
    """How networks are trained, by the options of the estimator."""
    pick(SIZES, options["size"], "size")
    if isinstance(options["imputer"], str):
        kinds = {name: IMPUTERS.get(name) for name in IMPUTERS.names()}
        general = {name: kind for name, kind in kinds.items() if not (kind.needs_image or kind.reads_hidden_values)}
        pick(general, options["imputer"], "imputer")
    automatic = {"auto": AUC if classes == 2 else ACCURACY}
    return Recipe(
        **{name: options[name] for name in COPIED},
        strategies=pick(STRATEGIES, options["strategy"], "strategy"),
        rate=MIN_HIDDEN_RATE if options["missing_rate"] is None else options["missing_rate"],
        metric=pick(METRICS | automatic, options["metric"], "metric"),
        seed=seed,
        seconds=options["time_limit"],
    )


def make_task(
    data: Labelled,
    schema: Schema,
    encoded: Encoded,
    used: np.ndarray,
    recipe: Recipe,
    device: torch.device,
    folder: Path | None,
    files: ImageFiles,
) -> Task:
    """What the experts learn from the rows that are used."""
    streamed = None
    if data.stream is not None:
        given = schema, data.every_label, data.frame.index[used], files
        streamed = data.stream.encoded(*given, folder=folder, device=device)
    return Task(
        rows=Rows.from_frame(schema, data.every_row, encoded).take(used),
        labels=data.labels[used],
        weights=inputs.scale_weights(data.weights[used]),
        classes=len(data.classes),
        recipe=recipe,
        device=device,
        folder=folder,
        streamed=streamed,
        splits=None if data.splits is None else data.splits.take(used),
    )
