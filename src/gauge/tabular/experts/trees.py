"""Boosted trees on numbers, categories, components of images, and scores of texts, images and categories of many levels;
a missing cell is read as missing.

LightGBM, because its models are open by public API: they are saved without pickle and read by other versions and machines. A
saved HistGradientBoosting of scikit-learn consists of private classes; it also takes four times as long.
"""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.special import log_softmax

from gauge.tabular.experts import Expert, Folds, Saved, Task
from gauge.tabular.experts._forest import Forest
from gauge.tabular.experts._forest_graph import export_forest
from gauge.tabular.experts._graph import GraphRows
from gauge.tabular.experts._leaf_tables import ForestScores
from gauge.tabular.experts._pixels import PixelComponents
from gauge.tabular.experts._scores import ColumnScores, CrossFit, every_source
from gauge.tabular.experts._terms import Terms
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Schema
from gauge.training.device import num_threads

if TYPE_CHECKING:
    import lightgbm

__all__ = ["Trees"]


class Trees(Expert):
    """The number of rounds is the one with the least loss on the rows held out, over all folds."""

    most_rounds = 400
    most_trees = 10_000  # a round has one for each class; where that leaves fewer rounds, they are larger steps
    most_screened = 300  # numbers of a wide table that are read

    def __init__(self, forest: Forest, terms: Terms, pixels: PixelComponents, scores: ColumnScores) -> None:
        self.forest, self.raw_scores = forest, ForestScores(forest)
        self.terms, self.pixels, self.scores = terms, pixels, scores

    @classmethod
    def reads(cls, schema: Schema) -> bool:
        return any(column.read_by_trees for column in schema.columns)  # scores of texts alone are no more than linear

    @classmethod
    def fit(cls, task: Task, folds: Folds) -> tuple[Expert, list[Expert]]:
        default_rounds = 50  # where no rows can be held out
        import lightgbm  # it imports scikit-learn, which takes longer than most predictions

        options, max_rounds = _options(task, default_rounds)
        terms, pixels = task.terms, task.pixels
        cross_fit = CrossFit(task, every_source(task.rows.schema, terms, pixels))
        every = np.arange(len(task.rows))

        def data(rows: np.ndarray, columns: np.ndarray, train: "lightgbm.Dataset | None" = None) -> "lightgbm.Dataset":
            return _data(task, rows, _cells(task.rows, pixels, columns), train)

        rounds, scores, columns = default_rounds, *cross_fit(every)
        whole, others = data(every, columns), list[Expert]()
        if folds:
            fitted = [cross_fit(train) for train, _ in folds]
            remaining = iter(zip(folds, fitted, strict=True))

            def own_rows(train: Any, test: Any, params: Any) -> tuple[Any, Any, Any]:
                """The rows of a fold with scores, copies and a choice of columns that know nothing of those held out."""
                (kept, held_out), (_, columns) = next(remaining)
                first = data(kept, columns)
                return first, data(held_out, columns, first), params

            # rounds without an improvement on the rows held out
            stopping = lightgbm.early_stopping(25, verbose=False)
            history: Any = lightgbm.cv(
                options,
                whole,
                max_rounds,
                folds,
                callbacks=[stopping, _in_time(task)],
                return_cvbooster=True,
                fpreproc=own_rows,
            )
            boosters, rounds = history["cvbooster"].boosters, history["cvbooster"].best_iteration
            for booster, (own, _) in zip(boosters, fitted, strict=True):
                others.append(cls(Forest.from_booster(booster, rounds), terms, pixels, own))
        # the booster that was trained, not written and read again
        known: dict[str, Any] = {"callbacks": [_in_time(task)], "keep_training_booster": True}
        booster = lightgbm.train(options, whole, rounds, **known)
        return cls(Forest.from_booster(booster), terms, pixels, scores), others

    def predict(self, rows: Rows) -> np.ndarray:
        if not len(rows):
            return np.zeros((0, self.forest.classes))
        cells = _cells(rows, self.pixels, self.scores.columns(rows))
        scores = self.raw_scores(cells)
        if self.forest.outputs == 1:
            scores = np.concatenate([np.zeros_like(scores), scores], 1)
        return np.asarray(log_softmax(scores, axis=1))

    def export(self, rows: GraphRows) -> str:
        graph, parts = rows.graph, [*rows.table, *self.pixels.export(rows), *self.scores.export(rows)]
        if not parts:  # trees without splits
            scores = graph.constant(self.forest.value.reshape(-1, self.forest.outputs).sum(0, keepdims=True))
        else:
            cells = graph.cast(graph.node("Concat", *parts, axis=1), np.float64)
            scores = graph.cast(export_forest(self.forest, graph, cells), np.float64)
        if self.forest.outputs == 1:
            scores = graph.node("MatMul", scores, graph.constant(np.array([[0.0, 1.0]])))
        return graph.node("LogSoftmax", scores, axis=1)

    def save(self) -> Saved:
        tensors = self.forest.tensors("forest.") | self.pixels.tensors() | self.terms.tensors() | self.scores.tensors()
        return Saved(tensors, {"forest": self.forest.metadata(), "vocabularies": dict(self.terms.vocabularies)})

    @classmethod
    def load(cls, saved: Saved, schema: Schema) -> Self:
        forest = Forest.load("forest.", saved.tensors, saved.metadata["forest"])
        terms, pixels = Terms.load(saved.tensors, saved.metadata["vocabularies"]), PixelComponents.load(saved.tensors)
        scores = ColumnScores.load(saved.tensors, every_source(schema, terms, pixels), forest.classes)
        columns = max(1, len(schema.with_cycles) + pixels.count + scores.count)
        if forest.features != columns or forest.objective == "regression":
            raise ValueError(
                f"{saved.source} has trees for {forest.features} columns ({forest.objective}), the table has {columns}; "
                "fit the classifier again"
            )
        return cls(forest, terms, pixels, scores)


def _cells(rows: Rows, pixels: PixelComponents, scores: np.ndarray) -> np.ndarray:
    cells = np.concatenate([rows.numbers, pixels.columns(rows), scores], 1)
    return cells if cells.shape[1] else np.zeros((len(rows), 1))  # no image of training could be read


def _in_time(task: Task) -> Any:
    """Ends training once a share of the time that is left is used up."""
    import lightgbm

    left = task.seconds_left
    # largest share of the time that is left, for one training
    end = float("inf") if left is None else task.seconds_used + 0.4 * left

    def stop(state: Any) -> None:
        if task.seconds_used > end:
            raise lightgbm.EarlyStopException(state.iteration, state.evaluation_result_list or [])

    return stop


def _options(task: Task, default_rounds: int) -> tuple[dict[str, Any], int]:
    """Return the options of LightGBM, and how many rounds it takes at most."""
    binary = task.classes == 2
    max_rounds = min(Trees.most_rounds, max(default_rounds, Trees.most_trees // task.classes))
    options: dict[str, Any] = {
        "learning_rate": 0.06,
        "num_leaves": 15,
        "feature_fraction": 0.7,
        "bagging_fraction": 0.8,
        "bagging_freq": 1,
        "lambda_l2": 1.0,
        "verbosity": -1,
        "deterministic": True,
        "force_row_wise": True,
        "objective": "binary" if binary else "multiclass",
        "num_class": 1 if binary else task.classes,
        "min_data_in_leaf": int(np.clip(len(task.rows) // 50, 3, 20)),
        "num_threads": num_threads(),
        "seed": task.recipe.seed % 2**31,
    }
    if max_rounds < Trees.most_rounds:
        # with 50 classes: with fewer bins a third of the time, half as many trees to predict with, no worse
        options["learning_rate"] = 0.2
    elif len(task.rows) > 20_000:
        # half the time, and the log loss is no worse
        options["learning_rate"], max_rounds = 0.15, 200
    return options, max_rounds


def _data(task: Task, rows: np.ndarray, cells: np.ndarray, train: "lightgbm.Dataset | None") -> "lightgbm.Dataset":
    """Some rows of a task, with copies of them if they are to be learned from, and divided into bins as those that they
    validate if not."""
    import lightgbm

    cells = cells[rows]
    if train is None:
        copied, copies = _with_gaps(cells, task.recipe.seed)
        rows, cells = np.concatenate([rows, rows[copied]]), np.concatenate([cells, copies])
    categorical = [index for index, size in enumerate(task.rows.schema.cardinalities) if size > 1]
    # 63 bins lose values that matter exactly, such as distances; 255 take longer
    few_rows, many_trees = len(task.rows) <= 10_000, Trees.most_rounds * task.classes > Trees.most_trees
    bins = 127 if few_rows or many_trees else 255
    if train is None and _is_wide(task):
        signal = _signal(task.rows.numbers[rows], task.labels[rows])
        cells[:, np.setdiff1d(np.argsort(signal)[: -Trees.most_screened], categorical)] = 0.0  # constant, so never read
    if cells.shape[1] > 100:
        bins = 31  # a fifth of the time, and no worse
    return lightgbm.Dataset(
        cells,
        task.labels[rows],
        train,
        weight=task.weights[rows],
        categorical_feature=categorical,
        free_raw_data=False,
        params={
            "verbosity": -1,
            "min_data_in_bin": 1,
            "feature_pre_filter": False,
            "max_bin": bins,
            "num_threads": num_threads(),
        },
    )


def _with_gaps(cells: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return some rows, as indices, and their cells, half of them blank in the columns that hardly ever are. Trees that have
    not seen a gap in a column read it as the mean, and are as sure of their answer as if that were the value."""
    draw = np.random.default_rng(seed)
    filled = np.isnan(cells).mean(0) < 0.1
    copied = draw.permutation(len(cells))[: min(len(cells) // 2, 5000) if filled.any() else 0]
    copies = cells[copied]
    copies[(draw.random(copies.shape) < 0.5) & filled] = np.nan
    return copied, copies


def _is_wide(task: Task) -> bool:
    """Whether there are so many numbers for the rows that trees find more chance than signal."""
    return task.rows.numbers.shape[1] > max(300, len(task.rows) / 2)


def _signal(cells: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """How much the means of each column, or the share of its missing cells, differ between classes: the larger of two F."""
    classes, statistics = np.eye(labels.max() + 1)[labels], []
    for values in (cells, np.isnan(cells).astype(float)):
        known = ~np.isnan(values)
        numbers, count = np.where(known, values, 0.0), known.sum(0)
        middle = numbers.sum(0) ** 2 / np.maximum(count, 1)
        between = (np.square(numbers.T @ classes) / np.maximum(known.T.astype(float) @ classes, 1)).sum(1) - middle
        within = np.square(numbers).sum(0) - middle - between
        statistics.append(between * count / np.maximum(within, 1e-9))
    return np.asarray(np.maximum(*statistics))
