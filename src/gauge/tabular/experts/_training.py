"""Training the network of a table: GAUGE+, then its gates."""

import logging
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from gauge.choices import pick
from gauge.data import Dataset
from gauge.nn.shards import total
from gauge.paper.gauge import Gating
from gauge.plus.gauge_plus import GaugePlus
from gauge.tabular.experts import Task, Training
from gauge.tabular.experts._architecture import build
from gauge.tabular.experts._gate_choice import MAX_COMBINING_ROWS, choose_gates, spread
from gauge.tabular.experts._recipe import SIZES, NetworkSize, Recipe
from gauge.tabular.table.schema import Schema
from gauge.training.distributed import broadcast
from gauge.training.loop import Epoch
from gauge.training.settings import TrainSettings
from gauge.training.stages import OnEpoch, Stage, StageStore
from gauge.types import Method
from gauge.values import Batch, Prediction

logger = logging.getLogger(__name__)

SHARES = {"backbone": 0.6, "mask": 0.7}  # of the time left, by a stage's end


class Weighted(Method):
    """A network whose training samples are weighted in the loss, relative to their batch. Unless it `answers`, because its
    gates are still to be trained or chosen, the combination of its heads is not learned."""

    shardable = True

    def __init__(self, model: GaugePlus, weights: Tensor, *, answers: bool = True) -> None:
        super().__init__()
        self.model, self.answers = model, answers
        self.register_buffer("weights", weights, persistent=False)
        self.weights: Tensor

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        weights = self.weights[batch.index]
        mean = total(weights.sum()) / total(torch.ones_like(weights).sum())
        return self.model.loss(batch, weights / mean.clamp_min(1e-12))

    def predict(self, batch: Batch) -> Prediction:
        return self.model.predict(batch)

    def validate(self, train: Dataset, val: Dataset) -> None:
        self.model.validate(train, val)

    def prepare(self, train: Dataset, val: Dataset | None = None) -> None:
        if self.answers:
            self.model.prepare(train, None if val is None else spread(val, MAX_COMBINING_ROWS))


@dataclass
class TimeLimit:
    """Ends stages early so that all of them together take about `seconds`, and records which."""

    seconds: float | None
    on_epoch: OnEpoch
    started: float
    cut_short: dict[str, tuple[int, int]] = field(default_factory=dict)

    def share(self, needed: float) -> float:
        """How much of a training that takes so many seconds there is time for."""
        assert self.seconds is not None
        return SHARES["mask"] * self.seconds / max(needed, 1e-9)

    def __call__(self, stage: str, epoch: Epoch) -> bool:
        self.on_epoch(stage, epoch)
        if self.seconds is None:
            return False
        enough = time.monotonic() + epoch.seconds > self.started + SHARES[stage] * self.seconds
        if enough and epoch.number < epoch.of:
            self.cut_short[stage] = epoch.number, self.cut_short.get(stage, (0, epoch.of))[1]
        return enough


def train_network(
    task: Task, recipe: Recipe, *, train: Dataset, val: Dataset | None, weights: Tensor
) -> tuple[GaugePlus, Training]:
    """The network, and the record of its training. `weights` are those of the training rows; with a folder an interrupted
    training continues."""
    limit = TimeLimit(task.seconds_left, task.on_epoch, time.monotonic())
    store = StageStore(train, val, task.folder, limit)
    settings = recipe.settings(len(train))
    stages = plan(task.rows.schema, task.classes, recipe, settings, weights)
    if limit.seconds is not None and (share := broadcast(limit.share(seconds_left(store, stages.values())))) < 1:
        limit.cut_short["backbone"] = max(1, int(share * settings.epochs)), settings.epochs
        settings = settings.model_copy(update={"epochs": limit.cut_short["backbone"][0]})
        stages = plan(task.rows.schema, task.classes, recipe, settings, weights)
    # training rows from which on the duration is estimated first
    if len(train) >= 20_000:
        logger.warning(
            "training the network on %d rows takes about %.0f min here; time_limit= (--time-limit) ends it earlier",
            *(len(train), seconds_left(store, stages.values()) / 60),
        )
    trained = {name: store.trained(stage) for name, stage in stages.items()}
    chosen = list(trained.values())[-1].module
    assert isinstance(chosen, Weighted)
    combination = chosen.model.combination
    if val is None and combination is not None:  # the mean of all answers, where their product would overrate
        combination.offset.fill_(-math.log(len(combination.offset)))
    gate_losses = choose_gates(chosen.model, train, val, settings.masks) if recipe.gates == "auto" else {}
    training = Training(
        rows=len(train),
        epochs={name: stage.metadata["epochs"] for name, stage in trained.items()},
        cut_short=limit.cut_short,
        history=history(store, stages.values()),
        gate_losses=gate_losses,
    )
    return chosen.model.eval(), training


def history(store: StageStore, stages: Iterable[Stage]) -> list[dict[str, Any]]:
    """The losses of each epoch of these stages and of those that they need, in the order of training."""
    every = {each.identity: each for stage in stages for each in stage.all()}
    return [
        {"stage": stage.name, "epoch": epoch["number"], "losses": epoch["losses"], "seconds": epoch["seconds"]}
        for stage in every.values()
        for epoch in (store.metadata(stage) or {}).get("history", [])
    ]


def seconds_left(store: StageStore, stages: Iterable[Stage]) -> float:
    """How long the stages that are not trained yet will take, measured on a few steps of each."""
    every = {each.identity: each for stage in stages for each in stage.all() if store.metadata(each) is None}
    return sum(
        each.settings.epochs * each.seconds_per_epoch(store.rows(each), store.val if each.settings.selection else None)
        for each in every.values()
    )


def plan(schema: Schema, classes: int, recipe: Recipe, settings: TrainSettings, weights: Tensor) -> dict[str, Stage]:
    """The backbone and, unless there are no gates, the network with gates that builds on it."""
    arguments = {"schema": schema, "classes": classes, "size": pick(SIZES, recipe.size, "size"), "weights": weights}
    arguments |= {"answers": not recipe.gates}
    backbone = Stage("backbone", make_backbone, arguments, settings)
    if not recipe.gates:
        return {"backbone": backbone}
    arguments = {"answers": recipe.gates != "auto", "weights": weights}  # else `choose_gates` learns the combination
    return {"backbone": backbone, "mask": Stage("mask", make_gated, arguments, fine_tuning(settings), (backbone,))}


def fine_tuning(settings: TrainSettings) -> TrainSettings:
    """Those of a network that is trained already."""
    shorter = {"epochs": max(1, settings.epochs // 5), "learning_rate": settings.learning_rate / 4}
    return settings.model_copy(update=shorter)


def make_backbone(
    train: Dataset,
    *,
    schema: Schema,
    classes: int,
    size: NetworkSize,
    weights: Tensor,
    answers: bool,
) -> Weighted:
    return Weighted(build(schema, classes, size, pretrained=True), weights, answers=answers)


def make_gated(train: Dataset, backbone: Weighted, *, weights: Tensor, answers: bool) -> Weighted:
    """The trained network and its heads, with gates."""
    before = backbone.model
    model = GaugePlus(
        before.encoder,
        before.gauge.classifier,
        subsets_per_step=before.subsets_per_step,
        gating=Gating(),
        heads="none" if before.heads is None else "validated",
    )
    model.heads, model.head_gradients = before.heads, before.head_gradients
    return Weighted(model, weights, answers=answers)
