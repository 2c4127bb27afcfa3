"""How the stages of a benchmark with pictures and a table train: what DVM, the hearts and HAM10000 share."""

from typing import Any

from gauge.config import TrainSettings
from gauge.data.tables import GAMMA_PROTOCOLS


def image_table_settings(
    augment: str, epochs: dict[str, int], *, batch_size: int = 256, finetune_rate: float = 1e-4
) -> dict[str, TrainSettings]:
    """`epochs` of imputer, backbone, experts and finetune; `augment` names how training samples are changed, and with `-tip`
    those of the imputer."""
    shared: dict[str, Any] = {"batch_size": batch_size, "augment": augment, "precision": "tf32"}
    selected = shared | {"selection": GAMMA_PROTOCOLS}
    kept_as_it_ends = shared | {"schedule": "cosine", "patience": None}
    imputer = kept_as_it_ends | {"augment": f"{augment}-tip"}
    return {
        "imputer": TrainSettings(epochs=epochs["imputer"], learning_rate=3e-4, **imputer),
        "backbone": TrainSettings(epochs=epochs["backbone"], learning_rate=3e-4, **selected),
        "experts": TrainSettings(epochs=epochs["experts"], **kept_as_it_ends),
        "finetune": TrainSettings(
            epochs=epochs["finetune"], learning_rate=finetune_rate, masks="any-gamma", **selected
        ),
    }
