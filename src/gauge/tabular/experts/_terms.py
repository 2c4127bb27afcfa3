"""Terms: TF-IDF of the words and pairs of words in texts, for trees and the linear expert.

scikit-learn learns the vocabularies; texts are read without it, as importing it takes longer than most predictions.
"""

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd

from gauge.tabular.experts._graph import GraphRows
from gauge.tabular.table.arrays import count_terms
from gauge.tabular.table.cells import WORD
from gauge.tabular.table.rows import Rows


class Terms:
    """The vocabulary and the inverse document frequencies of every column of texts that has words."""

    def __init__(self, vocabularies: Mapping[str, Sequence[str]], idf: Mapping[str, np.ndarray]) -> None:
        self.vocabularies, self.idf = vocabularies, idf

    @classmethod
    def fit(cls, rows: Rows) -> Self:
        fitted = {
            name: _fit(texts)
            for name, texts in rows.texts.items()
            if any(letter.isalnum() for text in texts for letter in text)
        }
        vocabularies = {name: each.get_feature_names_out().tolist() for name, each in fitted.items()}
        return cls(vocabularies, {name: each.idf_ for name, each in fitted.items()})

    @cached_property
    def _digests(self) -> dict[str, str]:
        """Equal for equal vocabularies and frequencies, also after loading."""
        return {
            name: hashlib.sha256("\n".join(self.vocabularies[name]).encode() + idf.tobytes()).hexdigest()
            for name, idf in self.idf.items()
        }

    def vectors(self, rows: Rows, name: str) -> Any:
        """A sparse matrix, computed once for rows that several experts read: [rows, terms]. Equal texts, as in copies of a
        row with other cells, or with values hidden, are read once."""
        key = "terms", name, self._digests[name]
        if key not in rows.shared:
            read = rows.read_texts.setdefault(key, _Read(self.vocabularies[name], self.idf[name]))
            rows.shared[key] = read.vectors(rows.texts[name])
        return rows.shared[key]

    def export(self, rows: GraphRows, name: str, weights: np.ndarray) -> str:
        """The vectors of a column times weights, [terms, outputs], in a graph, from the terms that a reader has counted."""
        graph = rows.graph
        last, after_last = (graph.constant(np.array([axis])) for axis in (1, 2))
        terms, counts = rows.terms(name, self.vocabularies[name])
        one = graph.constant(1.0)
        frequencies = graph.node("Add", graph.node("Log", graph.node("Max", graph.cast(counts, np.float64), one)), one)
        available = graph.cast(graph.cast(counts, bool), np.float64)
        idf = graph.gather(graph.constant(self.idf[name]), terms, 0)
        vectors = graph.node("Mul", graph.node("Mul", frequencies, available), idf)
        norm = graph.node("ReduceL2", vectors, last)
        vectors = graph.node("Div", vectors, graph.node("Max", norm, graph.constant(np.finfo(float).tiny)))
        products = graph.node(
            "Mul", graph.node("Unsqueeze", vectors, after_last), graph.gather(graph.constant(weights), terms, 0)
        )
        return graph.node("ReduceSum", products, last, keepdims=0)

    def tensors(self) -> dict[str, np.ndarray]:
        return {f"idf.{name}": idf for name, idf in self.idf.items()}

    @classmethod
    def load(cls, tensors: Mapping[str, np.ndarray], vocabularies: Mapping[str, Sequence[str]]) -> Self:
        """From what `tensors` returned, and the `vocabularies`."""
        idf = {name: tensors[f"idf.{name}"] for name in vocabularies}
        for name, vocabulary in vocabularies.items():
            if idf[name].shape != (len(set(vocabulary)),) or len(set(vocabulary)) < len(vocabulary):
                raise ValueError(f"column {name!r:.50} has frequencies of other terms than its own; fit again")
        return cls(vocabularies, idf)


class _Read:
    """The texts of a column that were read, each once, and their vectors: (1 + log count) · idf, of norm 1."""

    def __init__(self, vocabulary: Sequence[str], idf: np.ndarray) -> None:
        self.numbers, self.idf = {term: number for number, term in enumerate(vocabulary)}, idf
        self.positions: dict[str, int] = {}
        self.known: Any = None

    def vectors(self, texts: np.ndarray) -> Any:
        from scipy.sparse import vstack

        new = [text for text in pd.unique(texts) if text not in self.positions]
        if new:
            parts = [self._read(new[start : start + 1000]) for start in range(0, len(new), 1000)]  # dense until then
            self.known = vstack([*([] if self.known is None else [self.known]), *parts], format="csr")
            self.positions |= {text: position for position, text in enumerate(new, len(self.positions))}
        return self.known[[self.positions[text] for text in texts]]

    def _read(self, texts: Sequence[str]) -> Any:
        from scipy.sparse import csr_matrix

        terms, counts = count_terms(texts, self.numbers)
        counted = counts > 0
        weights = np.where(counted, (1 + np.log(np.maximum(counts, 1))) * self.idf[terms], 0.0)
        weights /= np.maximum(np.linalg.norm(weights, axis=1, keepdims=True), np.finfo(float).tiny)
        ends = np.concatenate([[0], counted.sum(1).cumsum()])
        vectors = csr_matrix((weights[counted], terms[counted], ends), (len(texts), len(self.idf)))
        vectors.sort_indices()
        return vectors


def _fit(texts: np.ndarray) -> Any:
    """Words and pairs of words that occur in two texts or, where there are none, in one."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    options: dict[str, Any] = {"ngram_range": (1, 2), "max_features": 20_000, "token_pattern": WORD}
    try:
        return TfidfVectorizer(min_df=2, **options).fit(texts)
    except ValueError:
        return TfidfVectorizer(**options).fit(texts)
