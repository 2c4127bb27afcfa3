"""Tables larger than memory: a sample for columns and experts, and all rows, encoded in files, for the network."""

from collections.abc import Iterator
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
from gauge.tabular.schema import Schema

SAMPLE = 100_000  # rows


@dataclass(frozen=True)
class Stream:
    """A table in files: the labels of all rows, and a sample of at most `SAMPLE` rows in their order, whose index are the
    numbers of the rows."""

    table: Path
    sample: pd.DataFrame
    labels: pd.Series

    @classmethod
    def of(cls, table: Path, target: Any, weights: Any, seed: int) -> "Stream":
        """From one pass over the table. Which rows are sampled depends on their number, the seed and nothing else."""
        if not isinstance(target, str) or weights is not None:
            raise ValueError("a table in files needs the name of its column of labels as y, and takes no sample_weight")
        labels, rows, draws = [], [], []
        for part in read_rows(table, ROWS_AT_ONCE):
            if target not in part:
                raise ValueError(f"there is no column {target!r} with the labels; the table has {list(part.columns)}")
            labels.append(part[target])
            rows.append(part)
            draws.append(sample_keys(torch.arange(part.index[0], part.index[-1] + 1), seed, "sample").numpy())
            if sum(map(len, rows)) > 2 * SAMPLE:
                rows, draws = _sampled(rows, draws)
        (sample,), _ = _sampled(rows, draws)
        every = with_types(table, pd.concat(labels).to_frame())[target]
        return cls(table, with_types(table, sample).assign(**{target: every.loc[sample.index]}), every)

    def dataset(
        self,
        schema: Schema,
        labels: np.ndarray,
        sampled: pd.Index,
        held_out: np.ndarray,
        *,
        files: ImageFiles,
        folder: Path | None,
        device: torch.device,
    ) -> Dataset:
        """All rows that have values, with the numbers of their classes, but for those of the `sampled` rows that are held
        out. They are kept in the folder; without one, in temporary files that vanish with the dataset."""
        with TemporaryDirectory(ignore_cleanup_errors=True) if folder is None else nullcontext(folder) as place:
            write_dataset(Path(place) / "rows", self._encoded(schema, labels, sampled[held_out], files))
            return read_dataset(Path(place) / "rows", device)

    def _encoded(self, schema: Schema, labels: np.ndarray, held_out: pd.Index, files: ImageFiles) -> Iterator[Dataset]:
        for part in read_rows(self.table, rows_at_once(schema.columns)):
            encoded = schema.encode(part, files)
            rows = np.flatnonzero(~encoded.empty & ~np.isin(part.index, held_out))
            if len(rows):
                yield encoded.dataset("train", rows, labels[part.index])


def _sampled(rows: list[pd.DataFrame], draws: list[np.ndarray]) -> tuple[list[pd.DataFrame], list[np.ndarray]]:
    """The rows with the smallest draws, as one part."""
    table, every = pd.concat(rows), np.concatenate(draws)
    if len(every) <= SAMPLE:
        return [table], [every]
    chosen = np.sort(np.argpartition(every, SAMPLE)[:SAMPLE])
    return [table.iloc[chosen]], [every[chosen]]
