"""Training the network of a table: GAUGE+, then its gates on masked or on imputed input, whichever validates better."""

import inspect
import logging
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from gauge.choices import pick
from gauge.data import Dataset
from gauge.masks import Complete, UpTo
from gauge.methods.gauge_plus import GaugePlus
from gauge.model.backbones.transformer import Transformer
from gauge.model.encoders._with_whole import WithWhole
from gauge.model.encoders.cells import Cells
from gauge.model.encoders.flat_table import FlatTable
from gauge.model.gauge import UNGATED, Gating
from gauge.model.network import Network
from gauge.model.units import UnitEncoder
from gauge.registry import IMPUTERS
from gauge.tabular.table.columns import FINE_COLUMNS
from gauge.tabular.table.schema import Schema
from gauge.training.inference import predict_split
from gauge.training.loop import Epoch
from gauge.training.metrics import Metric
from gauge.training.settings import TrainSettings
from gauge.training.stages import OnEpoch, Stage, StageStore
from gauge.types import Batch, Encoder, Imputer, Method, Prediction, SupportsComplete, Trainable

logger = logging.getLogger(__name__)

Strategy = Literal["mask", "impute"]

STEPS, STEPS_PER_ROOT = 150, 6  # of the backbone: the larger of a number and a multiple of the root of the rows
FEW_EPOCHS, MANY_EPOCHS = 3, 100
LARGE = 20_000  # training rows from which on the duration is estimated first
FLAT = (
    8192  # numbers in the units of a text or an image that one more unit reads side by side; pretrained ones have more
)
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

    def settings(self, rows: int) -> TrainSettings:
        """Those of the backbone: a short schedule of large steps that ends with a rate of zero. No epoch is selected, so
        that rows held out can weigh the network against other experts."""
        batch = self.batch_size or min(256, max(32, min(128, rows // 2), rows // 64))
        steps = max(STEPS, round(STEPS_PER_ROOT * rows**0.5))
        return TrainSettings(
            epochs=self.epochs or min(MANY_EPOCHS, max(FEW_EPOCHS, steps * batch // rows)),
            batch_size=batch,
            learning_rate=self.learning_rate,
            schedule="cosine",
            patience=None,
            masks=UpTo(self.rate),
            metric=self.metric,
            seed=self.seed,
            precision="tf32",
        )


@dataclass(frozen=True)
class FittedModel:
    """The chosen model, the validation scores of the strategies from 0 to 1, the epochs of every stage, and for stages that
    the time limit ended the epochs done and planned. `history` has the losses of every epoch, also of those that were done
    before an interruption."""

    model: GaugePlus
    strategy: Strategy
    scores: dict[Strategy, float | None]
    epochs: dict[str, int]
    cut_short: dict[str, tuple[int, int]]
    history: list[dict[str, Any]]


class Weighted(Method):
    """A network whose training samples are weighted in the loss, relative to their batch. Unless it `answers`, because its
    gates are still to be trained, the combination of its heads is not learned."""

    def __init__(self, model: GaugePlus, weights: Tensor, *, answers: bool = True) -> None:
        super().__init__()
        self.model, self.answers = model, answers
        self.register_buffer("weights", weights, persistent=False)
        self.weights: Tensor

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        weights = self.weights[batch.index]
        return self.model.loss(batch, weights / weights.mean().clamp_min(1e-12))

    def predict(self, batch: Batch) -> Prediction:
        return self.model.predict(batch)

    def prepare(self, train: Dataset, val: Dataset | None = None) -> None:
        if self.answers:
            self.model.prepare(train, val)


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
    settings = recipe.settings(len(train))
    stages = plan(schema, classes, recipe, settings, weights)
    if len(train) >= LARGE:
        logger.warning(
            "training the network on %d rows takes about %.0f min here; time_limit= (--time-limit) ends it earlier",
            *(len(train), seconds_left(store, stages.values()) / 60),
        )
    trained = {name: store.trained(stage) for name, stage in stages.items()}
    scores = {strategy: _score(trained[strategy].module, val, settings) for strategy in recipe.strategies}
    best = choose_strategy(scores, 0 if val is None else len(val))
    model = trained[best].module
    assert isinstance(model, Weighted)
    if (
        val is None and model.model.combination is not None
    ):  # the mean of all answers, where their product would overrate
        model.model.combination.offset.fill_(-math.log(len(model.model.combination.offset)))
    epochs = {name: stage.metadata["epochs"] for name, stage in trained.items()}
    return FittedModel(model.model.eval(), best, scores, epochs, limit.cut_short, history(store, stages.values()))


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


def plan(schema: Schema, classes: int, recipe: Recipe, settings: TrainSettings, weights: Tensor) -> dict[str, Stage]:
    """The backbone, and the strategies that build on it and on the imputer. Masking without gates is the backbone."""
    size = pick(SIZES, recipe.size, "size")
    alone = "mask" in recipe.strategies and not recipe.gates
    arguments = {"schema": schema, "classes": classes, "size": size, "weights": weights, "answers": alone}
    backbone = Stage("backbone", make_backbone, arguments, settings)
    arguments = {"imputer": recipe.imputer, "schema": schema, "donors": recipe.donors, "seed": recipe.seed}
    complete = {"epochs": max(1, settings.epochs // 3), "masks": Complete()}
    imputer = Stage("imputer", make_imputer, arguments, settings.model_copy(update=complete))
    shorter = {"epochs": max(1, settings.epochs // 5), "learning_rate": settings.learning_rate / 4}
    stages = {"backbone": backbone}
    for strategy in recipe.strategies:
        if strategy == "mask" and alone:
            stages[strategy] = backbone
            continue
        arguments = {"gating": gating_of(strategy, recipe.gates), "weights": weights}
        needs = (backbone,) if strategy == "mask" else (backbone, imputer)
        stages[strategy] = Stage(strategy, make_gated, arguments, settings.model_copy(update=shorter), needs)
    return stages


def make_backbone(
    train: Dataset, *, schema: Schema, classes: int, size: Size, weights: Tensor, answers: bool
) -> Weighted:
    return Weighted(build(schema, classes, size, pretrained=True), weights, answers=answers)


def make_imputer(train: Dataset, *, imputer: str | SupportsComplete, schema: Schema, donors: int, seed: int) -> Imputer:
    if not isinstance(imputer, str):
        return imputer if isinstance(imputer, Imputer) else Given(imputer)
    kind, options = imputer_for(imputer, schema, donors=donors, seed=seed)
    return kind.from_dataset(train, **options)


def make_gated(
    train: Dataset, backbone: Weighted, imputer: Imputer | None = None, *, gating: Gating, weights: Tensor
) -> Weighted:
    """The trained network and its heads, with gates."""
    before = backbone.model
    subsets = before.subsets_per_step if imputer is None else 0  # it has seen subsets already
    model = GaugePlus(before.encoder, before.gauge.classifier, imputer, subsets_per_step=subsets, gating=gating)
    model.heads = before.heads
    return Weighted(model, weights)


def imputer_for(name: str, schema: Schema, **known: Any) -> tuple[type[Imputer], dict[str, Any]]:
    """The registered imputer and those of the known options that it takes; `nearest` replaces one that needs a table where
    there is none."""
    kind = IMPUTERS.get(name)
    if kind.needs_table and not schema.table:
        kind = IMPUTERS.get("nearest")
    known = {"cardinalities": schema.cardinalities, **known}
    return kind, {name: known[name] for name in inspect.signature(kind.from_dataset).parameters if name in known}


def build(
    schema: Schema,
    classes: int,
    size: Size,
    *,
    gating: Gating = UNGATED,
    imputer: SupportsComplete | None = None,
    pretrained: bool = False,
    plus: bool = True,
) -> GaugePlus:
    """The untrained network for these columns: one unit for every number, category, word and part of an image, one more for
    each modality as a whole, and a head for each modality. More than `FINE_COLUMNS` numbers and categories are one unit in
    all. Without `plus` it is the network of 0.1.0, which has units of columns only.

    `pretrained` reads the weights of pretrained encoders, which a saved classifier has in its own file.
    """
    encoders: dict[str, Encoder] = {}
    for modality, columns in schema.modalities.items():
        whole: Encoder | None = None
        if modality == "table":
            whole = FlatTable((len(columns),), size.dim, schema.cardinalities)
            if plus and len(columns) > FINE_COLUMNS:
                encoders[modality] = whole
                continue
            fine: Encoder = Cells((len(columns),), size.dim, schema.cardinalities)
        else:
            fine = schema.contents[modality].encoder(size.dim, size.channels, weights=pretrained)
        flat = fine.units * fine.width <= FLAT or whole is not None
        encoders[modality] = WithWhole(fine, whole) if plus and flat and fine.units > 1 else fine
    network = Network(Transformer(size.dim, heads=size.heads, depth=size.depth), size.dim, classes)
    subsets = min(2, len(encoders))  # a single modality has one subset
    return GaugePlus(
        UnitEncoder(encoders, size.dim), network, imputer, subsets_per_step=subsets, gating=gating, heads=plus
    )


def strategy_scores(scores: Mapping[Strategy, float | None], chosen: Strategy) -> str:
    """The validation scores of the strategies in words, empty if there are none."""
    known = {name: score for name, score in scores.items() if score is not None}
    text = " and ".join(f"{100 * score:.1f} % with {name!r}" for name, score in known.items())
    if len(known) > 1:
        better = known["impute"] - known["mask"]
        text += f" ({100 * better:+.1f} points for imputing"
        text += ", within chance)" if chosen == "mask" and better > 0 else ")"
    return text


def gating_of(strategy: Strategy, gates: bool) -> Gating:
    """A gate for every unit; with imputation the gates also know which values were imputed."""
    return Gating(informed=strategy == "impute") if gates else UNGATED


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
