"""Experts: classifiers of the rows of a table that stand beside the network, one file each.

Every expert reads the same `Rows`, answers with log-probabilities, and is saved as tensors and JSON; none of it is code.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from torch import Tensor

from gauge.data import Dataset
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Schema

Folds = list[tuple[np.ndarray, np.ndarray]]
"""Rows to learn from and rows held out, as indices."""


@dataclass(frozen=True)
class Task:
    """What to learn: rows, their labels and how much each counts. Of a table larger than memory these are a sample, and
    `streamed` makes the split of all rows but some of the sample, from which the network learns."""

    rows: Rows
    labels: np.ndarray
    weights: np.ndarray
    classes: int
    seed: int
    streamed: Callable[[np.ndarray], Dataset] | None = None


class Saved(NamedTuple):
    """An expert as plain values."""

    tensors: dict[str, Tensor]
    about: dict[str, Any]


class Expert(ABC):
    """A fitted expert."""

    @classmethod
    @abstractmethod
    def reads(cls, schema: Schema) -> bool:
        """Whether the table has columns that this expert reads."""

    @classmethod
    @abstractmethod
    def fit(cls, task: Task, folds: Folds) -> list[Self]:
        """The expert of all rows, then one for each fold, of the rows it does not hold out. How long or how simply to learn
        is chosen by the rows held out."""

    @abstractmethod
    def predict(self, rows: Rows) -> np.ndarray:
        """The log-probability of every class: [rows, classes]."""

    @abstractmethod
    def save(self) -> Saved:
        """Everything that `load` needs, apart from the schema."""

    @classmethod
    @abstractmethod
    def load(cls, saved: Saved, schema: Schema) -> Self:
        """The expert that was saved."""
