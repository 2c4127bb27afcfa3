"""Images and other contents as columns of numbers: the principal components of their pixels, for trees and linear models."""

import hashlib
from collections.abc import Mapping
from functools import cached_property
from typing import Self

import numpy as np

from gauge.tabular.experts._graph import GraphRows
from gauge.tabular.table.rows import Rows


class PixelComponents:
    """The mean of the vectors of every such column in training and the directions in which they differ most, so scaled that
    each component has deviation 1."""

    max_deviation = 4.0  # from the mean, in deviations; components beyond are clipped

    def __init__(self, means: Mapping[str, np.ndarray], directions: Mapping[str, np.ndarray]) -> None:
        self.means, self.directions = (  # in one layout, as products in another are rounded otherwise
            {name: np.ascontiguousarray(array, np.float64) for name, array in values.items()}
            for values in (means, directions)
        )
        self.count = sum(map(len, self.directions.values()))

    @classmethod
    def fit(cls, rows: Rows) -> Self:
        min_deviation = 1e-3  # of a component that is used; a pixel lies between 0 and 1
        from sklearn.decomposition import PCA

        means, directions = {}, {}
        for modality, column in rows.schema.contents.items():
            available = np.flatnonzero(rows.encoded.observed[modality])
            if column.read_by_trees and len(available) > 1:
                count = min(len(available), 2000)  # rows that components are learned from
                chosen = available[np.linspace(0, len(available) - 1, count).astype(int)]
                vectors = column.vectors(rows.encoded.inputs[modality][chosen])
                if column.by_components:
                    count = min(30, len(chosen) - 1, vectors.shape[1])  # at most 30 components
                    found = PCA(count, svd_solver="randomized", random_state=0).fit(vectors)
                    mean, axes, scale = found.mean_, found.components_, np.sqrt(found.explained_variance_)
                else:
                    mean, axes, scale = vectors.mean(0), np.eye(vectors.shape[1]), vectors.std(0)
                scale[scale < min_deviation] = np.inf  # all rows are alike
                means[modality], directions[modality] = mean, axes / scale[:, None]
        return cls(means, directions)

    @cached_property
    def _digest(self) -> str:
        """Equal for equal means and directions, also after loading."""
        arrays = [*self.means.values(), *self.directions.values()]
        return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()

    def columns(self, rows: Rows) -> np.ndarray:
        """The components of all columns, NaN where a cell is missing, computed once for rows that several experts read:
        [rows, components]."""
        key = "pixels", self._digest
        if key not in rows.shared:
            rows.shared[key] = self._columns(rows)
        return rows.shared[key]

    def position(self, modality: str) -> slice:
        """Which of the components are those of a column."""
        start = 0
        for name, directions in self.directions.items():
            if name == modality:
                return slice(start, start + len(directions))
            start += len(directions)
        raise KeyError(modality)

    def _columns(self, rows: Rows) -> np.ndarray:
        """They are computed in double precision and then rounded, so that another program decides alike where trees compare
        them with a threshold."""
        parts = [np.zeros((len(rows), 0), np.float32)]
        for modality, directions in self.directions.items():
            column = rows.schema.contents[modality]
            inputs, size = rows.encoded.inputs[modality], 256  # rows at once
            split = [inputs[start : start + size] for start in range(0, max(1, len(inputs)), size)]
            values = [(column.vectors(part) - self.means[modality]) @ directions.T for part in split]
            observed = rows.encoded.observed[modality][:, None]
            parts.append(
                np.where(observed, np.concatenate(values).clip(-self.max_deviation, self.max_deviation), np.nan)
            )
        return np.concatenate(parts, 1, dtype=np.float32)

    def export(self, rows: GraphRows) -> list[str]:
        """The `columns` in a graph, some at a time."""
        graph, missing = rows.graph, rows.graph.constant(np.float32(np.nan))
        parts = []
        for modality in self.directions:
            observed = graph.node("Unsqueeze", rows.observed(modality), graph.constant(np.array([1])))
            parts.append(graph.node("Where", observed, self.export_components(rows, modality), missing))
        return parts

    def export_components(self, rows: GraphRows, modality: str) -> str:
        """The components of a column in a graph, whatever they are where it is missing."""
        graph = rows.graph
        vectors = rows.schema.contents[modality].export_vectors(graph, rows.values(modality))
        centred = graph.node("Sub", vectors, graph.constant(self.means[modality]))
        values = graph.node("MatMul", centred, graph.constant(self.directions[modality].T))
        values = graph.node(
            "Clip", values, *(graph.constant(each) for each in (-self.max_deviation, self.max_deviation))
        )
        return graph.cast(values, np.float32)

    def tensors(self) -> dict[str, np.ndarray]:
        return {
            f"pixels.{kind}.{modality}": array
            for kind, values in (("means", self.means), ("directions", self.directions))
            for modality, array in values.items()
        }

    @classmethod
    def load(cls, tensors: Mapping[str, np.ndarray]) -> Self:
        """From those among the tensors of an expert that `tensors` wrote."""
        means, directions = (
            {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
            for start in ("pixels.means.", "pixels.directions.")
        )
        return cls(means, directions)
