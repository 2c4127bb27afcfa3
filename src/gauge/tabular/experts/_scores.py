"""Scores: what each text, image and category of many levels says about the classes, as columns of numbers.

score = a model of one column alone: ridge regression of the classes on the TF-IDF of a text or the components of an image,
        log((n_lc + m p_c) / (n_l + m)) - log p_c for level l of a category, with n counts, p the shares of the classes

A row that a model was learned from gets the score of one that was learned without it: scores that a model has memorised
would look far better in training than in prediction.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from gauge.tabular.experts import Task
from gauge.tabular.experts._graph import GraphRows
from gauge.tabular.experts._pixels import PixelComponents
from gauge.tabular.experts._terms import Terms
from gauge.tabular.table.columns import Cell
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Schema
from gauge.tabular.table.splits import fold_numbers


class Learned(NamedTuple):
    """A linear model of a column: scores are its features times `coefficients`, plus `offsets`."""

    coefficients: np.ndarray
    offsets: np.ndarray


class ScoreSource(ABC):
    """A column that has scores; `width` is the number of its features."""

    @property
    @abstractmethod
    def width(self) -> int: ...

    @abstractmethod
    def features(self, rows: Rows) -> tuple[Any, np.ndarray]:
        """The features of all rows, and which rows have a value."""

    @abstractmethod
    def learn(self, features: Any, labels: np.ndarray, weights: np.ndarray, classes: int) -> Learned:
        """The model for these rows, with one output if there are two classes."""

    def apply(self, features: Any, learned: Learned) -> np.ndarray:
        return np.asarray(features @ learned.coefficients + learned.offsets)

    @abstractmethod
    def export(self, rows: GraphRows, learned: Learned) -> tuple[str, str]:
        """The scores in a graph, in double precision, and which rows have a value: [rows, 1]."""


@dataclass(frozen=True)
class OfTexts(ScoreSource):
    name: str
    modality: str
    terms: Terms

    @property
    def width(self) -> int:
        return len(self.terms.idf[self.name])

    def features(self, rows: Rows) -> tuple[Any, np.ndarray]:
        return self.terms.vectors(rows, self.name), rows.encoded.observed[self.modality]

    def learn(self, features: Any, labels: np.ndarray, weights: np.ndarray, classes: int) -> Learned:
        return _ridge(features, labels, weights, classes, 0.3, "sparse_cg")  # alpha of scikit-learn

    def export(self, rows: GraphRows, learned: Learned) -> tuple[str, str]:
        graph = rows.graph
        scores = self.terms.export(rows, self.name, learned.coefficients)
        return graph.node("Add", scores, graph.constant(learned.offsets)), _observed(rows, self.modality)


@dataclass(frozen=True)
class OfImages(ScoreSource):
    modality: str
    pixels: PixelComponents

    @property
    def width(self) -> int:
        return len(self.pixels.directions[self.modality])

    def features(self, rows: Rows) -> tuple[Any, np.ndarray]:
        components = self.pixels.columns(rows)[:, self.pixels.position(self.modality)]
        observed = rows.encoded.observed[self.modality]
        return np.where(observed[:, None], components, 0.0).astype(np.float64), observed

    def learn(self, features: Any, labels: np.ndarray, weights: np.ndarray, classes: int) -> Learned:
        return _ridge(features, labels, weights, classes, 10.0, "cholesky")  # alpha of scikit-learn

    def export(self, rows: GraphRows, learned: Learned) -> tuple[str, str]:
        graph = rows.graph
        components = graph.cast(self.pixels.export_components(rows, self.modality), np.float64)
        scores = graph.node("MatMul", components, graph.constant(learned.coefficients))
        return graph.node("Add", scores, graph.constant(learned.offsets)), _observed(rows, self.modality)


@dataclass(frozen=True)
class OfLevels(ScoreSource):
    column: Cell
    position: int

    @property
    def width(self) -> int:
        return self.column.level_count

    def features(self, rows: Rows) -> tuple[Any, np.ndarray]:
        levels = rows.levels(self.column, rows.cells[:, self.position])
        return levels, levels >= 0

    def learn(self, features: Any, labels: np.ndarray, weights: np.ndarray, classes: int) -> Learned:
        smoothing = 10.0  # rows of the mean of all levels that count beside those of a level
        counts = np.bincount(features * classes + labels, weights, self.width * classes).reshape(-1, classes)
        shares = counts.sum(0).clip(1e-6)  # smallest share of a class
        shares /= shares.sum()
        rates = (counts + smoothing * shares) / (counts.sum(1, keepdims=True) + smoothing)
        scores = np.log(rates / shares)
        if classes == 2:  # one output, the difference
            scores = np.diff(scores)
        return Learned(scores, np.zeros(scores.shape[1]))

    def apply(self, features: Any, learned: Learned) -> np.ndarray:
        return learned.coefficients[features]

    def export(self, rows: GraphRows, learned: Learned) -> tuple[str, str]:
        levels, observed = rows.levels(self.position)
        return rows.graph.gather(rows.graph.constant(learned.coefficients), levels, 0), observed


def rare_sources(schema: Schema) -> dict[str, ScoreSource]:
    """The categories of which some are rare and told apart, by column: what indicators of categories do not say."""
    columns = enumerate(schema.table)
    return {column.name: OfLevels(column, position) for position, column in columns if column.tells_rare_apart}


def every_source(schema: Schema, terms: Terms, pixels: PixelComponents) -> dict[str, ScoreSource]:
    """All texts, images and other contents, and the categories of many levels, by column."""
    # trees learn fewer levels as they are
    sources: dict[str, ScoreSource] = {
        column.name: OfLevels(column, position)
        for position, column in enumerate(schema.table)
        if column.categorical and column.level_count >= 20
    }
    for modality, column in schema.contents.items():
        if column.name in terms.idf:
            sources[column.name] = OfTexts(column.name, modality, terms)
        elif modality in pixels.directions:
            sources[column.name] = OfImages(modality, pixels)
    return sources


class ColumnScores:
    """The models of all sources, which were learned from the same rows."""

    def __init__(self, sources: Mapping[str, ScoreSource], learned: Mapping[str, Learned]) -> None:
        self.sources, self.learned = sources, learned
        self.count = sum(len(each.offsets) for each in learned.values())

    def columns(self, rows: Rows) -> np.ndarray:
        """The scores of rows that were not learned from, NaN where a value is missing: [rows, scores]. They are computed in
        double precision and then rounded, so that another program decides alike where trees compare them."""
        return self.apply({name: source.features(rows) for name, source in self.sources.items()}, np.arange(len(rows)))

    def apply(self, read: Mapping[str, tuple[Any, np.ndarray]], index: np.ndarray) -> np.ndarray:
        """The columns of some of the rows that were read: `read` has the features of every source, and which rows have a
        value."""
        parts = [np.zeros((len(index), 0), np.float32)]
        for name, (features, observed) in read.items():
            known = observed[index]
            parts.append(np.full((len(index), len(self.learned[name].offsets)), np.nan, np.float32))
            parts[-1][known] = self.sources[name].apply(features[index[known]], self.learned[name])
        return np.concatenate(parts, 1)

    def export(self, rows: GraphRows) -> list[str]:
        """The `columns` in a graph, some at a time."""
        graph, missing = rows.graph, rows.graph.constant(np.float32(np.nan))
        parts = []
        for name, source in self.sources.items():
            scores, observed = source.export(rows, self.learned[name])
            parts.append(graph.node("Where", observed, graph.cast(scores, np.float32), missing))
        return parts

    def tensors(self) -> dict[str, np.ndarray]:
        return {
            f"scores.{part}.{name}": getattr(learned, part)
            for name, learned in self.learned.items()
            for part in Learned._fields
        }

    @classmethod
    def load(cls, tensors: Mapping[str, np.ndarray], sources: Mapping[str, ScoreSource], classes: int) -> Self:
        """From those among the tensors of an expert that `tensors` wrote; those of other columns are an error."""
        learned, outputs = {}, 1 if classes == 2 else classes
        for name, source in sources.items():
            parts = [tensors.get(f"scores.{part}.{name}", np.zeros(0)) for part in Learned._fields]
            learned[name] = Learned(*parts)
            if [each.shape for each in parts] != [(source.width, outputs), (outputs,)]:
                raise ValueError(
                    f"the scores of column {name!r:.50} are not those of its values; fit the classifier again"
                )
        return cls(sources, learned)


class CrossFit:
    """Scores of the rows of a task, by models that have not seen them."""

    def __init__(self, task: Task, sources: Mapping[str, ScoreSource]) -> None:
        self.task, self.sources = task, sources
        self.read = {name: source.features(task.rows) for name, source in sources.items()}

    def __call__(self, train: np.ndarray) -> tuple[ColumnScores, np.ndarray]:
        """The scores learned from some of the rows, and their columns for all rows of the task: those of the others are by
        these, and each of `train` by scores learned from the rest of them in other folds."""
        whole, count = self._learn(train), len(self.task.rows)
        columns = np.full((count, whole.count), np.nan, np.float32)
        if self.sources:
            others, groups = np.setdiff1d(np.arange(count), train), self.task.splits.take(train).groups
            fold = fold_numbers(self.task.labels[train], 4, self.task.recipe.seed, groups)  # folds
            columns[others] = whole.apply(self.read, others)
            for number in np.unique(fold):
                held_out = train[fold == number]
                columns[held_out] = self._learn(train[fold != number]).apply(self.read, held_out)
        return whole, columns

    def _learn(self, train: np.ndarray) -> ColumnScores:
        task, learned = self.task, {}
        for name, (features, observed) in self.read.items():
            known = train[observed[train]]
            learned[name] = self.sources[name].learn(
                features[known], task.labels[known], task.weights[known], task.classes
            )
        return ColumnScores(self.sources, learned)


def _ridge(
    features: Any, labels: np.ndarray, weights: np.ndarray, classes: int, penalty: float, solver: str
) -> Learned:
    """Ten times as fast as logistic regression; trees read the order of scores alone."""
    from sklearn.linear_model import Ridge  # scikit-learn takes longer to import than to predict

    outputs = 1 if classes == 2 else classes
    if not len(labels):
        return Learned(np.zeros((features.shape[1], outputs)), np.zeros(outputs))
    targets = np.eye(classes)[labels][:, -outputs:]
    model = Ridge(penalty, solver=solver, tol=1e-2).fit(features, targets, weights)
    return Learned(model.coef_.reshape(outputs, -1).T, np.broadcast_to(model.intercept_, outputs).copy())


def _observed(rows: GraphRows, modality: str) -> str:
    return rows.graph.node("Unsqueeze", rows.observed(modality), rows.graph.constant(np.array([1])))
