"""Logistic regression on numbers, components of images, squares, indicators of categories and missing cells, and TF-IDF."""

import warnings
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
import torch
from scipy.special import log_softmax

from gauge.data.graph import Graph
from gauge.tabular.experts import Expert, Folds, Saved, Task
from gauge.tabular.experts._graph import GraphRows
from gauge.tabular.experts._pixels import Pixels
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Schema

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer

__all__ = ["Linear"]

MAX_TERMS = 20_000  # words and pairs of words per column
PENALTIES = (0.03, 0.3, 3.0)  # C of scikit-learn: larger is weaker
FOR_TEXTS = (*PENALTIES, 30.0)
DEFAULT_PENALTY = 0.3  # where no rows can be held out
MAX_ITERATIONS = 100
SEARCH_TOLERANCE = 1e-3  # while penalties are compared; 1e-4 takes 1.5 s instead of 0.9 s for 1,000 rows with texts
TOLERANCE = 1e-4  # of the model that answers, as scikit-learn has it; with 1e-2 the log loss can be worse by 0.02
UNSEEN = 5.0  # how far a class without training rows lies below the others
TEXT_SCALE = 3.0  # a text's vector has norm 1 and many terms; other features have deviation 1 each


class Linear(Expert):
    """The penalty is the one with the least loss on the rows held out, over all folds. Texts are read whole."""

    def __init__(
        self,
        terms: dict[str, "TfidfVectorizer"],
        pixels: Pixels,
        cardinalities: tuple[int, ...],
        coefficients: np.ndarray,
        offsets: np.ndarray,
    ) -> None:
        self.terms, self.pixels = terms, pixels
        self.cardinalities = np.array([*cardinalities, *[1] * pixels.count], int)
        self.coefficients, self.offsets = coefficients, offsets

    @classmethod
    def reads(cls, schema: Schema) -> bool:
        return True

    @classmethod
    def fit(cls, task: Task, folds: Folds) -> tuple[Expert, list[Expert]]:
        from sklearn.linear_model import LogisticRegression  # scikit-learn takes longer to import than to predict

        terms = {name: _terms(texts) for name, texts in task.all_rows.texts.items() if _has_words(texts)}
        known = terms, Pixels.fit(task.all_rows), task.rows.schema.cardinalities
        features = cls(*known, np.empty(0), np.empty(0)).features(task.rows)

        def learn(rows: np.ndarray, penalty: float, tolerance: float = TOLERANCE) -> Any:
            model = LogisticRegression(C=penalty, tol=tolerance, max_iter=MAX_ITERATIONS)
            learned = _coefficients(model, features[rows], task.labels[rows], task.weights[rows], task.classes)
            return cls(*known, *learned)

        def loss(fitted: list[Any]) -> float:
            held_out = [
                log_softmax(each.scores(features[rows]), axis=1)[np.arange(len(rows)), task.labels[rows]]
                for each, (_, rows) in zip(fitted, folds, strict=True)
            ]
            return -float(np.concatenate(held_out).mean())

        penalties = (FOR_TEXTS if terms else PENALTIES) if folds else ()
        tried: dict[float, list[Any]] = {
            penalty: [learn(train, penalty, SEARCH_TOLERANCE) for train, _ in folds] for penalty in penalties
        }
        penalty = min(tried, key=lambda each: loss(tried[each]), default=DEFAULT_PENALTY)
        whole = learn(np.arange(len(task.rows)), penalty)
        return whole, tried.get(penalty, [])

    def scores(self, features: Any) -> np.ndarray:
        return np.asarray(features @ self.coefficients.T + self.offsets)

    def predict(self, rows: Rows) -> np.ndarray:
        if not len(rows):
            return np.zeros((0, len(self.offsets)))
        return log_softmax(self.scores(self.features(rows)), axis=1)

    def features(self, rows: Rows) -> Any:
        """A matrix, sparse where there are texts."""
        cells = np.concatenate([rows.cells, self.pixels.columns(rows)], 1)
        numeric = self.cardinalities == 1
        missing = np.isnan(cells)
        numbers = np.where(missing, 0.0, cells)[:, numeric]
        squares = np.where(missing[:, numeric], 0.0, (numbers**2 - 1) / 2)
        hot = [cells[:, [index]] == np.arange(self.cardinalities[index]) for index in np.flatnonzero(~numeric)]
        table = np.concatenate([numbers, squares, missing, *hot], 1, dtype=np.float64)
        if not self.terms:
            return table
        from scipy import sparse

        words = [TEXT_SCALE * _vectors(each, rows.texts[name]) for name, each in self.terms.items()]
        return sparse.hstack([sparse.csr_matrix(table), *words], format="csr")

    def export(self, rows: GraphRows) -> str:
        graph = rows.graph
        scores = graph.constant(self.offsets[None])
        coefficients = self.coefficients.T
        cells = self.pixels.export(rows)
        if cells is not None:
            table = self._export_features(graph, cells)
            count = 2 * (self.cardinalities == 1).sum() + len(self.cardinalities) + self._hot.sum()
            weights, coefficients = coefficients[:count], coefficients[count:]
            scores = graph.node("Add", scores, graph.node("MatMul", table, graph.constant(weights)))
        for name, vectorizer in self.terms.items():
            weights, coefficients = np.split(coefficients, [len(vectorizer.idf_)])
            words = _export_words(rows, name, vectorizer, TEXT_SCALE * weights)
            scores = graph.node("Add", scores, words)
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
        tensors |= {f"idf.{name}": torch.from_numpy(each.idf_) for name, each in self.terms.items()}
        tensors |= self.pixels.tensors()
        vocabularies = {name: each.get_feature_names_out().tolist() for name, each in self.terms.items()}
        return Saved(tensors, {"vocabularies": vocabularies})

    @classmethod
    def load(cls, saved: Saved, schema: Schema) -> Self:
        terms = {}
        for name, vocabulary in saved.metadata["vocabularies"].items():
            terms[name] = _vectorizer(vocabulary)
            terms[name].idf_ = saved.tensors[f"idf.{name}"].numpy()
        coefficients, offsets = (saved.tensors[name].numpy() for name in ("coefficients", "offsets"))
        return cls(terms, Pixels.load(saved.tensors), schema.cardinalities, coefficients, offsets)


def _vectors(vectorizer: "TfidfVectorizer", texts: np.ndarray) -> Any:
    """TF-IDF; equal texts, as in copies of a row with other cells, are read once."""
    codes, different = pd.factorize(texts)
    return vectorizer.transform(different)[codes]


def _export_words(rows: GraphRows, name: str, vectorizer: "TfidfVectorizer", weights: np.ndarray) -> str:
    """The part of the scores that the texts of a column have: TF-IDF of the terms that a reader has counted."""
    graph = rows.graph
    last, after_last = (graph.constant(np.array([axis])) for axis in (1, 2))
    terms, counts = rows.terms(name, vectorizer.get_feature_names_out().tolist())
    one = graph.constant(1.0)
    frequencies = graph.node("Add", graph.node("Log", graph.node("Max", graph.cast(counts, np.float64), one)), one)
    available = graph.cast(graph.cast(counts, bool), np.float64)
    idf = graph.gather(graph.constant(vectorizer.idf_), terms, 0)
    vectors = graph.node("Mul", graph.node("Mul", frequencies, available), idf)
    norm = graph.node("ReduceL2", vectors, last)
    vectors = graph.node("Div", vectors, graph.node("Max", norm, graph.constant(np.finfo(float).tiny)))
    products = graph.node(
        "Mul", graph.node("Unsqueeze", vectors, after_last), graph.gather(graph.constant(weights), terms, 0)
    )
    return graph.node("ReduceSum", products, last, keepdims=0)


def _vectorizer(vocabulary: list[str] | None = None) -> "TfidfVectorizer":
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(
        sublinear_tf=True,
        ngram_range=(1, 2),
        max_features=MAX_TERMS,
        token_pattern=r"(?u)\b\w+\b",
        vocabulary=vocabulary,
    )


def _terms(texts: np.ndarray) -> "TfidfVectorizer":
    """Words and pairs of words that occur in two texts or, where there are none, in one."""
    try:
        return _vectorizer().set_params(min_df=2).fit(texts)
    except ValueError:
        return _vectorizer().fit(texts)


def _has_words(texts: np.ndarray) -> bool:
    return any(letter.isalnum() for text in texts for letter in text)


def _coefficients(
    model: Any, features: Any, labels: np.ndarray, weights: np.ndarray, classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Those of a model that is fitted here, and its offsets, for all classes, also those without a row."""
    from sklearn.exceptions import ConvergenceWarning

    seen = np.unique(labels)
    coefficients, offsets = np.zeros((classes, features.shape[1])), np.full(classes, -UNSEEN)
    offsets[seen] = 0.0
    if len(seen) > 1:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the loss hardly changes by then
            warnings.filterwarnings("ignore", "The number of unique classes")  # `fit` has reported it, with a cure
            model.fit(features, labels, weights)
        two = len(seen) == 2
        coefficients[seen] = np.concatenate([-model.coef_, model.coef_]) / 2 if two else model.coef_
        offsets[seen] = np.concatenate([-model.intercept_, model.intercept_]) / 2 if two else model.intercept_
        offsets[np.setdiff1d(np.arange(classes), seen)] += offsets[seen].min()
    return coefficients, offsets
