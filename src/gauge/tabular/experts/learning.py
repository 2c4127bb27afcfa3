"""Fitting the experts of a table and their combination."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from gauge.model.combination import Combination
from gauge.tabular.experts import Folds, Task
from gauge.tabular.experts.ensemble import (
    BESIDE,
    Ensemble,
    Network,
    leaderboard,
    learn_combination,
    make_folds,
    unscored,
)
from gauge.tabular.experts.network import FittedModel, Recipe, train_model
from gauge.training.metrics import ACCURACY
from gauge.training.stages import OnEpoch

TOO_FEW = 50  # rows: none are held out for validation
ALL_FOLDS = 5000  # rows: up to here trees and linear models are validated in every fold


@dataclass(frozen=True)
class FittedEnsemble:
    """All experts, what each scores and weighs, how many rows the network learned from and how many were held out, and the
    training of the network, if there is one, with its recipe. `donors` are the rows of the task that it copies from."""

    ensemble: Ensemble
    leaderboard: pd.DataFrame
    rows: dict[str, int]
    network: FittedModel | None
    recipe: Recipe
    donors: np.ndarray


def fit_ensemble(
    task: Task,
    names: tuple[str, ...],
    recipe: Recipe,
    *,
    prior: np.ndarray,
    validation: float,
    device: torch.device,
    folder: Path | None,
    on_epoch: OnEpoch,
) -> FittedEnsemble:
    """Every expert, and their combination from the rows that the first fold holds out: about `validation` of them. The
    network learns from the others; trees and linear models learn from all rows in the end."""
    started, folds = time.monotonic(), _folds(task, validation)
    train, val = folds[0] if folds else (np.arange(len(task.rows)), np.arange(0))
    tried = folds if len(task.rows) <= ALL_FOLDS else folds[:1]
    beside = {name: BESIDE[name].fit(task, tried) for name in names if name in BESIDE}
    experts: dict[str, Any] = {name: fitted[0] for name, fitted in beside.items()}
    held_out: dict[str, Any] = {name: fitted[1] for name, fitted in beside.items() if folds}
    fitted = None
    if "network" in names:
        if len(val) and len(np.unique(task.labels[val])) < task.classes:  # an AUC needs every class
            recipe = replace(recipe, metric=ACCURACY)
        encoded, spent = task.rows.encoded, time.monotonic() - started
        split = encoded.dataset("train", train, task.labels).to(device) if task.streamed is None else task.streamed(val)
        weights = torch.from_numpy(task.weights[train]) if task.streamed is None else torch.ones(len(split))
        fitted = train_model(
            task.rows.schema,
            task.classes,
            recipe if recipe.seconds is None else replace(recipe, seconds=max(recipe.seconds - spent, 0.0)),
            train=split,
            val=encoded.dataset("val", val, task.labels).to(device) if len(val) else None,
            weights=weights.float().to(device),
            folder=folder,
            on_epoch=on_epoch,
        )
        network = Network(fitted.model)
        experts, held_out = {"network": network, **experts}, {"network": network, **held_out}
    ensemble = Ensemble(experts, Combination(len(experts), 1).double(), prior, 1 / len(task.rows))
    board = unscored(ensemble)
    if len(val):
        validated = replace(ensemble, experts=held_out), task.rows.take(val), task.labels[val]
        learn_combination(*validated, rate=recipe.rate)
        board = leaderboard(*validated)
    learned_from = len(train) if fitted is None else len(split)
    donors = np.arange(0) if fitted is None or task.streamed else train[_donor_rows(fitted)]
    return FittedEnsemble(ensemble, board, {"train": learned_from, "val": len(val)}, fitted, recipe, donors)


def _donor_rows(fitted: FittedModel) -> np.ndarray:
    """The training rows that the imputer copies from, if any."""
    imputer = fitted.model.imputer
    rows = None if imputer is None else imputer.donor_rows
    return np.arange(0) if rows is None else rows.cpu().numpy()


def _folds(task: Task, validation: float) -> Folds:
    """None if there are too few rows, or if the rows held out would be fewer than the classes."""
    folds = make_folds(task.labels, max(2, round(1 / validation)), task.seed)
    enough = len(task.labels) >= TOO_FEW and all(len(held_out) >= task.classes for _, held_out in folds)
    return folds if enough and len(np.unique(task.labels)) > 1 else []
