"""How a model for somebody's table comes about: a backbone that has met gaps, then gates on masked or on imputed input.

Which of the two it is, validation decides, unless it is said.
"""

import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from gauge import registry
from gauge.backbones.transformer import Transformer
from gauge.config import TrainSettings
from gauge.data import Dataset
from gauge.data.frame import Column, Image, PretrainedText, Schema, Text
from gauge.data.pretrained import Pretrained
from gauge.encoders._pretrained import PretrainedGrid, PretrainedTokens
from gauge.encoders.cells import Cells
from gauge.encoders.conv_grid import ConvGrid
from gauge.encoders.tokens import Tokens
from gauge.methods.gauge import Gating, Gauge
from gauge.network import Network
from gauge.randomness import seeded
from gauge.training import Epoch, Progress, fit
from gauge.types import Batch, Encoder, Imputer, Prediction
from gauge.units import UnitEncoder

Strategy = Literal["mask", "impute"]
OnEpoch = Callable[[str, Epoch], None]

IMPUTERS = ("masked_columns", "nearest", "mean", "zero")
STEPS = 800  # of the backbone, about
SHARES = {"imputer": 0.2, "backbone": 0.6, "mask": 0.8, "impute": 1.0}  # of the time limit, by the end of each stage


@dataclass(frozen=True)
class Size:
    """How large the networks are: width, heads and depth of the backbone, channels of the image encoder."""

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
    """All that decides how a model is trained. `rate` is the largest share of values that training hides; `imputer` a
    registered name or any object with `complete(batch)`; `seconds` the time limit."""

    size: str = "small"
    strategies: tuple[Strategy, ...] = ("mask", "impute")
    imputer: str | Imputer = "masked_columns"
    gates: bool = True
    rate: float = 0.5
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float = 2e-3
    metric: Literal["accuracy", "auc"] = "accuracy"
    donors: int = 1000
    seed: int = 0
    seconds: float | None = None

    def settings(self, rows: int, validated: bool) -> TrainSettings:
        """Of the backbone: enough epochs for about 800 steps, more on large tables."""
        batch = self.batch_size or min(256, max(32, rows // 16))
        epochs = self.epochs or min(100, max(20, STEPS * batch // rows))
        masks = f"up-to={self.rate:g}"
        return TrainSettings(
            epochs=epochs,
            batch_size=batch,
            learning_rate=self.learning_rate,
            schedule="cosine",
            patience=max(5, epochs // 3) if validated else None,
            masks=masks,
            selection=("complete", masks) if validated else (),
            metric=self.metric,
            seed=self.seed,
            precision="tf32",
        )


@dataclass(frozen=True)
class Trained:
    """The model that was chosen, the validation score of every strategy that was tried, from 0 to 1, the epochs of every
    stage, and those that the time limit ended: after how many epochs of how many."""

    model: Gauge
    strategy: Strategy
    scores: Mapping[Strategy, float | None]
    epochs: Mapping[str, int]
    cut_short: Mapping[str, tuple[int, int]]


@dataclass
class Run:
    """Where training happens: what it learns from, how much each training row counts, and who is told of its progress."""

    train: Dataset
    val: Dataset | None
    weights: Tensor
    recipe: Recipe
    folder: Path | None = None
    on_epoch: OnEpoch = lambda stage, epoch: None
    started: float = field(default_factory=time.monotonic)
    cut_short: dict[str, tuple[int, int]] = field(default_factory=dict)

    def fit(self, stage: str, module: nn.Module, settings: TrainSettings) -> Progress:
        end = None if self.recipe.seconds is None else self.started + SHARES[stage] * self.recipe.seconds

        def heard(epoch: Epoch) -> bool:
            self.on_epoch(stage, epoch)
            enough = end is not None and time.monotonic() + epoch.seconds > end
            if enough and epoch.number < epoch.of:
                self.cut_short[stage] = (epoch.number, epoch.of)
            return enough

        folder = None if self.folder is None else self.folder / stage
        val = self.val if settings.selection else None
        return fit(module, self.train, val, settings=settings, folder=folder, on_epoch=heard)


class Weighted(nn.Module):
    """A classifier in whose loss every training sample counts as much as its weight says."""

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


def build(
    schema: Schema,
    classes: int,
    size: Size,
    *,
    gating: Gating | None = None,
    imputer: Any = None,
    weights: bool = False,
) -> Gauge:
    """The network for these columns, untrained: one unit for every column of the table, word, and part of a picture.

    `weights` reads those of pretrained encoders; a saved classifier brings them along.
    """
    encoders: dict[str, Encoder] = {}
    for modality, columns in schema.modalities.items():
        if modality == "table":
            encoders[modality] = Cells((len(columns),), size.dim, schema.cardinalities)
        else:
            encoders[modality] = _encoder(columns[0], size, weights)
    network = Network(Transformer(size.dim, heads=size.heads, depth=size.depth), size.dim, classes)
    return Gauge(UnitEncoder(encoders, size.dim), network, imputer, gating=gating)


def _encoder(column: Column, size: Size, weights: bool) -> Encoder:
    match column:
        case Text():
            return Tokens((column.length,), size.dim, words=len(column.words) + 2)
        case PretrainedText(model=model):
            return PretrainedTokens(model.network(weights=weights), column.length, column.prefix, column.suffix)
        case Image(model=Pretrained() as model):
            return PretrainedGrid(model.network(weights=weights), column.side, model.mean, model.std)
        case Image():
            return ConvGrid((3, column.side, column.side), size.dim, channels=size.channels)
    raise AssertionError(column)


def make_imputer(schema: Schema, train: Dataset, recipe: Recipe) -> Any:
    """Untrained, where it is one that trains."""
    if not isinstance(recipe.imputer, str):
        return recipe.imputer
    if recipe.imputer == "masked_columns" and "table" in schema.modalities:
        return registry.get("imputers", "masked_columns").of(train, schema.cardinalities, recipe.donors, recipe.seed)
    if recipe.imputer in ("masked_columns", "nearest"):
        return registry.get("imputers", "nearest").of(train, recipe.donors, recipe.seed)
    return registry.get("imputers", recipe.imputer).of(train)


def train_model(schema: Schema, classes: int, run: Run) -> Trained:
    """Train a backbone, then every strategy from it, and keep the one that validates better."""
    recipe, train = run.recipe, run.train
    size = registry.pick(SIZES, recipe.size, "size")
    settings = recipe.settings(len(train), run.val is not None)
    with seeded(recipe.seed, "build"):
        backbone = build(schema, classes, size, gating=Gating(granularity="none"), weights=True)
        imputer = make_imputer(schema, train, recipe) if "impute" in recipe.strategies else None
    if isinstance(imputer, nn.Module) and hasattr(imputer, "loss"):
        alone = {"epochs": max(1, settings.epochs // 3), "masks": "complete", "selection": (), "patience": None}
        run.fit("imputer", imputer, settings.model_copy(update=alone))
    epochs = {"backbone": run.fit("backbone", Weighted(backbone, run.weights), settings).epoch}
    shorter = {"epochs": max(1, settings.epochs // 5), "learning_rate": settings.learning_rate / 4, "patience": None}
    found: dict[Strategy, tuple[Gauge, float | None]] = {}
    for strategy in recipe.strategies:
        model = Gauge(
            copy.deepcopy(backbone.encoder),
            copy.deepcopy(backbone.classifier),
            imputer if strategy == "impute" else None,
            gating=gating_of(strategy, recipe.gates),
        )
        progress = run.fit(strategy, Weighted(model, run.weights), settings.model_copy(update=shorter))
        epochs[strategy] = progress.epoch
        found[strategy] = model, progress.best_score
    scores = {strategy: score for strategy, (_, score) in found.items()}
    best = choose_strategy(scores, 0 if run.val is None else len(run.val))
    return Trained(found[best][0].eval(), best, scores, epochs, dict(run.cut_short))


def gating_of(strategy: Strategy, gates: bool) -> Gating:
    """A gate for every unit; where gaps are imputed the gates also know what is real."""
    return Gating(informed=strategy == "impute") if gates else Gating(granularity="none")


def choose_strategy(scores: Mapping[Strategy, float | None], rows: int) -> Strategy:
    """Imputing has to be better than masking, which invents nothing, by more than the standard error of so many rows.

    >>> choose_strategy({"mask": 0.90, "impute": 0.91}, 100), choose_strategy({"mask": 0.90, "impute": 0.95}, 100)
    ('mask', 'impute')
    """
    if "mask" not in scores or len(scores) == 1:
        return next(iter(scores))
    mask, impute = scores["mask"], scores["impute"]
    if mask is None or impute is None:
        return "mask"
    return "impute" if impute - mask > (mask * (1 - mask) / rows) ** 0.5 and impute > mask else "mask"
