"""What benchmarks of several vectors share: encoders, the imputer, protocols, and one training budget for all methods."""

from collections.abc import Mapping
from typing import Any

from gauge.masks import AnyModalities, parse_protocols
from gauge.training.settings import TrainSettings
from gauge_lab.benchmarks import Modality, StageSettings

WIDTH = 64


def vector_views(views: Mapping[str, int], *, epochs: int, rows: int) -> dict[str, Any]:
    """Fields of a `Benchmark` whose modalities are vectors of these sizes. The imputer takes missing views from the nearest
    of the training `rows`.

    The protocols are those of incomplete multi-view classification: a share of all views is missing, in training data too
    if `incomplete` says so. Five divisions test every row once.
    """
    protocols = parse_protocols("complete", *(f"overall={rate}" for rate in (0.1, 0.2, 0.3, 0.4, 0.5)))
    networks = vector_networks(views, epochs=epochs, donors=rows, hidden=2 * WIDTH, learning_rate=3e-3)
    return networks | {"protocols": protocols, "backbones": 5, "folds": 5, "disjoint": True}


def vector_networks(
    views: Mapping[str, int], *, epochs: int, donors: int, hidden: int, learning_rate: float
) -> dict[str, Any]:
    """Networks and settings for vectors of these sizes. All methods train for as many epochs, at the same rate and width,
    and keep the last epoch; GAUGE is fine-tuned for a quarter more. The imputer takes missing vectors from the nearest of so
    many `donors`."""
    whole = TrainSettings(epochs=epochs, batch_size=128, learning_rate=learning_rate, schedule="cosine", patience=None)
    return {
        "modalities": {name: Modality((size,), "mlp", {"hidden": hidden}) for name, size in views.items()},
        "dim": WIDTH,
        "heads": 4,
        "depth": 1,
        "imputer": "nearest",
        "imputer_options": {"donors": donors},
        "settings": StageSettings(
            imputer=whole.model_copy(update={"epochs": 0}),
            backbone=whole,
            experts=whole,
            finetune=whole.model_copy(update={"epochs": epochs // 4, "masks": AnyModalities()}),
        ),
    }
