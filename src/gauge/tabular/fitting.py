"""Training on a table: a backbone, then gates on masked or on imputed input, whichever validates better."""

import inspect
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor

from gauge.data import Dataset
from gauge.masks import Complete, UpTo
from gauge.model.backbones.transformer import Transformer
from gauge.model.encoders._pretrained import PretrainedGrid, PretrainedTokens
from gauge.model.encoders.cells import Cells
from gauge.model.encoders.conv_grid import ConvGrid
from gauge.model.encoders.tokens import Tokens
from gauge.model.gauge import Gating, Gauge
from gauge.model.network import Network
from gauge.model.units import UnitEncoder
from gauge.registry import IMPUTERS, pick
from gauge.tabular.columns import Column, Image, PretrainedText, Text
from gauge.tabular.pretrained import Pretrained
from gauge.tabular.schema import Schema
from gauge.training.loop import Epoch
from gauge.training.metrics import Metric
from gauge.training.settings import TrainSettings
from gauge.training.stages import OnEpoch, Stage, StageStore
from gauge.types import Batch, Encoder, Imputer, Method, Prediction, SupportsComplete

Strategy = Literal["mask", "impute"]

STEPS = 800  # of the backbone, about
SHARES = {"imputer": 0.2, "backbone": 0.6, "mask": 0.8, "impute": 1.0}  # of the time limit, used up by each stage's end


@dataclass(frozen=True)
class Size:
    """Width, heads and depth of the backbone, and the channels of the image encoder."""

    dim: int
    heads: int
    depth: int
    channels: tuple[int, ...]


SIZES = {
    "small": Size(32, 4, 2, (16, 32, 64)),
    "medium": Size(64, 4, 3, (32, 64, 128)),
    "large": Size(128, 8, 4, (64, 128, 256)),
}


@dataclass(frozen=True)
class Recipe:
    """The options of a training run. `rate` is the largest share of values that training hides, `imputer` a registered
    name or any object with `complete(batch)`, `seconds` the time limit."""

    size: str
    strategies: tuple[Strategy, ...]
    imputer: str | SupportsComplete
    gates: bool
    rate: float
    epochs: int | None
    batch_size: int | None
    learning_rate: float
    metric: Metric
    donors: int
    seed: int
    seconds: float | None

    def settings(self, rows: int, validated: bool) -> TrainSettings:
        """Those of the backbone: enough epochs for about 800 steps, more for large tables."""
        batch = self.batch_size or min(256, max(32, rows // 16))
        epochs = self.epochs or min(100, max(20, STEPS * batch // rows))
        masks = UpTo(self.rate)
        return TrainSettings(
            epochs=epochs,
            batch_size=batch,
            learning_rate=self.learning_rate,
            schedule="cosine",
            patience=max(5, epochs // 3) if validated else None,
            masks=masks,
            selection=(Complete(), masks) if validated else (),
            metric=self.metric,
            seed=self.seed,
            precision="tf32",
        )


@dataclass(frozen=True)
class FittedModel:
    """The chosen model, the validation scores of the strategies from 0 to 1, the epochs of every stage, and for stages that
    the time limit ended the epochs done and planned."""

    model: Gauge
    strategy: Strategy
    scores: dict[Strategy, float | None]
    epochs: dict[str, int]
    cut_short: dict[str, tuple[int, int]]


class Weighted(Method):
    """A classifier whose training samples are weighted in the loss."""

    def __init__(self, model: Gauge, weights: Tensor) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("weights", weights, persistent=False)
        self.weights: Tensor

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        assert batch.labels is not None
        costs = F.cross_entropy(self.model(batch).logits, batch.labels, reduction="none")
        weights = self.weights[batch.index]
        return {"task": (costs * weights).sum() / weights.sum().clamp_min(1e-12)}

    def predict(self, batch: Batch) -> Prediction:
        return self.model.predict(batch)


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
    started: float = field(default_factory=time.monotonic)
    cut_short: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __call__(self, stage: str, epoch: Epoch) -> bool:
        self.on_epoch(stage, epoch)
        if self.seconds is None:
            return False
        enough = time.monotonic() + epoch.seconds > self.started + SHARES[stage] * self.seconds
        if enough and epoch.number < epoch.of:
            self.cut_short[stage] = (epoch.number, epoch.of)
        return enough


def train_model(
    schema: Schema,
    classes: int,
    recipe: Recipe,
    *,
    train: Dataset,
    val: Dataset | None,
    weights: Tensor,
    folder: Path | None,
    on_epoch: OnEpoch,
) -> FittedModel:
    """The better strategy, by validation, of those trained from one backbone. `weights` are those of the training rows;
    with a folder an interrupted training continues."""
    limit = TimeLimit(recipe.seconds, on_epoch)
    store = StageStore(train, val, folder, limit)
    stages = plan(schema, classes, recipe, recipe.settings(len(train), val is not None), weights)
    trained = {stage.name: store.trained(stage) for stage in stages}
    scores = {strategy: trained[strategy].about["score"] for strategy in recipe.strategies}
    best = choose_strategy(scores, 0 if val is None else len(val))
    model = trained[best].module
    assert isinstance(model, Weighted)
    epochs = {name: stage.about["epochs"] for name, stage in trained.items()}
    return FittedModel(model.model.eval(), best, scores, epochs, limit.cut_short)


def plan(schema: Schema, classes: int, recipe: Recipe, settings: TrainSettings, weights: Tensor) -> list[Stage]:
    """The backbone, and the strategies that build on it and on the imputer."""
    size = pick(SIZES, recipe.size, "size")
    arguments = {"schema": schema, "classes": classes, "size": size, "weights": weights}
    backbone = Stage("backbone", make_backbone, arguments, settings)
    arguments = {"imputer": recipe.imputer, "schema": schema, "donors": recipe.donors, "seed": recipe.seed}
    alone = {"epochs": max(1, settings.epochs // 3), "masks": Complete(), "selection": (), "patience": None}
    imputer = Stage("imputer", make_imputer, arguments, settings.model_copy(update=alone))
    shorter = {"epochs": max(1, settings.epochs // 5), "learning_rate": settings.learning_rate / 4, "patience": None}
    stages = [backbone]
    for strategy in recipe.strategies:
        arguments = {"gating": gating_of(strategy, recipe.gates), "weights": weights}
        needs = (backbone,) if strategy == "mask" else (backbone, imputer)
        stages.append(Stage(strategy, make_gated, arguments, settings.model_copy(update=shorter), needs))
    return stages


def make_backbone(train: Dataset, *, schema: Schema, classes: int, size: Size, weights: Tensor) -> Weighted:
    return Weighted(build(schema, classes, size, gating=Gating(granularity="none"), pretrained=True), weights)


def make_imputer(train: Dataset, *, imputer: str | SupportsComplete, schema: Schema, donors: int, seed: int) -> Imputer:
    if not isinstance(imputer, str):
        return imputer if isinstance(imputer, Imputer) else Given(imputer)
    kind, options = imputer_for(imputer, schema, donors=donors, seed=seed)
    return kind.of(train, **options)


def make_gated(
    train: Dataset, backbone: Weighted, imputer: Imputer | None = None, *, gating: Gating, weights: Tensor
) -> Weighted:
    return Weighted(Gauge(backbone.model.encoder, backbone.model.classifier, imputer, gating=gating), weights)


def imputer_for(name: str, schema: Schema, **known: Any) -> tuple[type[Imputer], dict[str, Any]]:
    """The registered imputer and those of the known options that it takes; `nearest` replaces one that needs a table where
    there is none."""
    kind = IMPUTERS.get(name)
    if kind.needs_table and not schema.table:
        kind = IMPUTERS.get("nearest")
    known = {"cardinalities": schema.cardinalities, **known}
    return kind, {name: known[name] for name in inspect.signature(kind.of).parameters if name in known}


def build(
    schema: Schema,
    classes: int,
    size: Size,
    *,
    gating: Gating | None = None,
    imputer: SupportsComplete | None = None,
    pretrained: bool = False,
) -> Gauge:
    """The untrained network for these columns: one unit for every number, category, word and part of an image.

    `pretrained` reads the weights of pretrained encoders, which a saved classifier has in its own file.
    """
    encoders: dict[str, Encoder] = {}
    for modality, columns in schema.modalities.items():
        if modality == "table":
            encoders[modality] = Cells((len(columns),), size.dim, schema.cardinalities)
        else:
            encoders[modality] = _encoder(columns[0], size, pretrained)
    network = Network(Transformer(size.dim, heads=size.heads, depth=size.depth), size.dim, classes)
    return Gauge(UnitEncoder(encoders, size.dim), network, imputer, gating=gating)


def _encoder(column: Column, size: Size, pretrained: bool) -> Encoder:
    match column:
        case Text():
            return Tokens((column.length,), size.dim, words=len(column.words) + 2)
        case PretrainedText(model=model):
            return PretrainedTokens(model.network(weights=pretrained), column.length, column.prefix, column.suffix)
        case Image(model=Pretrained() as model):
            return PretrainedGrid(model.network(weights=pretrained), column.side, model.mean, model.std)
        case Image():
            return ConvGrid((3, column.side, column.side), size.dim, channels=size.channels)
    raise AssertionError(column)


def gating_of(strategy: Strategy, gates: bool) -> Gating:
    """A gate for every unit; with imputation the gates also know which values were imputed."""
    return Gating(informed=strategy == "impute") if gates else Gating(granularity="none")


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
