"""Logistic regression on numbers, components of images, scores of rare categories, squares, indicators of
categories and missing cells, and TF-IDF."""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import log_softmax

from gauge.data.graph import Graph
from gauge.tabular.experts import Expert, Folds, Saved, Task
from gauge.tabular.experts._graph import GraphRows
from gauge.tabular.experts._logistic import fit_lasso, fit_logistic
from gauge.tabular.experts._pixels import PixelComponents
from gauge.tabular.experts._scores import ColumnScores, CrossFit, rare_sources
from gauge.tabular.experts._terms import Terms
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Schema

__all__ = ["Linear"]


class Setting(NamedTuple):
    """How coefficients are learned: with C of scikit-learn as the `penalty`, larger is weaker, and with squares and texts
    multiplied by a number. What is large beside other features has a weaker penalty than they have."""

    penalty: float
    fit: Callable[..., tuple[np.ndarray, np.ndarray]] = fit_logistic
    squares: float = 1.0
    texts: float = 1.0


LinearPart = tuple[np.ndarray, tuple[Terms, PixelComponents, ColumnScores, tuple[int, ...]], Any]
"""Rows, what an expert of them knows beside its coefficients, and the features of all rows as it reads them."""


class Linear(Expert):
    """The setting is the one with the least loss on the rows held out, over all folds. Texts are read whole."""

    text_scale = 3.0  # a text's vector has norm 1 and many terms; other features have deviation 1 each

    def __init__(
        self,
        terms: Terms,
        pixels: PixelComponents,
        levels: ColumnScores,
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
        default = Setting(0.3)  # where no rows can be held out
        cross_fit = CrossFit(task, rare_sources(task.rows.schema))
        every = np.arange(len(task.rows))
        features: Any = None
        read: list[LinearPart] = []
        for train in [every, *(train for train, _ in folds)]:
            levels, columns = cross_fit(train)
            known = task.terms, task.pixels, levels, task.rows.schema.with_cycles
            blank = cls(*known, np.empty(0), np.empty(0))
            if features is None or levels.count:  # otherwise they are the same
                features = blank._features(task.rows, columns)
            read.append((train, known, features))

        # tolerance of the final model, as scikit-learn has it; with 1e-2 the log loss can be worse by 0.02
        def learn(part: LinearPart, setting: Setting, tolerance: float = 1e-4) -> Linear:
            train, known, features = part
            scale, rows = blank._scale(setting), features[train]
            if (scale != 1).any():
                rows = rows * scale if isinstance(rows, np.ndarray) else rows.multiply(scale).tocsr()
            options = {"classes": task.classes, "penalty": setting.penalty, "tolerance": tolerance}
            coefficients, offsets = setting.fit(rows, task.labels[train], task.weights[train], **options)
            return cls(*known, coefficients * scale, offsets)

        def loss(fitted: list[Any]) -> float:
            held_out = [
                log_softmax(each.scores(features[rows]), axis=1)[np.arange(len(rows)), task.labels[rows]]
                for each, (_, _, features), (_, rows) in zip(fitted, read[1:], folds, strict=True)
            ]
            return -float(np.concatenate(held_out).mean())

        settings = sorted(_settings(task, features), key=lambda each: each != default) if folds else []
        # a larger tolerance while penalties are compared; 1e-4 takes 1.5 s instead of 0.9 s for 1,000 rows with texts
        tried = task.try_each(settings, lambda setting: [learn(part, setting, 1e-3) for part in read[1:]])
        setting = min(tried, key=lambda each: loss(tried[each]), default=default)
        return learn(read[0], setting), [*tried.get(setting, [])]

    def _scale(self, setting: Setting) -> np.ndarray:
        """What each of the `features` is multiplied by while coefficients are learned."""
        numbers = int((self.cardinalities == 1).sum())
        words = sum(map(len, self.terms.idf.values()))
        others = len(self.cardinalities) + int(self._hot.sum())
        return np.repeat([1.0, setting.squares, 1.0, setting.texts], [numbers, numbers, others, words])

    def scores(self, features: Any) -> np.ndarray:
        return np.asarray(features @ self.coefficients.T + self.offsets)

    def predict(self, rows: Rows) -> np.ndarray:
        if not len(rows):
            return np.zeros((0, len(self.offsets)))
        return np.asarray(log_softmax(self.scores(self.features(rows)), axis=1))

    def features(self, rows: Rows) -> Any:
        """A matrix, sparse where there are texts."""
        return self._features(rows, self.levels.columns(rows))

    def _features(self, rows: Rows, levels: np.ndarray) -> Any:
        cells = np.concatenate([rows.numbers, self.pixels.columns(rows), levels], 1)
        numeric = self.cardinalities == 1
        missing = np.isnan(cells)
        numbers = np.where(missing, 0.0, cells)[:, numeric]
        squares = np.where(missing[:, numeric], 0.0, (numbers**2 - 1) / 2)
        hot = [cells[:, [index]] == np.arange(self.cardinalities[index]) for index in np.flatnonzero(~numeric)]
        table = np.concatenate([numbers, squares, missing, *hot], 1, dtype=np.float64)
        if not self.terms.idf:
            return table
        from scipy import sparse

        words = [self.text_scale * self.terms.vectors(rows, name) for name in self.terms.idf]
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
        for name, idf in self.terms.idf.items():
            weights, coefficients = np.split(coefficients, [len(idf)])
            scores = graph.node("Add", scores, self.terms.export(rows, name, self.text_scale * weights))
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
        tensors = {"coefficients": self.coefficients, "offsets": self.offsets}
        tensors |= self.terms.tensors() | self.pixels.tensors() | self.levels.tensors()
        return Saved(tensors, {"vocabularies": dict(self.terms.vocabularies)})

    @classmethod
    def load(cls, saved: Saved, schema: Schema) -> Self:
        terms, pixels = Terms.load(saved.tensors, saved.metadata["vocabularies"]), PixelComponents.load(saved.tensors)
        coefficients, offsets = (saved.tensors[name] for name in ("coefficients", "offsets"))
        levels = ColumnScores.load(saved.tensors, rare_sources(schema), len(offsets))
        return cls(terms, pixels, levels, schema.with_cycles, coefficients, offsets)


def _settings(task: Task, features: Any) -> list[Setting]:
    ridge = [Setting(penalty) for penalty in (0.03, 0.3, 3.0)]
    if task.terms.idf:
        texts_beside = [Setting(0.03, texts=3.0), Setting(0.3, texts=3.0), Setting(0.03, texts=10.0)]
        return [*ridge, Setting(30.0), *(texts_beside if task.rows.schema.table else [])]
    if np.count_nonzero(features.any(0)) > 0.5 * len(features):  # a wide table
        return [*ridge, Setting(0.003), Setting(0.15, fit_lasso), Setting(0.5, fit_lasso)]
    return [*ridge, *(Setting(penalty, squares=0.25) for penalty in (0.3, 3.0))]
