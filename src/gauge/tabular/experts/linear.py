"""Logistic regression on numbers, components of images, scores of rare categories, squares, indicators of
categories and missing cells, and TF-IDF."""

from typing import Any, Self

import numpy as np
import torch
from scipy.special import log_softmax

from gauge.data.graph import Graph
from gauge.tabular.experts import Expert, Folds, Saved, Task
from gauge.tabular.experts._graph import GraphRows
from gauge.tabular.experts._logistic import fit_logistic
from gauge.tabular.experts._pixels import Pixels
from gauge.tabular.experts._scores import CrossFit, Scores, rare_sources
from gauge.tabular.experts._terms import Terms
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Schema

__all__ = ["Linear"]

PENALTIES = (0.03, 0.3, 3.0)  # C of scikit-learn: larger is weaker
FOR_TEXTS = (*PENALTIES, 30.0)
DEFAULT_PENALTY = 0.3  # where no rows can be held out
SEARCH_TOLERANCE = 1e-3  # while penalties are compared; 1e-4 takes 1.5 s instead of 0.9 s for 1,000 rows with texts
TOLERANCE = 1e-4  # of the model that answers, as scikit-learn has it; with 1e-2 the log loss can be worse by 0.02
TEXT_SCALE = 3.0  # a text's vector has norm 1 and many terms; other features have deviation 1 each


class Linear(Expert):
    """The penalty is the one with the least loss on the rows held out, over all folds. Texts are read whole."""

    def __init__(
        self,
        terms: Terms,
        pixels: Pixels,
        levels: Scores,
        cardinalities: tuple[int, ...],
        coefficients: np.ndarray,
        offsets: np.ndarray,
    ) -> None:
        self.terms, self.pixels, self.levels = terms, pixels, levels
        self.cardinalities = np.array([*cardinalities, *[1] * (pixels.count + levels.count)], int)
        self.coefficients, self.offsets = coefficients, offsets

    @classmethod
    def reads(cls, schema: Schema) -> bool:
        return True

    @classmethod
    def fit(cls, task: Task, folds: Folds) -> tuple[Expert, list[Expert]]:
        cross_fit = CrossFit(task, rare_sources(task.rows.schema))
        every = np.arange(len(task.rows))
        features: Any = None
        read: list[tuple[np.ndarray, Any, Any]] = []
        for train in [every, *(train for train, _ in folds)]:
            levels, columns = cross_fit(train)
            known = task.terms, task.pixels, levels, task.rows.schema.cardinalities
            if features is None or levels.count:  # otherwise they are the same
                features = cls(*known, np.empty(0), np.empty(0))._features(task.rows, columns)
            read.append((train, known, features))

        def learn(part: tuple[np.ndarray, Any, Any], penalty: float, tolerance: float = TOLERANCE) -> Any:
            train, known, features = part
            rows = features[train], task.labels[train], task.weights[train]
            learned: Any = fit_logistic(*rows, classes=task.classes, penalty=penalty, tolerance=tolerance)
            return cls(*known, *learned)

        def loss(fitted: list[Any]) -> float:
            held_out = [
                log_softmax(each.scores(features[rows]), axis=1)[np.arange(len(rows)), task.labels[rows]]
                for each, (_, _, features), (_, rows) in zip(fitted, read[1:], folds, strict=True)
            ]
            return -float(np.concatenate(held_out).mean())

        penalties = (FOR_TEXTS if task.terms else PENALTIES) if folds else ()
        tried = task.try_each(
            sorted(penalties, key=lambda each: each != DEFAULT_PENALTY),
            lambda penalty: [learn(part, penalty, SEARCH_TOLERANCE) for part in read[1:]],
        )
        penalty = min(tried, key=lambda each: loss(tried[each]), default=DEFAULT_PENALTY)
        return learn(read[0], penalty), tried.get(penalty, [])

    def scores(self, features: Any) -> np.ndarray:
        return np.asarray(features @ self.coefficients.T + self.offsets)

    def predict(self, rows: Rows) -> np.ndarray:
        if not len(rows):
            return np.zeros((0, len(self.offsets)))
        return log_softmax(self.scores(self.features(rows)), axis=1)

    def features(self, rows: Rows) -> Any:
        """A matrix, sparse where there are texts."""
        return self._features(rows, self.levels.columns(rows))

    def _features(self, rows: Rows, levels: np.ndarray) -> Any:
        cells = np.concatenate([rows.cells, self.pixels.columns(rows), levels], 1)
        numeric = self.cardinalities == 1
        missing = np.isnan(cells)
        numbers = np.where(missing, 0.0, cells)[:, numeric]
        squares = np.where(missing[:, numeric], 0.0, (numbers**2 - 1) / 2)
        hot = [cells[:, [index]] == np.arange(self.cardinalities[index]) for index in np.flatnonzero(~numeric)]
        table = np.concatenate([numbers, squares, missing, *hot], 1, dtype=np.float64)
        if not self.terms:
            return table
        from scipy import sparse

        words = [TEXT_SCALE * self.terms.vectors(rows, name) for name in self.terms]
        return sparse.hstack([sparse.csr_matrix(table), *words], format="csr")

    def export(self, rows: GraphRows) -> str:
        graph = rows.graph
        scores = graph.constant(self.offsets[None])
        coefficients = self.coefficients.T
        cells = [*rows.table, *self.pixels.export(rows), *self.levels.export(rows)]
        if cells:
            table = self._export_features(graph, graph.node("Concat", *cells, axis=1))
            count = 2 * (self.cardinalities == 1).sum() + len(self.cardinalities) + self._hot.sum()
            weights, coefficients = coefficients[:count], coefficients[count:]
            scores = graph.node("Add", scores, graph.node("MatMul", table, graph.constant(weights)))
        for name in self.terms:
            weights, coefficients = np.split(coefficients, [self.terms.count(name)])
            scores = graph.node("Add", scores, self.terms.export(rows, name, TEXT_SCALE * weights))
        return graph.node("LogSoftmax", scores, axis=1)

    @property
    def _hot(self) -> np.ndarray:
        """How many indicators each column has."""
        return np.where(self.cardinalities == 1, 0, self.cardinalities)

    def _export_features(self, graph: Graph, cells: str) -> str:
        """The `features` in a graph, without words."""
        numeric = np.flatnonzero(self.cardinalities == 1)
        missing, zero = graph.node("IsNaN", cells), graph.constant(np.float32(0))
        numbers = graph.gather(graph.node("Where", missing, zero, cells), numeric, 1)
        one, two = (graph.constant(np.float32(value)) for value in (1, 2))
        squares = graph.node("Div", graph.node("Sub", graph.node("Mul", numbers, numbers), one), two)
        squares = graph.node("Where", graph.gather(missing, numeric, 1), zero, squares)
        repeated = graph.gather(cells, np.repeat(np.arange(len(self.cardinalities)), self._hot), 1)
        codes = np.concatenate([np.zeros(0), *map(np.arange, self._hot)]).astype(np.float32)
        hot = graph.node("Equal", repeated, graph.constant(codes))
        parts = [graph.cast(part, np.float64) for part in (numbers, squares, missing, hot)]
        return graph.node("Concat", *parts, axis=1)

    def save(self) -> Saved:
        tensors = {"coefficients": torch.from_numpy(self.coefficients), "offsets": torch.from_numpy(self.offsets)}
        tensors |= self.terms.tensors() | self.pixels.tensors() | self.levels.tensors()
        return Saved(tensors, {"vocabularies": self.terms.vocabularies()})

    @classmethod
    def load(cls, saved: Saved, schema: Schema) -> Self:
        terms, pixels = Terms.load(saved.tensors, saved.metadata["vocabularies"]), Pixels.load(saved.tensors)
        coefficients, offsets = (saved.tensors[name].numpy() for name in ("coefficients", "offsets"))
        levels = Scores.load(saved.tensors, rare_sources(schema), len(offsets))
        return cls(terms, pixels, levels, schema.cardinalities, coefficients, offsets)
