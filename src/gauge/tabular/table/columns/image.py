"""Images, given by the paths of their files, as the bytes of these, by Pillow or as arrays, and resized; one without a file
is missing."""

import base64
import binascii
import io
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import pandas as pd
from PIL import Image as Pillow
from pydantic import AfterValidator

from gauge.data.graph import Graph
from gauge.data.images import Source, gather, open_image, part_names
from gauge.tabular.table.cells import absent_files, as_words, has_category_type, is_pixels, missing, paths_or_bytes
from gauge.tabular.table.columns import IMAGE_SIDE, Column, Content, Guess, ImageFiles, Part, Question, ReadOptions
from gauge.tabular.table.pretrained import Pretrained

if TYPE_CHECKING:
    from gauge.types import Encoder

__all__ = ["Image"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Image(Content):
    """`side` is the height and width in pixels; `model` is a pretrained encoder."""

    name: str
    side: int = IMAGE_SIDE
    model: Pretrained | None = None
    kind: ClassVar[str] = "image"
    order: ClassVar[int] = 3
    precedence: ClassVar[int] = 2
    may_be_constant: ClassVar[bool] = True
    # Pillow gives others to programs
    formats: ClassVar[tuple[str, ...]] = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
    # the files of images as Python writes bytes, and images of Pillow as it writes them
    given: ClassVar[str] = r"b['\"](?:\\x89PNG|\\xff\\xd8|GIF8|RIFF|II\*|MM\\x00)|<PIL\."
    grid: ClassVar[int] = 4  # parts along a side of an image where no network divides it
    takes_encoder: ClassVar[bool] = True
    read_by_trees: ClassVar[bool] = True
    display: ClassVar[Any] = "image"

    @classmethod
    def recognise(cls, values: pd.Series) -> Guess | None:
        words = as_words(values)
        suffixes = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
        images = (
            words.str.lower().str.endswith(suffixes) | words.str.match(cls.given) | values.map(is_pixels).astype(bool)
        )
        return Guess() if images.mean() > 0.8 and not has_category_type(values) else None

    @classmethod
    def from_column(cls, column: pd.Series, options: ReadOptions = ReadOptions()) -> "Image":
        if options.encoder is None:
            return cls(str(column.name), int(options.image_size))
        model = Pretrained.for_images(options.encoder)
        return cls(str(column.name), model.side, model)

    @classmethod
    def inspect(cls, values: pd.Series, options: ReadOptions = ReadOptions()) -> tuple[np.ndarray, list[str]]:
        known = values.map(lambda value: not options.files.absence(str(value))).astype(bool)
        arrays = values.map(lambda value: isinstance(value, np.ndarray)).astype(bool)
        absent = (~known & ~arrays & ~as_words(values).str.match(cls.given)).to_numpy(bool)
        return absent, absent_files(values[absent], cls.kind)

    @staticmethod
    def clean(column: pd.Series) -> pd.Series:
        return paths_or_bytes(column, Pillow.Image, np.ndarray)

    def encode(
        self, column: pd.Series, files: ImageFiles = ImageFiles(), *, training: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        available = self._available(column, files, training=training)
        broken: dict[int, str] = {}
        sides = [0]

        def read(row: int) -> np.ndarray:
            try:
                image = open_image(available[row])
            except ValueError as error:
                broken[row] = str(error)
                return np.zeros((3, self.side, self.side), np.uint8)
            sides.append(max(image.size))
            return np.asarray(image.resize((self.side, self.side))).transpose(2, 0, 1)

        images, observed = np.zeros((len(column), 3, self.side, self.side), np.uint8), np.zeros(len(column), bool)
        rows = list(available)
        images[rows] = gather(rows, self.side, read)
        observed[rows] = [row not in broken for row in rows]
        if broken:
            self.report_unreadable(column, sorted(broken), broken[min(broken)], len(rows) if training else None)
        if training and observed.any() and 0 < (brightest := int(images.max())) < 64:
            logger.warning(
                "column %r: no pixel is brighter than %d of 255; scale all images alike", self.name, brightest
            )
        if training and max(sides) > self.side:
            logger.warning(
                "column %r: images of up to %d pixels are shrunk to %d x %d; image_size= (--image-size) sets another size",
                *(self.name, max(sides), self.side, self.side),
            )
        return images, observed

    def _available(self, column: pd.Series, files: ImageFiles, *, training: bool) -> dict[int, Source]:
        """The images of all rows that have one; others are reported. In training it is an error if none has."""
        available: dict[int, Source] = {}
        absent: dict[str, list[int]] = {}
        cells = column.tolist()
        for row in np.flatnonzero(~missing(column)).tolist():
            cell = cells[row]
            given = isinstance(cell, bytes | Pillow.Image | np.ndarray)
            source = cell if given else files.path(str(cell))
            reason = "" if given else files.absence(str(cell))
            if source is None or reason:
                absent.setdefault(reason, []).append(row)
            else:
                available[row] = source
        if training and absent and not available:
            first = min(rows[0] for rows in absent.values())
            raise ValueError(
                f"column {self.name!r}: none of its image files can be found, first {str(cells[first])[:100]} (row "
                f"{column.index[first]}); set the folder that paths are relative to (image_folder=; on the command line "
                "it is that of the table), or the column's kind (columns=, --column)"
            )
        self.report_absent_files(column, absent)
        return available

    @property
    def saved_problem(self) -> str:
        colours = () if self.model is None else (*self.model.mean, *self.model.std)
        known = all(isinstance(each, float | int) and abs(each) <= 1e3 for each in colours)
        usable = self.model is None or (len(colours) == 6 and known and min(self.model.std) > 0)
        return "" if 1 <= self.side <= 2048 and usable else f"its images have a side of {self.side:.6g} pixels"

    @property
    def values_per_row(self) -> int:
        return 3 * self.side**2

    @property
    def encoder_source(self) -> str | None:
        return None if self.model is None else self.model.source

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"model": None if self.model is None else self.model.to_json()}

    @classmethod
    def from_json(cls, content: Mapping[str, Any], folder: Path) -> Column:
        model = content.get("model")
        return super().from_json({**content, "model": model and Pretrained.from_json(model, folder)}, folder)

    def request_type(self, *, max_pixels: int) -> Any:
        return Annotated[str, AfterValidator(lambda text, info: _requested(text, max_pixels, info.context))] | None

    def question(self) -> Question:
        return Question("image", f"A photo or image file ({', '.join(self.formats)}).")

    def encoder(self, dim: int, channels: Sequence[int], *, weights: bool) -> "Encoder":
        if self.model is None:
            from gauge.encoders.conv_grid import ConvGrid

            return ConvGrid((3, self.side, self.side), dim, channels=channels)
        from gauge.encoders._pretrained import PretrainedGrid

        model = self.model
        return PretrainedGrid(model.network(weights=weights), self.side, model.mean, model.std, bgr=model.bgr)

    @property
    def _shrink(self) -> np.ndarray:
        """The matrix that takes the mean of the pixels of each part of a side."""
        small = 16  # pixels of a side, before principal components are taken
        numbers, pixels = np.arange(small), np.arange(self.side)
        starts, ends = numbers * self.side // small, -(-(numbers + 1) * self.side // small)
        return np.asarray(((pixels >= starts[:, None]) & (pixels < ends[:, None])) / (ends - starts)[:, None])

    def vectors(self, values: np.ndarray) -> np.ndarray:
        return (self._shrink @ (values / 255) @ self._shrink.T).reshape(len(values), -1)

    def export_vectors(self, graph: Graph, values: str) -> str:
        scaled = graph.node("Div", graph.cast(values, np.float64), graph.constant(255.0))
        rows = graph.node("MatMul", graph.constant(self._shrink), scaled)
        return graph.node("Flatten", graph.node("MatMul", rows, graph.constant(self._shrink.T)))

    def parts(self, cell: Any, values: np.ndarray, count: int | None) -> list[Part]:
        return [Part(name, "") for name in part_names(self.grid**2 if count is None else count)]

    def image(self, values: np.ndarray, count: int | None) -> tuple[np.ndarray, tuple[int, int]]:
        side = self.grid if count is None else round(count**0.5)
        return values.transpose(1, 2, 0), (side, side)

    def hide_part(self, values: np.ndarray, index: int, count: int) -> None:
        """Give a part the mean colour of the image."""
        side, grid = values.shape[-1], round(count**0.5)
        top, left = (round(number * side / grid) for number in divmod(index, grid))
        size = round(side / grid)
        mean = values.astype(np.float32).mean((1, 2), keepdims=True).astype(values.dtype)
        values[:, top : top + size, left : left + size] = mean


def _requested(text: str, max_pixels: int, request: Any) -> bytes:
    """The bytes of an image file, which is decoded if its header tells a size within the limits; a path or URL is not
    base64. `request` counts the pixels of all images."""
    try:
        content = base64.b64decode(text, validate=True)
        with Pillow.open(io.BytesIO(content), formats=Image.formats) as image:
            width, height = image.size
    except (binascii.Error, ValueError, OSError, SyntaxError, Pillow.DecompressionBombError) as error:
        formats = ", ".join(Image.formats)
        raise ValueError(f"is not an image; send the content of an image file ({formats}) in base64") from error
    if width * height > max_pixels:
        raise ValueError(f"is an image of {width} x {height} pixels; send at most {max_pixels} pixels")
    request.take(width * height)
    open_image(content)
    return content
