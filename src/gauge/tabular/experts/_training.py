"""Training the network of a table: GAUGE+, then its gates on masked or on imputed input, whichever validates better."""

import logging
import math
import time
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from gauge.choices import pick
from gauge.data import Dataset
from gauge.masks import Complete
from gauge.methods.gauge_plus import GaugePlus
from gauge.model.encoders._pretrained import Tune
from gauge.model.gauge import UNGATED, Gate, Gating
from gauge.model.nn.shards import total
from gauge.tabular.experts import Task, Training
from gauge.tabular.experts._architecture import SIZES, Size, build, freeze, imputer_for
from gauge.tabular.experts._gate_choice import MAX_COMBINING_ROWS, choose_gates, spread
from gauge.tabular.experts._recipe import Recipe, Strategy
from gauge.tabular.table.schema import Schema
from gauge.training.distributed import broadcast
from gauge.training.inference import predict_split
from gauge.training.loop import Epoch
from gauge.training.settings import TrainSettings
from gauge.training.stages import OnEpoch, Stage, StageStore
from gauge.types import Imputer, Method, SupportsComplete, Trainable
from gauge.values import Batch, Prediction

logger = logging.getLogger(__name__)

MIN_ROWS_ESTIMATED = 20_000  # training rows from which on the duration is estimated first
SHARES = {
    "imputer": 0.2,
    "backbone": 0.5,
    "mask": 0.6,
    "impute": 0.7,
    "refit": 0.7,
}  # of the time left, by a stage's end


class Weighted(Method):
    """A network whose training samples are weighted in the loss, relative to their batch; `targets` are probabilities of the
    classes that they learn instead of labels. Unless it `answers`, because its gates are still to be trained or
    chosen, the combination of its heads is not learned."""

    shardable = True

    def __init__(
        self, model: GaugePlus, weights: Tensor, targets: Tensor | None = None, *, answers: bool = True
    ) -> None:
        super().__init__()
        self.model, self.answers = model, answers
        self.register_buffer("weights", weights, persistent=False)
        self.register_buffer("targets", targets, persistent=False)
        self.weights: Tensor
        self.targets: Tensor | None

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        weights = self.weights[batch.index]
        mean = total(weights.sum()) / total(torch.ones_like(weights).sum())
        if self.targets is not None:
            batch = replace(batch, labels=self.targets[batch.index])
        return self.model.loss(batch, weights / mean.clamp_min(1e-12))

    def predict(self, batch: Batch) -> Prediction:
        return self.model.predict(batch)

    def validate(self, train: Dataset, val: Dataset) -> None:
        self.model.validate(train, val)

    def prepare(self, train: Dataset, val: Dataset | None = None) -> None:
        if self.answers:
            self.model.prepare(train, None if val is None else spread(val, MAX_COMBINING_ROWS))


class Given(Imputer):
    """An imputer that is not a module."""

    def __init__(self, imputer: SupportsComplete) -> None:
        super().__init__()
        self.imputer = imputer

    def complete(self, batch: Batch) -> Batch:
        return self.imputer.complete(batch)


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
    task: Task,
    recipe: Recipe,
    *,
    train: Dataset,
    val: Dataset | None,
    weights: Tensor,
    targets: Tensor | None = None,
    every: Dataset | None = None,
) -> tuple[GaugePlus, Training]:
    """The better strategy, by validation, of those trained from one backbone, and the record of the training. `weights` are
    those of the training rows, `targets` what they learn if that is not their label, and `every` are all rows, also those
    without a label, from which the imputer learns; with a folder an interrupted training continues."""
    limit = TimeLimit(task.seconds_left, task.on_epoch, time.monotonic())
    store = StageStore(train, val, task.folder, limit, imputer=every)
    settings = recipe.settings(len(train))
    stages = plan(task.rows.schema, task.classes, recipe, settings, weights, targets)
    if limit.seconds is not None and (share := broadcast(limit.share(seconds_left(store, stages.values())))) < 1:
        limit.cut_short["backbone"] = max(1, int(share * settings.epochs)), settings.epochs
        settings = settings.model_copy(update={"epochs": limit.cut_short["backbone"][0]})
        stages = plan(task.rows.schema, task.classes, recipe, settings, weights, targets)
    if len(train) >= MIN_ROWS_ESTIMATED:
        logger.warning(
            "training the network on %d rows takes about %.0f min here; time_limit= (--time-limit) ends it earlier",
            *(len(train), seconds_left(store, stages.values()) / 60),
        )
    trained = {name: store.trained(stage) for name, stage in stages.items()}
    several = len(recipe.strategies) > 1
    scores = {each: _score(trained[each].module, val, settings) if several else None for each in recipe.strategies}
    best = choose_strategy(scores, 0 if val is None else len(val))
    chosen = trained[best].module
    assert isinstance(chosen, Weighted)
    combination = chosen.model.combination
    if val is None and combination is not None:  # the mean of all answers, where their product would overrate
        combination.offset.fill_(-math.log(len(combination.offset)))
    gate_losses = choose_gates(chosen.model, train, val, settings.masks) if recipe.gates == "auto" else {}
    if not several:  # that of the pass which answers
        scores = {best: _score(chosen, val, settings)}
    freeze(chosen.model)
    epochs = {name: stage.metadata["epochs"] for name, stage in trained.items()}
    training = Training(
        rows=len(train),
        strategy=best,
        metric=str(recipe.metric),
        scores=scores,
        epochs=epochs,
        cut_short=limit.cut_short,
        history=history(store, stages.values()),
        gate_losses=gate_losses,
    )
    return chosen.model.eval(), training


def refit_network(
    task: Task, model: GaugePlus, training: Training, *, train: Dataset, weights: Tensor
) -> tuple[GaugePlus, Training]:
    """The network after a short training with a low rate on all rows, those that were held out among them. What was learned
    from these, the combination with its heads, stays as it is."""
    limit = TimeLimit(task.seconds_left, task.on_epoch, time.monotonic())
    store = StageStore(train, None, task.folder, limit)
    settings = fine_tuning(task.recipe.settings(training.rows))
    stage = Stage("refit", make_refit, {"model": model, "weights": weights}, settings)
    trained = store.trained(stage)
    assert isinstance(trained.module, Weighted)
    training = replace(
        training,
        rows=len(train),
        epochs={**training.epochs, "refit": trained.metadata["epochs"]},
        cut_short={**training.cut_short, **limit.cut_short},
        history=[*training.history, *history(store, [stage])],
    )
    return trained.module.model.eval(), training


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


def _score(module: Trainable, val: Dataset | None, settings: TrainSettings) -> float | None:
    """The mean score of the validation rows as they are and with further values missing."""
    assert isinstance(module, Method)
    protocols = () if val is None else (Complete(), settings.masks)
    values = [predict_split(module, val, protocol).score(settings.metric) for protocol in protocols if val is not None]
    return sum(values) / len(values) if values else None


def plan(
    schema: Schema,
    classes: int,
    recipe: Recipe,
    settings: TrainSettings,
    weights: Tensor,
    targets: Tensor | None = None,
) -> dict[str, Stage]:
    """The backbone, and the strategies that build on it and on the imputer. Masking without gates is the backbone."""
    size = pick(SIZES, recipe.size, "size")
    alone = "mask" in recipe.strategies and not recipe.gates
    of_rows = {"weights": weights, "targets": targets}
    arguments: dict[str, Any] = {"schema": schema, "classes": classes, "size": size, "answers": alone, **of_rows}
    arguments["tune"] = recipe.tune
    backbone = Stage("backbone", make_backbone, arguments, settings)
    arguments = {"imputer": recipe.imputer, "schema": schema, "donors": recipe.donors, "seed": recipe.seed}
    complete = {"epochs": max(1, settings.epochs // 3), "masks": Complete()}
    imputer = Stage("imputer", make_imputer, arguments, settings.model_copy(update=complete), split="imputer")
    stages = {"backbone": backbone}
    for strategy in recipe.strategies:
        if strategy == "mask" and alone:
            stages[strategy] = backbone
            continue
        compared = (
            len(recipe.strategies) > 1 or recipe.gates != "auto"
        )  # otherwise `choose_gates` learns the combination
        arguments = {"gating": Gating() if recipe.gates else UNGATED, "answers": compared, **of_rows}
        needs = (backbone,) if strategy == "mask" else (backbone, imputer)
        stages[strategy] = Stage(strategy, make_gated, arguments, fine_tuning(settings), needs)
    return stages


def fine_tuning(settings: TrainSettings) -> TrainSettings:
    """Those of a network that is trained already."""
    shorter = {"epochs": max(1, settings.epochs // 5), "learning_rate": settings.learning_rate / 4}
    return settings.model_copy(update=shorter)


def make_backbone(
    train: Dataset,
    *,
    schema: Schema,
    classes: int,
    size: Size,
    weights: Tensor,
    targets: Tensor | None,
    answers: bool,
    tune: Mapping[str, Tune],
) -> Weighted:
    return Weighted(build(schema, classes, size, pretrained=True, tune=tune), weights, targets, answers=answers)


def make_imputer(train: Dataset, *, imputer: str | SupportsComplete, schema: Schema, donors: int, seed: int) -> Imputer:
    if not isinstance(imputer, str):
        return imputer if isinstance(imputer, Imputer) else Given(imputer)
    kind, options = imputer_for(imputer, schema, donors=donors, seed=seed)
    return kind.from_dataset(train, **options)


def make_gated(
    train: Dataset,
    backbone: Weighted,
    imputer: Imputer | None = None,
    *,
    gating: Gating,
    weights: Tensor,
    targets: Tensor | None,
    answers: bool,
) -> Weighted:
    """The trained network and its heads, with gates."""
    before = backbone.model
    subsets = before.subsets_per_step if imputer is None else 0  # it has seen subsets already
    model = GaugePlus(before.encoder, before.gauge.classifier, imputer, subsets_per_step=subsets, gating=gating)
    model.heads, model.head_gradients = before.heads, before.head_gradients
    return Weighted(model, weights, targets, answers=answers)


def make_refit(train: Dataset, *, model: GaugePlus, weights: Tensor) -> Weighted:
    model = deepcopy(model).requires_grad_(True)
    if isinstance(model.gauge.gate, Gate):
        model.gauge.gate.requires_grad_(model.applies_gates)
    freeze(model)
    return Weighted(model, weights)


def choose_strategy(scores: Mapping[Strategy, float | None], rows: int) -> Strategy:
    """Imputing, if it is better than masking by more than the standard error of this many rows; otherwise masking.

    >>> choose_strategy({"mask": 0.90, "impute": 0.91}, 100), choose_strategy({"mask": 0.90, "impute": 0.95}, 100)
    ('mask', 'impute')
    """
    if len(scores) == 1:
        return next(iter(scores))
    mask, impute = scores["mask"], scores["impute"]
    if mask is None or impute is None:
        return "mask"
    return "impute" if impute - mask > (mask * (1 - mask) / rows) ** 0.5 else "mask"
