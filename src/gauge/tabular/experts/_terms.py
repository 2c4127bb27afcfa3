"""Terms: TF-IDF of the words and pairs of words in texts, for trees and the linear expert."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from gauge.tabular.experts._graph import GraphRows
from gauge.tabular.table.rows import Rows

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer


class Terms:
    """The vocabulary and the inverse document frequencies of every column of texts that has words."""

    def __init__(self, vectorizers: Mapping[str, "TfidfVectorizer"]) -> None:
        self.vectorizers = vectorizers

    @classmethod
    def fit(cls, rows: Rows) -> Self:
        return cls({name: _fit(texts) for name, texts in rows.texts.items() if _has_words(texts)})

    def __iter__(self) -> Iterator[str]:
        """The names of the columns."""
        return iter(self.vectorizers)

    def __len__(self) -> int:
        return len(self.vectorizers)

    def count(self, name: str) -> int:
        """How many terms a column has."""
        return len(self.vectorizers[name].idf_)

    @cached_property
    def _digests(self) -> dict[str, str]:
        """Equal for equal vocabularies and frequencies, also after loading."""
        return {
            name: hashlib.sha256("\n".join(each.get_feature_names_out()).encode() + each.idf_.tobytes()).hexdigest()
            for name, each in self.vectorizers.items()
        }

    def vectors(self, rows: Rows, name: str) -> Any:
        """A sparse matrix, computed once for rows that several experts read: [rows, terms]. Equal texts, as in copies of a
        row with other cells, or with values hidden, are read once."""
        key = "terms", name, self._digests[name]
        if key not in rows.shared:
            read = rows.read_texts.setdefault(key, _Read())
            rows.shared[key] = read.vectors(self.vectorizers[name], rows.texts[name])
        return rows.shared[key]

    def export(self, rows: GraphRows, name: str, weights: np.ndarray) -> str:
        """The vectors of a column times weights, [terms, outputs], in a graph, from the terms that a reader has counted."""
        graph, vectorizer = rows.graph, self.vectorizers[name]
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

    def tensors(self) -> dict[str, np.ndarray]:
        return {f"idf.{name}": each.idf_ for name, each in self.vectorizers.items()}

    def vocabularies(self) -> dict[str, list[str]]:
        return {name: each.get_feature_names_out().tolist() for name, each in self.vectorizers.items()}

    @classmethod
    def load(cls, tensors: Mapping[str, np.ndarray], vocabularies: Mapping[str, Sequence[str]]) -> Self:
        """From what `tensors` and `vocabularies` returned."""
        vectorizers = {}
        for name, vocabulary in vocabularies.items():
            vectorizers[name] = _vectorizer(vocabulary)
            vectorizers[name].idf_ = tensors[f"idf.{name}"]
        return cls(vectorizers)


class _Read:
    """The texts that a vectorizer has read, each once, and their vectors."""

    def __init__(self) -> None:
        self.positions: dict[str, int] = {}
        self.known: Any = None

    def vectors(self, vectorizer: "TfidfVectorizer", texts: np.ndarray) -> Any:
        from scipy.sparse import vstack

        new = [text for text in pd.unique(texts) if text not in self.positions]
        if new:
            read = vectorizer.transform(new)
            self.known = read if self.known is None else vstack([self.known, read], format="csr")
            self.positions |= {text: position for position, text in enumerate(new, len(self.positions))}
        return self.known[[self.positions[text] for text in texts]]


def _vectorizer(vocabulary: Sequence[str] | None = None) -> "TfidfVectorizer":
    from sklearn.feature_extraction.text import TfidfVectorizer  # it takes longer to import than most predictions

    # words and pairs of words per column
    return TfidfVectorizer(
        sublinear_tf=True,
        ngram_range=(1, 2),
        max_features=20_000,
        token_pattern=r"(?u)\b\w+\b",
        vocabulary=vocabulary,
    )


def _fit(texts: np.ndarray) -> "TfidfVectorizer":
    """Words and pairs of words that occur in two texts or, where there are none, in one."""
    try:
        return _vectorizer().set_params(min_df=2).fit(texts)
    except ValueError:
        return _vectorizer().fit(texts)


def _has_words(texts: np.ndarray) -> bool:
    return any(letter.isalnum() for text in texts for letter in text)
