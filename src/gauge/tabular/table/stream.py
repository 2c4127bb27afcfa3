"""Tables larger than memory: a sample for columns and experts, and all rows, encoded in files, for the network."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gauge.randomness import sample_keys
from gauge.tabular.table import inputs
from gauge.tabular.table.arrays import ROWS_AT_ONCE, rows_at_once
from gauge.tabular.table.columns import ImageFiles
from gauge.tabular.table.files import read_rows, with_types
from gauge.tabular.table.schema import Schema
from gauge.training.device import pick_device

if TYPE_CHECKING:
    from gauge.data import Dataset


@dataclass(frozen=True)
class Stream:
    """A table in files: a sample of at most 100,000 of the rows that have a label, in their order, whose index
    are their numbers, and the labels of all of these rows: `labels` are the different ones, `codes` their positions
    there. `unlabelled` is such a sample of the rows without a label."""

    table: Path
    target: str
    sample: pd.DataFrame
    labels: pd.Series
    codes: np.ndarray
    unlabelled: pd.DataFrame

    @classmethod
    def from_files(cls, table: Path, target: Any, weights: Any, seed: int) -> "Stream":
        """From one pass over the table. Which rows are sampled depends on their number, the seed and nothing else."""
        if not isinstance(target, str) or weights is not None:
            raise ValueError("a table in files needs the name of its column of labels as y, and takes no sample_weight")
        labels: pd.Series | None = None
        coded, with_label, without = [], _Sample(seed), _Sample(seed)
        for part in read_rows(table, ROWS_AT_ONCE):
            column = inputs.without_target(part, target)[1]
            labels, codes = _different(labels, column)
            coded.append(codes)
            known = inputs.has_label(column)
            with_label.add(part[known])
            without.add(part[~known])
        assert labels is not None  # a table has rows
        different = with_types(table, labels.to_frame(target))[target]
        labels, codes = _known(different, np.concatenate(coded))
        sample, others = with_label.rows(), without.rows()
        every = with_types(table, pd.concat([sample, others]) if len(others) else sample)
        drawn = labels.iloc[codes[sample.index]].set_axis(sample.index)
        others = _numbered(every[len(sample) :].drop(columns=target), len(codes))
        return cls(table, target, every[: len(sample)].assign(**{target: drawn}), labels, codes, others)

    def class_numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """The classes in order, and the number of the class of every row, in few bytes."""
        classes, numbers = inputs.class_numbers(self.labels, len(self.codes))
        return classes, numbers.astype(np.min_scalar_type(len(classes)))[self.codes]

    def encoded(
        self,
        schema: Schema,
        labels: np.ndarray,
        sampled: pd.Index,
        files: ImageFiles,
        *,
        folder: Path | None,
        device: str | None,
    ) -> "Callable[[np.ndarray], Dataset]":
        """A function that encodes all rows that have values, with the numbers of their classes, but for those `sampled` rows
        that it is told to hold out. They are kept in the folder; without one, in temporary files that vanish with them."""

        def without(held_out: np.ndarray) -> "Dataset":
            from gauge.data.mapped import read_dataset, write_dataset

            with TemporaryDirectory(ignore_cleanup_errors=True) if folder is None else nullcontext(folder) as kept:
                write_dataset(Path(kept) / "rows", self._parts(schema, labels, sampled[held_out], files))
                return read_dataset(Path(kept) / "rows", pick_device(device))

        return without

    def _parts(self, schema: Schema, labels: np.ndarray, held_out: pd.Index, files: ImageFiles) -> "Iterator[Dataset]":
        from gauge.tabular.table.tensors import dataset

        count = 0
        for part in read_rows(self.table, rows_at_once(schema.columns)):
            labelled = _numbered(part[inputs.has_label(part[self.target])], count)
            count += len(labelled)
            encoded = schema.encode(labelled, files)
            rows = np.flatnonzero(~encoded.empty & ~np.isin(labelled.index, held_out))
            if len(rows):
                yield dataset(encoded, "train", rows, labels[labelled.index])


def _different(known: pd.Series | None, column: pd.Series) -> tuple[pd.Series, np.ndarray]:
    """The different labels so far, among them one that is missing if there is one, and their positions for a column."""
    if column.dtype == object:
        column = column.where(column.notna())  # all that is missing is NaN
        inputs.check_types(column.to_numpy())  # True and 1 are equal in Python, and lists have no hash
    new = column.drop_duplicates()
    every = new if known is None else pd.concat([known, new])
    if every.dtype == object:
        inputs.check_types(every.to_numpy())
    labels = every.drop_duplicates(ignore_index=True)
    return labels, pd.Index(labels).get_indexer(pd.Index(column)).astype(np.min_scalar_type(len(labels)))


def _known(labels: pd.Series, codes: np.ndarray) -> tuple[pd.Series, np.ndarray]:
    """The different labels but for missing and blank ones, and the positions there of all rows that have one."""
    known = inputs.has_label(labels)
    if known.all():
        return labels, codes
    inputs.report_unlabelled(known[codes], pd.RangeIndex(len(codes)), use=True)
    positions = (np.cumsum(known) - 1).astype(codes.dtype)
    return inputs.beside_missing(labels[known]).reset_index(drop=True), positions[codes[known[codes]]]


def _numbered(rows: pd.DataFrame, first: int) -> pd.DataFrame:
    return rows.set_axis(pd.RangeIndex(first, first + len(rows)), axis=0)


class _Sample:
    """At most `max_rows` of the rows that arrive in parts, in their order; their index are their numbers."""

    max_rows = 100_000

    def __init__(self, seed: int) -> None:
        self.seed, self.count = seed, 0
        self.parts: list[pd.DataFrame] = []
        self.draws: list[np.ndarray] = []

    def add(self, rows: pd.DataFrame) -> None:
        last = self.count + len(rows)
        self.parts.append(_numbered(rows, self.count))
        self.draws.append(sample_keys(np.arange(self.count, last), self.seed, "sample"))
        self.count = last
        if sum(map(len, self.parts)) > 2 * self.max_rows:
            self.rows()

    def rows(self) -> pd.DataFrame:
        """The rows with the smallest draws; the others are dropped."""
        table, every = pd.concat(self.parts), np.concatenate(self.draws)
        if len(every) > self.max_rows:
            chosen = np.sort(np.argpartition(every, self.max_rows)[: self.max_rows])
            table, every = table.iloc[chosen], every[chosen]
        self.parts, self.draws = [table], [every]
        return table
