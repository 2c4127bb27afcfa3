"""Labelled: the rows of a table to learn from, with the numbers of their classes and their weights."""

import logging
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from gauge.tabular.table import inputs
from gauge.tabular.table.cells import missing
from gauge.tabular.table.schema import Encoded, Schema
from gauge.tabular.table.splits import Splits
from gauge.tabular.table.stream import Stream

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Labelled:
    """Training rows that have a label and a weight above zero, the numbers of their classes, and their weights; `unlabelled`
    are rows without a label that may be used. Of a table in files the rows are a sample, and `every_label` are the numbers
    of the classes of all rows. `splits` say which rows stay together."""

    frame: pd.DataFrame
    labels: np.ndarray
    weights: np.ndarray
    classes: np.ndarray
    every_label: np.ndarray
    target: str | None
    stream: Stream | None
    unlabelled: pd.DataFrame
    splits: Splits = field(default_factory=Splits)

    def counted(self) -> "Labelled":
        """Without the labelled rows of weight zero."""
        counted = self.weights > 0
        if not counted.any():
            raise ValueError("all rows with a label have a weight of zero; give one of them more")
        if counted.all():
            return self
        return replace(self, frame=self.frame[counted], labels=self.labels[counted], weights=self.weights[counted])

    def with_splits(self, rows: Any, y: Any, groups: Any, time: Any, weights: Any) -> "Labelled":
        """The same, held out by groups or time."""
        return replace(self, splits=Splits.from_table(rows, y, groups, time, weights))

    @property
    def every_row(self) -> pd.DataFrame:
        """The rows that have a label, then the others."""
        return pd.concat([self.frame, self.unlabelled]) if len(self.unlabelled) else self.frame

    @property
    def class_shares(self) -> np.ndarray:
        return np.bincount(self.every_label, minlength=len(self.classes)) / len(self.every_label)

    def usable(self, schema: Schema) -> Schema:
        """The columns of all rows, but for those that no row with a label has: nothing tells what they mean."""
        blank = [column.name for column in schema.columns if missing(self.frame[column.name]).all()]
        if not blank:
            return schema
        logger.warning(
            "column %r (first of %d) has no value in any row with a label and is ignored; label rows that have one",
            *(blank[0], len(blank)),
        )
        ignored = dict(schema.ignored) | dict.fromkeys(blank, "it is empty in all rows with a label")
        columns = tuple(column for column in schema.columns if column.name not in blank)
        if not columns:
            raise ValueError("no column has a value in a row with a label; label rows that have values")
        return replace(schema, columns=columns, ignored=ignored)

    def prior(self, used: np.ndarray) -> np.ndarray:
        """The shares of the classes by weight, in the rows that are used; by count, in a table in files."""
        if self.stream is not None:
            return self.class_shares / self.class_shares.sum()
        weights = inputs.scale_weights(self.weights[used])
        counts = np.bincount(self.labels[used], weights, len(self.classes))
        return counts / counts.sum()


def rows_to_use(encoded: Encoded, data: Labelled) -> np.ndarray:
    """The labelled rows that have a value; classes that lose all of their rows are reported."""
    empty = encoded.empty[: len(data.labels)]
    if empty.any():
        logger.warning("%d rows have no values and are left out of training", empty.sum())
    used = np.flatnonzero(~empty)
    if not len(used):
        raise ValueError("no row has a value and a weight above zero; give rows with at least one value")
    known = data.every_label if data.stream is None else data.labels
    for label in data.classes[np.setdiff1d(known, data.labels[used])].tolist():
        logger.warning(
            "no row of class %r has a value and a weight above zero, so it is not learned and hardly ever predicted; drop "
            "its rows, or give them values and weights",
            label,
        )
    return used


def unlabelled_to_use(encoded: Encoded, data: Labelled) -> np.ndarray:
    """The positions in `every_row` of rows without a label that have a value; those without one are reported."""
    count = len(data.labels)
    used = count + np.flatnonzero(~encoded.empty[count:])
    if len(used) < len(data.unlabelled):
        logger.warning(
            "%d of %d rows without a label have no value in a column that is used, and are left out",
            *(len(data.unlabelled) - len(used), len(data.unlabelled)),
        )
    return used
