"""Recipe: the options of a training run, and the settings that follow from them. Nothing here imports the network."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from gauge.choices import pick
from gauge.masks import UpTo
from gauge.tabular.table.schema import Schema
from gauge.training.settings import TrainSettings

if TYPE_CHECKING:
    from gauge.encoders._pretrained import Tune


@dataclass(frozen=True)
class NetworkSize:
    """Width, heads and depth of the backbone, and the channels of the image encoder."""

    dim: int
    heads: int
    depth: int
    channels: tuple[int, ...]


SIZES = {
    "small": NetworkSize(32, 4, 2, (16, 32, 64)),
    "medium": NetworkSize(64, 4, 3, (32, 64, 128)),
    "large": NetworkSize(128, 8, 4, (64, 128, 256)),
}


@dataclass(frozen=True)
class Recipe:
    """The options of a training run. `rate` is the largest share of values that training hides, `seconds` the time
    limit. `tune` says by column what is trained of pretrained
    encoders, where that is more than the projection. On a CPU a network learns from at most `max_rows` of a table in
    memory. With "auto" gates, validation decides whether they change the answer or are evidence alone. Where there is
    `content`, texts, images or signals, or more than two
    `classes`, the network takes more steps."""

    size: str
    gates: bool | Literal["auto"]
    rate: float
    epochs: int | None
    batch_size: int | None
    learning_rate: float
    seed: int
    seconds: float | None
    tune: "Mapping[str, Tune]" = field(default_factory=dict)
    max_rows: int | None = None
    content: bool = False
    classes: int = 2

    def settings(self, rows: int) -> TrainSettings:
        """Those of the backbone: a short schedule of large steps that ends with a rate of zero. No epoch is selected, so
        that rows held out can weigh the network against other experts."""
        part = 64 if self.content else 128  # of the rows of a large table; twice as many take twice as long
        batch = self.batch_size or min(256, max(32, min(128, rows // 2), rows // part))
        # steps of the backbone: at least a number, and a multiple of the root of the rows
        least, per_root = (120, 5) if self.content else (80, 4) if self.classes == 2 else (150, 6)
        steps = max(least, round(per_root * rows**0.5))
        # share of all steps, where pretrained encoders are fine-tuned
        return TrainSettings(
            epochs=self.epochs or min(100, max(3, steps * batch // rows)),
            batch_size=batch,
            learning_rate=self.learning_rate,
            warm_up=0.1 if self.tune else 0.0,
            schedule="cosine",
            patience=None,
            masks=UpTo(self.rate),
            seed=self.seed,
            precision="tf32",
        )


def tuned_columns(tune: str | Mapping[str, str], schema: Schema) -> "dict[str, Tune]":
    """What is trained of the pretrained encoders of each column, where that is more than the projection."""
    encoders = schema.encoders
    if not isinstance(tune, str):
        for column in tune:
            pick(encoders, column, "pretrained encoder of column")
    elif tune != "head" and not encoders:
        raise ValueError(f"tune={tune!r} trains pretrained encoders, and there are none; give some with encoders=")
    wanted = dict.fromkeys(encoders, tune) if isinstance(tune, str) else dict(tune)
    kinds: dict[str, Tune] = {"head": "head", "lora": "lora", "all": "all"}
    chosen = {column: pick(kinds, kind, "tune") for column, kind in wanted.items()}
    return {column: kind for column, kind in chosen.items() if kind != "head"}
