"""Experts: classifiers of the rows of a table that predict together, one file each; files that start with `_` serve them.

Every expert reads the same `Rows`, predicts log-probabilities, and is saved as arrays and JSON; none of it is code.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np

from gauge.tabular.experts._graph import GraphRows
from gauge.tabular.experts._pixels import PixelComponents
from gauge.tabular.experts._recipe import Recipe
from gauge.tabular.experts._terms import Terms
from gauge.tabular.table.rows import Rows
from gauge.tabular.table.schema import Schema
from gauge.tabular.table.splits import Splits
from gauge.training.distributed import broadcast

if TYPE_CHECKING:
    from gauge.data import Dataset
    from gauge.plus.gauge_plus import GaugePlus
    from gauge.training.stages import OnEpoch


C = TypeVar("C", bound=Hashable)
R = TypeVar("R")

Folds = list[tuple[np.ndarray, np.ndarray]]
"""Rows to learn from and rows held out, as indices."""


@dataclass(frozen=True)
class Task:
    """What to learn: rows, their labels and how much each counts. Of a table larger than memory these are a sample, and
    `streamed` makes the split of all rows but some of the sample, from which the network learns. Experts that train in
    epochs follow the `recipe` on the `device` of that name, save every epoch in the `folder`, if there is one, and call
    `on_epoch`. `splits` say which rows stay together in every division of them. `every` are the rows and, after them, those
    without a label, if there are any."""

    rows: Rows
    labels: np.ndarray
    weights: np.ndarray
    classes: int
    recipe: Recipe
    device: str | None = None
    folder: Path | None = None
    on_epoch: "OnEpoch" = lambda stage, epoch: None
    streamed: "Callable[[np.ndarray], Dataset] | None" = None
    splits: Splits = field(default_factory=Splits)
    every: Rows | None = None
    started: float = field(default_factory=time.monotonic)

    @property
    def terms(self) -> Terms:
        """The words of all texts, with or without a label, and how frequent they are; read once for all experts."""
        return self._shared("terms", Terms.fit)

    @property
    def pixels(self) -> PixelComponents:
        """The components of all images, with or without a label; read once for all experts."""
        return self._shared("pixels", PixelComponents.fit)

    def _shared(self, name: str, fit: Callable[[Rows], R]) -> R:
        shared = self.all_rows.shared
        if name not in shared:
            shared[name] = fit(self.all_rows)
        return shared[name]

    @property
    def all_rows(self) -> Rows:
        """The rows that say which values there are, with or without a label."""
        return self.rows if self.every is None else self.every

    @property
    def seconds_left(self) -> float | None:
        """What is left of the time limit; None if there is none."""
        limit = self.recipe.seconds
        # share of the time limit for what is not timed
        return None if limit is None else max((1 - 0.1) * limit - self.seconds_used, 0.0)

    @property
    def seconds_used(self) -> float:
        """How long the fit has taken so far."""
        return time.monotonic() - self.started

    def has_time_for(self, seconds: float) -> bool:
        """Whether something that takes about so long still ends within the time limit; the same for all processes."""
        left = self.seconds_left
        return broadcast(left is None or left > 1.2 * seconds)  # how much longer things may take than before

    def try_each(self, candidates: Iterable[C], attempt: Callable[[C], R]) -> dict[C, R]:
        """What the candidates give: the first one, and as many of the others as there is time for."""
        results: dict[C, R] = {}
        longest = 0.0
        for candidate in candidates:
            # one more candidate, and the chosen one on all rows
            if results and not self.has_time_for(1.5 * longest):
                break
            started = self.seconds_used
            results[candidate] = attempt(candidate)
            longest = max(longest, self.seconds_used - started)
        return results


@dataclass(frozen=True)
class Training:
    """The record of a network's training: the number of `rows` that it learned from, the epochs of every stage, and for
    stages that the time limit ended the epochs done and planned. `history` has the losses of every epoch, also of those that
    were done before an interruption."""

    rows: int
    epochs: Mapping[str, int] = field(default_factory=dict)
    cut_short: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    history: Sequence[dict[str, Any]] = ()


class Saved(NamedTuple):
    """An expert as plain values; `source` is the file that they were read from."""

    tensors: Mapping[str, np.ndarray]
    metadata: Mapping[str, Any]
    source: Path = Path()


class Member(ABC):
    """What an ensemble asks for predictions. One that has a `network` also has the record of its `training`."""

    network: "GaugePlus | None" = None
    training: Training | None = None

    @abstractmethod
    def predict(self, rows: Rows) -> np.ndarray:
        """The log-probability of every class: [rows, classes]."""

    def save(self) -> Saved:
        """Everything that `load` needs, apart from the schema."""
        raise ValueError(f"the expert {type(self).__name__} cannot be saved; leave it out (experts=)")

    def export(self, rows: GraphRows) -> str:
        """Add the prediction to the graph of these rows: the name of the log-probabilities, in double precision."""
        raise ValueError(f"the expert {type(self).__name__} cannot be exported; fit without it (experts=, --experts)")

    def to(self, device: str | None) -> None:  # noqa: B027 - optional
        """Move to the device of that name; most experts stay on the CPU."""

    def record(self) -> None:  # noqa: B027 - optional
        """Predict few rows faster from now on, where the expert can: on a GPU with CUDA graphs."""


class Expert(Member):
    """A fitted expert. Where learning takes long, `cross_fitted` is False, and there is a single fold."""

    cross_fitted: ClassVar[bool] = True

    @classmethod
    @abstractmethod
    def reads(cls, schema: Schema) -> bool:
        """Whether the table has columns that this expert reads."""

    @classmethod
    @abstractmethod
    def fit(cls, task: Task, folds: Folds) -> "tuple[Expert, list[Expert]]":
        """The expert, and for every fold one that has not seen the rows which it holds out: on these all experts are
        compared and weighed. How long or how simply to learn is chosen by the rows held out."""

    @abstractmethod
    def save(self) -> Saved: ...

    @classmethod
    @abstractmethod
    def load(cls, saved: Saved, schema: Schema) -> Self:
        """The expert that was saved, on the CPU."""


def with_prefix(prefix: str, tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The tensors whose names start with the prefix, named without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
