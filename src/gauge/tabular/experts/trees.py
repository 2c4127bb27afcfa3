"""Boosted trees on numbers, categories and components of images; a missing cell is read as missing.

LightGBM, because its models are open by public API: they are saved without pickle and read by other versions and machines. A
saved HistGradientBoosting of scikit-learn consists of private classes; it also takes four times as long.
"""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from scipy.special import log_softmax

from gauge.tabular.experts import Expert, Folds, Saved, Task
from gauge.tabular.experts._forest import Forest
from gauge.tabular.experts._forest_graph import export_forest
from gauge.tabular.experts._graph import GraphRows
from gauge.tabular.experts._leaf_tables import ForestScores
from gauge.tabular.experts._pixels import Pixels
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Schema

if TYPE_CHECKING:
    import lightgbm

__all__ = ["Trees"]

MAX_ROUNDS = 400
PATIENCE = 25  # rounds without an improvement on the rows held out
MAX_TIME_SHARE = 0.4  # of the time that is left, for one training
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

    seeded = True

    def __init__(self, forest: Forest, pixels: Pixels) -> None:
        self.forest, self.scores, self.pixels = forest, ForestScores(forest), pixels

    @classmethod
    def reads(cls, schema: Schema) -> bool:
        return any(column.read_by_trees for column in schema.columns)

    @classmethod
    def fit(cls, task: Task, folds: Folds) -> tuple[Expert, list[Expert]]:
        import lightgbm  # it imports scikit-learn, which takes longer than most predictions

        binary = task.classes == 2
        options = OPTIONS | {
            "objective": "binary" if binary else "multiclass",
            "num_class": 1 if binary else task.classes,
            "min_data_in_leaf": int(np.clip(len(task.rows) // 50, 3, 20)),
            "num_threads": torch.get_num_threads(),
            "seed": task.recipe.seed % 2**31,
        }
        pixels = Pixels.fit(task.all_rows)
        cells = _cells(task.rows, pixels)
        rounds, boosters = DEFAULT_ROUNDS, []
        if folds:
            stopping = lightgbm.early_stopping(PATIENCE, verbose=False)
            history: Any = lightgbm.cv(
                *(options, _data(task, cells), MAX_ROUNDS, folds),
                callbacks=[stopping, _in_time(task)],
                return_cvbooster=True,
            )
            boosters, rounds = history["cvbooster"].boosters, history["cvbooster"].best_iteration
        whole = lightgbm.train(options, _data(task, cells), rounds, callbacks=[_in_time(task)])
        return cls(Forest.from_booster(whole), pixels), [
            cls(Forest.from_booster(each, rounds), pixels) for each in boosters
        ]

    def predict(self, rows: Rows) -> np.ndarray:
        if not len(rows):
            return np.zeros((0, self.forest.classes))
        scores = self.scores(_cells(rows, self.pixels), threads=torch.get_num_threads())
        return log_softmax(np.pad(scores, ((0, 0), (1, 0))) if self.forest.outputs == 1 else scores, axis=1)

    def export(self, rows: GraphRows) -> str:
        graph, cells = rows.graph, self.pixels.export(rows)
        if cells is None:  # trees without splits
            scores = graph.constant(self.forest.value.reshape(-1, self.forest.outputs).sum(0, keepdims=True))
        else:
            scores = graph.cast(export_forest(self.forest, graph, graph.cast(cells, np.float64)), np.float64)
        if self.forest.outputs == 1:
            scores = graph.node("MatMul", scores, graph.constant(np.array([[0.0, 1.0]])))
        return graph.node("LogSoftmax", scores, axis=1)

    def save(self) -> Saved:
        return Saved(self.forest.tensors("forest.") | self.pixels.tensors(), self.forest.metadata())

    @classmethod
    def load(cls, saved: Saved, schema: Schema) -> Self:
        forest = Forest.load("forest.", saved.tensors, saved.metadata)
        pixels = Pixels.load(saved.tensors)
        columns = max(1, len(schema.table) + pixels.count)
        if forest.features != columns or forest.objective == "regression":
            raise ValueError(
                f"{saved.source} has trees for {forest.features} columns ({forest.objective}), the table has {columns}; "
                "fit the classifier again"
            )
        return cls(forest, pixels)


def _cells(rows: Rows, pixels: Pixels) -> np.ndarray:
    cells = np.concatenate([rows.cells, pixels.columns(rows)], 1)
    return cells if cells.shape[1] else np.zeros((len(rows), 1))  # no image of training could be read


def _in_time(task: Task) -> Any:
    """Ends training once a share of the time that is left is used up."""
    import lightgbm

    left = task.seconds_left
    end = float("inf") if left is None else task.seconds_used + MAX_TIME_SHARE * left

    def stop(state: Any) -> None:
        if task.seconds_used > end:
            raise lightgbm.EarlyStopException(state.iteration, state.evaluation_result_list or [])

    return stop


def _data(task: Task, cells: np.ndarray) -> "lightgbm.Dataset":
    import lightgbm

    categorical = [index for index, size in enumerate(task.rows.schema.cardinalities) if size > 1]
    return lightgbm.Dataset(
        cells,
        task.labels,
        weight=task.weights,
        categorical_feature=categorical,
        free_raw_data=False,
        params={"verbosity": -1, "min_data_in_bin": 1, "feature_pre_filter": False},
    )
