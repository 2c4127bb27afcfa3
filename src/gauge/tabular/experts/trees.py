"""Boosted trees on numbers, categories and components of images; a missing cell is read as missing.

LightGBM, because its models are plain text by public API: they are saved without pickle and read by other versions and
machines. A saved HistGradientBoosting of scikit-learn consists of private classes; it also takes four times as long.
"""

from typing import Any, Self

import lightgbm
import numpy as np
import torch
from scipy.special import log_softmax

from gauge.tabular.experts import Expert, Folds, Saved, Task
from gauge.tabular.experts._pixels import Pixels
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Schema

__all__ = ["Trees"]

MAX_ROUNDS = 400
PATIENCE = 25  # rounds without an improvement on the rows held out
DEFAULT_ROUNDS = 50  # where no rows can be held out
OPTIONS: dict[str, Any] = {
    "learning_rate": 0.06,
    "num_leaves": 15,
    "feature_fraction": 0.7,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "lambda_l2": 1.0,
    "verbosity": -1,
    "deterministic": True,
    "force_row_wise": True,
}


class Trees(Expert):
    """The number of rounds is the one with the least loss on the rows held out, over all folds."""

    def __init__(self, booster: lightgbm.Booster, pixels: Pixels, classes: int, rounds: int) -> None:
        self.booster, self.pixels, self.classes, self.rounds = booster, pixels, classes, rounds

    @classmethod
    def reads(cls, schema: Schema) -> bool:
        return any(column.read_by_trees for column in schema.columns)

    @classmethod
    def fit(cls, task: Task, folds: Folds) -> tuple[Self, Self]:
        binary = task.classes == 2
        options = OPTIONS | {
            "objective": "binary" if binary else "multiclass",
            "num_class": 1 if binary else task.classes,
            "min_data_in_leaf": int(np.clip(len(task.rows) // 50, 3, 20)),
            "num_threads": torch.get_num_threads(),
            "seed": task.recipe.seed % 2**31,
        }
        pixels = Pixels.fit(task.rows)
        cells = _cells(task.rows, pixels)
        rounds = DEFAULT_ROUNDS
        if folds:
            stopping = lightgbm.early_stopping(PATIENCE, verbose=False)
            history: Any = lightgbm.cv(
                options, _data(task, cells), MAX_ROUNDS, folds, callbacks=[stopping], return_cvbooster=True
            )
            boosters, rounds = history["cvbooster"].boosters, history["cvbooster"].best_iteration
        whole = lightgbm.train(options, _data(task, cells), rounds)
        first = boosters[0] if folds else whole
        return cls(whole, pixels, task.classes, rounds), cls(first, pixels, task.classes, rounds)

    def predict(self, rows: Rows) -> np.ndarray:
        if not len(rows):
            return np.zeros((0, self.classes))
        scores = np.asarray(
            self.booster.predict(
                _cells(rows, self.pixels),
                raw_score=True,
                num_iteration=self.rounds,
                num_threads=torch.get_num_threads(),
            )
        )
        scores = np.stack([np.zeros_like(scores), scores], 1) if self.classes == 2 else scores
        return log_softmax(scores, axis=1)

    def save(self) -> Saved:
        text = self.booster.model_to_string().encode()
        tensors = {"text": torch.frombuffer(bytearray(text), dtype=torch.uint8), **self.pixels.tensors()}
        return Saved(tensors, {"classes": self.classes, "rounds": self.rounds})

    @classmethod
    def load(cls, saved: Saved, schema: Schema) -> Self:
        text = bytes(saved.tensors["text"].numpy()).decode()
        return cls(lightgbm.Booster(model_str=text), Pixels.load(saved.tensors), **saved.metadata)


def _cells(rows: Rows, pixels: Pixels) -> np.ndarray:
    cells = np.concatenate([rows.cells, pixels.columns(rows)], 1)
    return cells if cells.shape[1] else np.zeros((len(rows), 1))  # no image of training could be read


def _data(task: Task, cells: np.ndarray) -> lightgbm.Dataset:
    categorical = [index for index, size in enumerate(task.rows.schema.cardinalities) if size > 1]
    return lightgbm.Dataset(
        cells,
        task.labels,
        weight=task.weights,
        categorical_feature=categorical,
        free_raw_data=False,
        params={"verbosity": -1, "min_data_in_bin": 1, "feature_pre_filter": False},
    )
