"""Tables larger than memory: a sample for columns and experts, and all rows, encoded in files, for the network."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import torch

from gauge.data import Dataset
from gauge.data.mapped import read_dataset, write_dataset
from gauge.randomness import sample_keys
from gauge.tabular.arrays import ROWS_AT_ONCE, rows_at_once
from gauge.tabular.columns import ImageFiles
from gauge.tabular.files import read_rows, with_types
from gauge.tabular.inputs import drop_unlabelled, has_label
from gauge.tabular.schema import Schema

SAMPLE = 100_000  # rows


@dataclass(frozen=True)
class Stream:
    """A table in files: the labels of all rows that have one, and a sample of at most `SAMPLE` of these rows in their order,
    whose index are their numbers."""

    table: Path
    target: str
    sample: pd.DataFrame
    labels: pd.Series

    @classmethod
    def of(cls, table: Path, target: Any, weights: Any, seed: int) -> "Stream":
        """From one pass over the table. Which rows are sampled depends on their number, the seed and nothing else."""
        if not isinstance(target, str) or weights is not None:
            raise ValueError("a table in files needs the name of its column of labels as y, and takes no sample_weight")
        every, rows, draws, count = [], [], [], 0
        for part in read_rows(table, ROWS_AT_ONCE):
            if target not in part:
                raise ValueError(f"there is no column {target!r} with the labels; the table has {list(part.columns)}")
            every.append(part[target])
            rows.append(_labelled(part, target, count))
            last = count + len(rows[-1])
            draws.append(sample_keys(torch.arange(count, last), seed, "sample").numpy())
            count = last
            if sum(map(len, rows)) > 2 * SAMPLE:
                rows, draws = _sampled(rows, draws)
        (sample,), _ = _sampled(rows, draws)
        typed = with_types(table, pd.concat(every).to_frame())
        _, labels, _ = drop_unlabelled(typed, typed[target], np.ones(len(typed)))
        labels = labels.reset_index(drop=True)
        return cls(table, target, with_types(table, sample).assign(**{target: labels.loc[sample.index]}), labels)

    def encoded(
        self,
        schema: Schema,
        labels: np.ndarray,
        sampled: pd.Index,
        files: ImageFiles,
        *,
        folder: Path | None,
        device: torch.device,
    ) -> Callable[[np.ndarray], Dataset]:
        """A function that encodes all rows that have values, with the numbers of their classes, but for those `sampled` rows
        that it is told to hold out. They are kept in the folder; without one, in temporary files that vanish with them."""

        def without(held_out: np.ndarray) -> Dataset:
            with TemporaryDirectory(ignore_cleanup_errors=True) if folder is None else nullcontext(folder) as place:
                write_dataset(Path(place) / "rows", self._parts(schema, labels, sampled[held_out], files))
                return read_dataset(Path(place) / "rows", device)

        return without

    def _parts(self, schema: Schema, labels: np.ndarray, held_out: pd.Index, files: ImageFiles) -> Iterator[Dataset]:
        count = 0
        for part in read_rows(self.table, rows_at_once(schema.columns)):
            labelled = _labelled(part, self.target, count)
            count += len(labelled)
            encoded = schema.encode(labelled, files)
            rows = np.flatnonzero(~encoded.empty & ~np.isin(labelled.index, held_out))
            if len(rows):
                yield encoded.dataset("train", rows, labels[labelled.index])


def _labelled(part: pd.DataFrame, target: str, before: int) -> pd.DataFrame:
    """The rows that have a label, numbered after those `before`."""
    rows = part[has_label(part[target])]
    return rows.set_axis(pd.RangeIndex(before, before + len(rows)), axis=0)


def _sampled(rows: list[pd.DataFrame], draws: list[np.ndarray]) -> tuple[list[pd.DataFrame], list[np.ndarray]]:
    """The rows with the smallest draws, as one part."""
    table, every = pd.concat(rows), np.concatenate(draws)
    if len(every) <= SAMPLE:
        return [table], [every]
    chosen = np.sort(np.argpartition(every, SAMPLE)[:SAMPLE])
    return [table.iloc[chosen]], [every[chosen]]
