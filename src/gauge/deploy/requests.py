"""What a request may hold: a row model made from the columns of a classifier. Every value is checked before it is used."""

import base64
import binascii
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pandas as pd
from PIL import Image as Pillow
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model

from gauge.data.images import open_image
from gauge.tabular.table.columns import Column, Image, Number

LONGEST_CATEGORY, LONGEST_TEXT = 1000, 100_000  # characters
LISTED = 10  # problems in an answer
IMAGE_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")  # Pillow hands others, such as EPS, to programs


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
        f"column{index}": (_cell(column, limits), Field(None, alias=column.name, description=column.kind))
        for index, column in enumerate(columns)
    }
    row = create_model("Row", __config__=ConfigDict(extra="forbid"), **fields)
    rows = Annotated[list[row], Field(min_length=1, max_length=limits.rows)]  # type: ignore[valid-type]
    return create_model("Rows", __config__=ConfigDict(extra="forbid"), rows=(rows, ...))


def to_frame(request: BaseModel, columns: Sequence[Column]) -> pd.DataFrame:
    rows: list[BaseModel] = request.rows  # type: ignore[attr-defined]
    names = [column.name for column in columns]
    return pd.DataFrame([list(vars(row).values()) for row in rows], columns=names, dtype=object)


def problems(error: ValidationError) -> list[dict[str, str]]:
    """Where a request is wrong and how, without repeating its values."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [{"where": ".".join(map(str, each["loc"])) or "body", "problem": each["msg"]} for each in found[:LISTED]]


def _cell(column: Column, limits: Limits) -> Any:
    if isinstance(column, Image):
        return Annotated[str, AfterValidator(lambda text, info: _image(text, limits.pixels, info.context))] | None
    if isinstance(column, Number) and column.date:
        return Annotated[str, AfterValidator(lambda text: _date(text, column))] | None
    if isinstance(column, Number):
        number = BeforeValidator(lambda value: _number(value, column) if isinstance(value, str) else value)
        return Annotated[float | None, Field(strict=True, allow_inf_nan=False), number]
    if column.kind == "text":
        return Annotated[str, Field(max_length=LONGEST_TEXT)] | None
    return Annotated[str, Field(max_length=LONGEST_CATEGORY)] | bool | int | float | None


def _number(text: str, column: Number) -> float:
    """The number in a text that is written as those of the training table."""
    number = float(column.writing.read(pd.Series([text], dtype=object))[0])
    if math.isnan(number):
        raise ValueError("is not a valid number; send a number, or text as it was written in training")
    return number


def _date(text: str, column: Number) -> str:
    """The text, if it is written as the dates of the training table, or an ISO date."""
    if np.isnan(column.writing.read(pd.Series([text], dtype=object))).any():
        raise ValueError("is not a date; write it as 2026-01-31")
    return text


def _image(text: str, pixels: int, request: Pixels) -> bytes:
    """The bytes of an image file, which is decoded if its header tells a size within the limits; a path or URL is not
    base64."""
    try:
        content = base64.b64decode(text, validate=True)
        with Pillow.open(io.BytesIO(content), formats=IMAGE_FORMATS) as image:
            width, height = image.size
    except (binascii.Error, ValueError, OSError, SyntaxError, Pillow.DecompressionBombError) as error:
        formats = ", ".join(IMAGE_FORMATS)
        raise ValueError(f"is not an image; send the content of an image file ({formats}) in base64") from error
    if width * height > pixels:
        raise ValueError(f"is an image of {width} x {height} pixels; send at most {pixels} pixels")
    request.take(width * height)
    open_image(content)
    return content
