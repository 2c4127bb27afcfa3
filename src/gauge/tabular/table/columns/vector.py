"""Vectors: lists of numbers of one length whose order means nothing, such as embeddings. Trees and the linear expert read
every number as a column."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import pandas as pd
from pydantic import AfterValidator

from gauge.tabular.table.cells import MIN_SAMPLES, has_category_type, missing
from gauge.tabular.table.columns import Content, Guess, ImageFiles, Part, Question, ReadOptions
from gauge.tabular.table.columns.signal import Signal, channels_of, list_from_json, note_sizes, scaled, scales, sizes_of
from gauge.tabular.table.guard import Limits

if TYPE_CHECKING:
    from gauge.types import Encoder

__all__ = ["Vector"]


@dataclass(frozen=True)
class Vector(Content):
    """`means` and `deviations` are those of each number in training, `sizes` how large all of a row were."""

    name: str
    means: tuple[float, ...]
    deviations: tuple[float, ...]
    sizes: Limits | None = None
    kind: ClassVar[str] = "vector"
    order: ClassVar[int] = 5
    precedence: ClassVar[int] = -1
    read_by_trees: ClassVar[bool] = True
    by_components: ClassVar[bool] = False
    display: ClassVar[Any] = "number"

    @classmethod
    def recognise(cls, values: pd.Series) -> Guess | None:
        """Vectors where neighbours differ as much as any two numbers, as samples in time are closer to each other, and lists
        that are too short for a signal, such as coordinates."""
        if has_category_type(values):
            return None
        try:
            short = 1 < len(_numbers(values.iloc[0])) < MIN_SAMPLES
            rows = np.stack([_numbers(cell) for cell in (values if short else values.iloc[:200])])
        except ValueError:  # no lists, files, several channels or different lengths
            return None
        if rows.shape[1] == 1:
            return None
        near, any_two = np.nanmean(np.diff(rows) ** 2), 2 * np.nanmean(np.nanvar(rows, 1))
        vector = short or (near > 0.5 * any_two and Signal.recognise(values) is not None)
        return Guess(_in_words(rows.shape[1])) if vector else None

    @classmethod
    def from_column(cls, column: pd.Series, options: ReadOptions = ReadOptions()) -> "Vector":
        values = column[~missing(column)]
        try:
            rows = np.stack([_numbers(cell) for cell in values])
        except ValueError as error:
            raise ValueError(
                f"column {column.name!r}: these are not vectors of one length ({error}); give lists of numbers, or set "
                "another kind in columns="
            ) from error
        sizes = Limits.fit(sizes_of(scaled(rows, *scales(rows))), ratios=False)
        return cls(str(column.name), *scales(rows), sizes)

    def encode(
        self, column: pd.Series, files: ImageFiles = ImageFiles(), *, training: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        values, observed = np.zeros((len(column), len(self.means)), np.float32), ~missing(column)
        broken = {}
        for row, cell in enumerate(column.tolist()):
            try:
                if observed[row]:
                    values[row] = scaled(self._read(cell), self.means, self.deviations)
            except ValueError as error:
                broken[row] = str(error)
        if broken:
            self.report_unreadable(column, list(broken), broken[min(broken)], int(observed.sum()) if training else None)
        observed[list(broken)] = False
        note_sizes(self.sizes, column, values, observed)
        return values, observed

    def _read(self, cell: Any) -> np.ndarray:
        numbers = _numbers(cell)
        if len(numbers) != len(self.means):
            raise ValueError(f"a list of {len(numbers)} numbers, where training had {len(self.means)}")
        return numbers

    @property
    def note(self) -> str:
        return _in_words(len(self.means))

    @property
    def values_per_row(self) -> int:
        return len(self.means)

    @property
    def saved_problem(self) -> str:
        scales = (*self.means, *self.deviations)
        usable = 1 <= len(self.means) == len(self.deviations) <= 2**16 and bool(np.isfinite(scales).all())
        return "" if usable and min(self.deviations) > 0 else "its vectors have no length, or no scale"

    def request_type(self, *, max_pixels: int) -> Any:
        return Annotated[str | list[float | None], AfterValidator(self._read)] | None

    def question(self) -> Question:
        return Question("text", f"{len(self.means)} numbers in brackets: [0.1, 0.2, ...].")

    def encoder(self, dim: int, channels: Sequence[int], *, weights: bool) -> "Encoder":
        from gauge.encoders.mlp import Mlp

        return Mlp((len(self.means),), dim)

    def parts(self, cell: Any, values: np.ndarray, count: int | None) -> list[Part]:
        numbers = [f"{number:.5g}" for number in _numbers(cell)]
        return [Part(self.name, ", ".join(numbers if len(numbers) <= 5 else [*numbers[:5], "..."]))]


def _in_words(length: int) -> str:
    return f"vectors of {length} numbers; the kind 'signal' is for samples in time"


def _numbers(cell: Any) -> np.ndarray:
    """The numbers of a cell; a ValueError says why there are none."""
    channels = channels_of(list_from_json(cell) if isinstance(cell, str) else cell)
    if len(channels) > 1:
        raise ValueError(f"{len(channels)} lists of numbers, where one is read")
    return channels[0]
