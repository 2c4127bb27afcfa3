"""What benchmarks with an image and a table share: encoder and imputer of the table, and how their stages train."""

from collections.abc import Mapping
from typing import Any

from gauge.masks import AnyCells
from gauge.training.settings import TrainSettings
from gauge_lab.benchmarks import Modality, StageSettings
from gauge_lab.benchmarks.readers.tables import GAMMA_PROTOCOLS

SMALL = {"dim": 128, "width": 128, "depth": 2, "heads": 4}  # sizes for thousands of rows; the defaults are the paper's


def image_table(
    image: Modality,
    columns: Mapping[str, int],
    *,
    dim: int = 256,
    width: int = 512,
    depth: int = 4,
    heads: int = 8,
    resnet: int = 50,
    waves: int = 0,
) -> dict[str, Any]:
    """Fields of a `Benchmark`. `columns` gives the number of categories of each column, 1 for a number; `width`, `depth`
    and `heads` are those of the Transformer over the table, in the encoder and in TIP, whose image encoder is a ResNet of
    depth `resnet`. The backbone has the width `dim` and the same number of heads.

    With `waves`, numeric columns have their own weights and the backbone reads cells one by one: on a few hundred rows, a
    Transformer on top of another one learns next to nothing.
    """
    cardinalities = tuple(columns.values())
    sizes = {"depth": depth, "heads": heads} | ({"waves": waves} if waves else {})
    vector = {"cardinalities": cardinalities, "inner": width, **sizes}
    encoder, options = ("cells", {"cardinalities": cardinalities, "waves": waves}) if waves else ("tabular", vector)
    table = Modality((len(columns),), encoder, options, "tabular_vector", vector if waves else None, tuple(columns))
    return {
        "modalities": {"image": image, "table": table},
        "dim": dim,
        "heads": heads,
        "imputer": "tip",
        "imputer_options": {"cardinalities": cardinalities, "width": width, **sizes, "resnet": resnet},
        "protocols": GAMMA_PROTOCOLS,
    }


def image_table_settings(
    augment: str, epochs: dict[str, int], *, batch_size: int = 256, finetune_rate: float = 1e-4, precision: str = "tf32"
) -> StageSettings:
    """Settings with these `epochs` of imputer, backbone, experts and finetune; the imputer is trained with the augmentation
    `augment` + "-tip"."""
    shared: dict[str, Any] = {"batch_size": batch_size, "augment": augment, "precision": precision}
    selected = shared | {"selection": GAMMA_PROTOCOLS}
    unselected = shared | {"schedule": "cosine", "patience": None}
    imputer = unselected | {"augment": f"{augment}-tip"}
    return StageSettings(
        imputer=TrainSettings(epochs=epochs["imputer"], learning_rate=3e-4, **imputer),
        backbone=TrainSettings(epochs=epochs["backbone"], learning_rate=3e-4, **selected),
        experts=TrainSettings(epochs=epochs["experts"], **unselected),
        finetune=TrainSettings(epochs=epochs["finetune"], learning_rate=finetune_rate, masks=AnyCells(), **selected),
        own_plus=TrainSettings(epochs=epochs["backbone"], learning_rate=3e-4, masks=AnyCells(), **unselected),
    )
