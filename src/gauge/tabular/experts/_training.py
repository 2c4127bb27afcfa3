"""Training the network of a table: GAUGE+ on weighted rows."""

import logging
import math
import time
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor

from gauge.choices import pick
from gauge.data import Dataset
from gauge.nn.shards import total
from gauge.plus.gauge_plus import GaugePlus
from gauge.tabular.experts import Task, Training
from gauge.tabular.experts._architecture import build
from gauge.tabular.experts._recipe import SIZES, NetworkSize
from gauge.tabular.table.schema import Schema
from gauge.training.distributed import broadcast
from gauge.training.loop import Epoch
from gauge.training.stages import OnEpoch, Stage, StageStore
from gauge.types import Method
from gauge.values import Batch, Prediction

logger = logging.getLogger(__name__)


class Weighted(Method):
    """A network whose training samples are weighted in the loss, relative to their batch."""

    shardable = True

    def __init__(self, model: GaugePlus, weights: Tensor) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("weights", weights, persistent=False)
        self.weights: Tensor

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        weights = self.weights[batch.index]
        mean = total(weights.sum()) / total(torch.ones_like(weights).sum())
        return self.model.loss(batch, weights / mean.clamp_min(1e-12))

    def predict(self, batch: Batch) -> Prediction:
        return self.model.predict(batch)

    def validate(self, train: Dataset, val: Dataset) -> dict[str, float]:
        return self.model.validate(train, val)

    def prepare(self, train: Dataset, val: Dataset | None = None) -> None:
        most = 300  # rows held out, evenly chosen, whose masked copies weigh network and heads
        if val is not None and len(val) > most:
            val = val.take(torch.linspace(0, len(val) - 1, most).long().to(val.device))
        self.model.prepare(train, val)


@dataclass
class TimeLimit:
    """Ends training early so that it takes less than `seconds`, and records after which epoch."""

    seconds: float | None
    on_epoch: OnEpoch
    started: float
    cut_short: dict[str, tuple[int, int]] = field(default_factory=dict)
    max_share: ClassVar[float] = 0.7  # of the time left, for training

    def share(self, needed: float) -> float:
        """How much of a training that takes so many seconds there is time for."""
        assert self.seconds is not None
        return self.max_share * self.seconds / max(needed, 1e-9)

    def __call__(self, stage: str, epoch: Epoch) -> bool:
        self.on_epoch(stage, epoch)
        if self.seconds is None:
            return False
        enough = time.monotonic() + epoch.seconds > self.started + self.max_share * self.seconds
        if enough and epoch.number < epoch.of:
            self.cut_short[stage] = epoch.number, self.cut_short.get(stage, (0, epoch.of))[1]
        return enough


def train_network(task: Task, *, train: Dataset, val: Dataset | None, weights: Tensor) -> tuple[GaugePlus, Training]:
    """The network, and the record of its training. `weights` are those of the training rows; with a folder an interrupted
    training continues."""
    limit = TimeLimit(task.seconds_left, task.on_epoch, time.monotonic())
    store = StageStore(train, val, task.folder, limit)
    settings = task.recipe.settings(len(train))
    size = pick(SIZES, task.recipe.size, "size")
    arguments = {"schema": task.rows.schema, "classes": task.classes, "size": size, "weights": weights}
    stage = Stage("backbone", make_backbone, arguments, settings)
    if limit.seconds is not None and (share := broadcast(limit.share(stage_seconds(store, stage)))) < 1:
        limit.cut_short["backbone"] = max(1, int(share * settings.epochs)), settings.epochs
        settings = settings.model_copy(update={"epochs": limit.cut_short["backbone"][0]})
        stage = replace(stage, settings=settings)
    # training rows from which on the duration is estimated first
    if len(train) >= 20_000:
        logger.warning(
            "training the network on %d rows takes about %.0f min here; time_limit= (--time-limit) ends it earlier",
            *(len(train), stage_seconds(store, stage) / 60),
        )
    trained = store.trained(stage)
    chosen = trained.module
    assert isinstance(chosen, Weighted)
    combination = chosen.model.combination
    if val is None and combination is not None:  # the mean of all votes, where their product would overrate
        combination.offset.fill_(-math.log(len(combination.offset)))
    training = Training(
        rows=len(train),
        epochs={stage.name: trained.metadata["epochs"]},
        cut_short=limit.cut_short,
        history=[
            {"stage": stage.name, "epoch": epoch["number"], "losses": epoch["losses"], "seconds": epoch["seconds"]}
            for epoch in trained.metadata.get("history", [])
        ],
    )
    return chosen.model.eval(), training


def stage_seconds(store: StageStore, stage: Stage) -> float:
    """How long a stage will take, measured on a few steps; nothing if it is trained already."""
    if store.metadata(stage) is not None:
        return 0.0
    return stage.settings.epochs * stage.seconds_per_epoch(store.rows(stage))


def make_backbone(train: Dataset, *, schema: Schema, classes: int, size: NetworkSize, weights: Tensor) -> Weighted:
    return Weighted(build(schema, classes, size, pretrained=True), weights)
