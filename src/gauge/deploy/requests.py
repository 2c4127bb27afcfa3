"""What a request may hold: a row model made from the columns of a classifier. Every value is checked before it is used."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from gauge.tabular.table.columns import Column, missing

MAX_LISTED_PROBLEMS = 10  # in an answer
MAX_SHOWN_CHARACTERS = 100  # of a value in an answer

Note = dict[str, str]


@dataclass(frozen=True)
class Limits:
    """What the server accepts: bytes of a body, rows of a request, pixels of an image and of all images of a request,
    seconds for an answer, and requests that wait. `batch` is the number of rows that are predicted together."""

    body: int = 16 * 2**20
    rows: int = 1000
    pixels: int = 4096 * 4096
    all_pixels: int = 8 * 4096 * 4096
    seconds: float = 30.0
    waiting: int = 256
    batch: int = 1024


@dataclass
class Pixels:
    """The pixels that a request may still have; images that compress well would otherwise keep the server busy."""

    left: int

    def take(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise ValueError("is one image too many: together they have too many pixels; send fewer or smaller ones")


def request_model(columns: Sequence[Column], limits: Limits) -> type[BaseModel]:
    """`{"rows": [{COLUMN: value, ...}, ...]}` for these columns. Values may be null or left out, other columns not."""
    fields: dict[str, Any] = {
        f"column{index}": (
            column.request_type(max_pixels=limits.pixels),
            Field(None, alias=column.name, description=column.kind),
        )
        for index, column in enumerate(columns)
    }
    row = create_model("Row", __config__=ConfigDict(extra="forbid"), **fields)
    rows = Annotated[list[row], Field(min_length=1, max_length=limits.rows)]  # type: ignore[valid-type]
    return create_model("Rows", __config__=ConfigDict(extra="forbid"), rows=(rows, ...))


def to_frame(request: BaseModel, columns: Sequence[Column]) -> pd.DataFrame:
    rows: list[BaseModel] = request.rows  # type: ignore[attr-defined]
    names = [column.name for column in columns]
    return pd.DataFrame([list(vars(row).values()) for row in rows], columns=names, dtype=object)


def notes(columns: Sequence[Column], frame: pd.DataFrame, observed: np.ndarray) -> list[list[Note]]:
    """For each row, the values that were given but count as missing: those that are not `observed`, [rows, columns]."""
    found: list[list[Note]] = [[] for _ in range(len(frame))]
    for column, flags in zip(columns, observed.T, strict=True):
        cells = frame[column.name].iloc[np.flatnonzero(~flags)]
        given = np.flatnonzero(~flags)[~missing(cells).to_numpy(bool)]
        for row in given.tolist():
            value, problem = shown(frame[column.name].iloc[row]), f"{column.unread_reason}; counts as missing"
            found[row].append({"column": column.name, "value": value, "note": problem})
    return found


def shown(value: Any) -> str:
    """The start of a value that was sent, in a form that JSON can hold."""
    text = f"{len(value)} bytes" if isinstance(value, bytes) else str(value)[:MAX_SHOWN_CHARACTERS]
    return text.encode("utf-8", "replace").decode()


def note_problems(rows: Sequence[Sequence[Note]]) -> list[dict[str, str]]:
    """Notes on rows as problems of a request that has to be read whole."""
    every = (
        {"where": f"rows.{row}.{note['column']}", "problem": note["note"]}
        for row, found in enumerate(rows)
        for note in found
    )
    return list(islice(every, MAX_LISTED_PROBLEMS))


def problems(error: ValidationError) -> list[dict[str, str]]:
    """Where a request is wrong and how, without repeating its values."""
    errors = error.errors(include_url=False, include_context=False, include_input=False)[:MAX_LISTED_PROBLEMS]
    return [{"where": ".".join(map(str, mistake["loc"])) or "body", "problem": mistake["msg"]} for mistake in errors]
