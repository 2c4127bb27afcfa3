"""Recipe: the options of a training run, and the settings that follow from them. Nothing here imports the network."""

from dataclasses import dataclass

from gauge.masks import UpTo
from gauge.training.settings import TrainSettings


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
    limit. On a CPU a network learns from at most `max_rows` of a table in
    memory. Where there is `content`, texts, images or signals, or more than two `classes`, the network takes more steps."""

    size: str
    rate: float
    epochs: int | None
    batch_size: int | None
    learning_rate: float
    seed: int
    seconds: float | None
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
        return TrainSettings(
            epochs=self.epochs or min(100, max(3, steps * batch // rows)),
            batch_size=batch,
            learning_rate=self.learning_rate,
            schedule="cosine",
            patience=None,
            masks=UpTo(self.rate),
            seed=self.seed,
            precision="tf32",
        )
