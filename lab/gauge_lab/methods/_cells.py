"""Shared by classifiers of table cells: cells as numbers, masked training rows, the class prior for rows without cells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from gauge.data import Dataset
from gauge.masks import Complete, Protocol
from gauge.nn.tabular import ColumnLayout, by_cell
from gauge.randomness import sample_keys
from gauge.types import Prepared
from gauge.values import Batch, Prediction


@dataclass(frozen=True)
class CellRows:
    """Masked rows that have at least one cell; each counts `weight` times, so that copies of a row count once in all."""

    features: Float[np.ndarray, "n d"]
    labels: np.ndarray
    weight: float


class CellClassifier(Prepared):
    """A classifier that reads the cells of all tables and no other modality; `prepare` fits it. `tables` gives the number of
    categories of every column, 1 for numbers. Training rows are hidden by `masks`.

    A category is one column of zeros and ones for each of its values. Missing cells are NaN.
    """

    def __init__(
        self, tables: Mapping[str, Sequence[int]], num_classes: int, *, masks: Protocol, seed: int = 0
    ) -> None:
        super().__init__()
        self.tables, self.num_classes, self.masks, self.seed = tuple(tables), num_classes, masks, seed
        self.columns = ColumnLayout([size for sizes in tables.values() for size in sizes])
        self.width = self.columns.total + len(self.columns.numbers)
        self.prior = nn.Buffer(torch.zeros(num_classes))

    def fit_rows(self, train: CellRows, val: CellRows | None) -> None:
        """Fit to masked rows; the rows `val` choose the hyperparameter of the classifier."""
        raise NotImplementedError(f"{type(self).__name__} has no fit_rows(train, val)")

    def scores(self, features: Float[Tensor, "b d"]) -> Float[Tensor, "b k"]:
        """The logits of rows in which missing cells are NaN."""
        raise NotImplementedError(f"{type(self).__name__} has no scores(features)")

    def prepare(self, train: Dataset, val: Dataset | None = None) -> None:
        self.to(train.device)
        counts = torch.bincount(train.labels, minlength=self.num_classes) + 1.0
        self.prior.copy_((counts / counts.sum()).log())
        self.fit_rows(self._rows(train), None if val is None else self._rows(val))
        self.finished = True

    @torch.no_grad()
    def predict(self, batch: Batch) -> Prediction:
        self.check_finished()
        features = self.features(batch.check())
        known = ~features.isnan().all(1, keepdim=True)
        return Prediction(torch.where(known, self.scores(features), self.prior))

    def features(self, batch: Batch) -> Float[Tensor, "b d"]:
        """The cells of all tables: categories, then numbers."""
        values = [batch.blanked().inputs[name].float() for name in self.tables]
        flags = [by_cell(batch.observed[name], batch.inputs[name]) for name in self.tables]
        table, observed, columns = torch.cat(values, 1), torch.cat(flags, 1), self.columns
        parts = [torch.where(observed[:, columns.numbers], table[:, columns.numbers], torch.nan)]
        if columns.total:
            one_hot = F.one_hot(columns.codes(table) + columns.offsets, columns.total).sum(1)
            known = observed[:, columns.categorical].repeat_interleave(columns.sizes, 1, output_size=columns.total)
            parts.insert(0, torch.where(known, one_hot.float(), torch.nan))
        return torch.cat(parts, 1)

    def _rows(self, data: Dataset) -> CellRows:
        copies = 1 if isinstance(self.masks, Complete) else 8  # copies of every row, each under another mask
        features, labels = [], []
        for copy in range(copies):
            for index in torch.arange(len(data), device=data.device).split(512):  # rows at once
                key = sample_keys(index, self.seed, "cells", copy)
                batch = data.batch(index, keep=self.masks.keep(data.feature_counts, key), key=key)
                features.append(self.features(batch).cpu().numpy())
                labels.append(data.labels[index].cpu().numpy())
        cells, classes = np.concatenate(features), np.concatenate(labels)
        known = ~np.isnan(cells).all(1)
        return CellRows(cells[known], classes[known], 1 / copies)

    @classmethod
    def unsupported(cls, shapes: Mapping[str, tuple[int, ...]]) -> str | None:
        if any(len(shape) == 1 for shape in shapes.values()):
            return None
        return "it reads the cells of tables, and no modality is a table"
