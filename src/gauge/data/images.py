"""Small images from disk as one array of bytes, decoded by several threads."""

import io
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TypeVar

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps, UnidentifiedImageError

HALF = (0.5, 0.5, 0.5)  # default mean and deviation of colours

T = TypeVar("T")
Source = Path | bytes | Image.Image | np.ndarray
Size = tuple[int, int]
Images = UInt8[np.ndarray, "n 3 {side} {side}"]


def part_names(count: int) -> list[str]:
    """The names of the parts of an image, row by row from the top left; numbers where they form no square.

    >>> part_names(4)[1], part_names(3)[1]
    ('row 1, column 2', '2')
    """
    side = round(count**0.5)
    if side**2 != count or count == 1:
        return [str(index + 1) for index in range(count)]
    return [f"row {index // side + 1}, column {index % side + 1}" for index in range(count)]


def read_images(
    paths: Sequence[Path], side: int, *, crops: Mapping[Size, tuple[int, int, int, int]] | None = None
) -> Images:
    """The RGB images in order, `side` pixels high and wide. An image whose (width, height) is in `crops` is cropped to that
    box (left, top, right, bottom) and resized (bicubic)."""
    crops = crops or {}

    def square(path: Path) -> np.ndarray:
        image = open_image(path)
        if image.size in crops:
            image = image.crop(crops[image.size]).resize((side, side), Image.Resampling.BICUBIC)
        if image.size != (side, side):
            usable = " or ".join(f"{width}x{height}" for width, height in [(side, side), *crops])
            raise ValueError(f"{path} is {image.width}x{image.height} pixels; give images of {usable}")
        return np.asarray(image).transpose(2, 0, 1)

    return gather(paths, side, square)


def gather(sources: Sequence[T], side: int, square: Callable[[T], np.ndarray]) -> Images:
    """The results of `square` for all sources, in order."""
    images = np.empty((len(sources), 3, side, side), np.uint8)
    chunk = 64  # images per task

    def fill(start: int) -> None:
        for row, source in enumerate(sources[start : start + chunk], start):
            images[row] = square(source)

    with ThreadPoolExecutor() as pool:
        list(pool.map(fill, range(0, len(sources), chunk)))
    return images


def open_image(source: Source) -> Image.Image:
    """The decoded image, as RGB and the right way up, from a file, the content of one, Pillow, or an array."""
    try:
        with _opened(source) as image:
            if image.format in ("EPS", "WMF"):  # Pillow has other programs draw these
                raise ValueError(f"it holds {image.format}, whatever its name; save it as PNG or JPEG")
            return _eight_bits(ImageOps.exif_transpose(image)).convert("RGB")
    except UnidentifiedImageError as error:
        raise ValueError(
            f"{_named(source)} cannot be read as an image (its content is not that of one); save it as PNG or JPEG"
        ) from error
    except Exception as error:  # decoders of damaged files raise whatever they stumble over
        raise ValueError(f"{_named(source)} cannot be read as an image ({error}); replace it") from error


def _named(source: Source) -> str:
    if isinstance(source, Image.Image | np.ndarray):
        return "an image of Pillow" if isinstance(source, Image.Image) else f"an array of shape {list(source.shape)}"
    return f"a value of {len(source)} bytes" if isinstance(source, bytes) else str(source)


def _opened(source: Source) -> AbstractContextManager[Image.Image]:
    if isinstance(source, Image.Image | np.ndarray):  # whoever gave an image goes on to use it: it is not closed
        return nullcontext(source if isinstance(source, Image.Image) else _from_array(source))
    return Image.open(io.BytesIO(source) if isinstance(source, bytes) else source)


def _from_array(pixels: np.ndarray) -> Image.Image:
    """Pixels [height, width] or [height, width, 1, 3 or 4]: bytes, other integers from 0 to 255, 16 bits or fractions."""
    pixels = pixels[:, :, 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels
    colours = pixels.shape[2:] in ((), (3,), (4,))
    if pixels.ndim < 2 or not colours or not pixels.size or pixels.dtype.kind not in "biuf":
        raise ValueError("pixels are numbers of the shape [height, width] or [height, width, colours]")
    if pixels.dtype == bool:
        return Image.fromarray(255 * pixels.astype(np.uint8))
    if pixels.dtype == np.uint8:
        return Image.fromarray(pixels)
    high = 1.0 if pixels.dtype.kind == "f" else 65_535.0 if pixels.dtype == np.uint16 else 255.0
    return Image.fromarray(_scaled(pixels, high))


def _eight_bits(image: Image.Image) -> Image.Image:
    """Pixels of 16 or 32 bits from 0 to 255, which Pillow would cut off at 255: integers from the range 0 to 65,535,
    fractions from 0 to 1."""
    if not image.mode.startswith(("I", "F")):
        return image
    return Image.fromarray(_scaled(np.asarray(image), 1.0 if image.mode == "F" else 65_535.0))


def _scaled(pixels: np.ndarray, high: float) -> np.ndarray:
    """From 0 to 255, from the range up to `high`. One scale for all images: if each had its own, the brightest pixel of an
    image would change all others."""
    low, most = pixels.min(), pixels.max()
    if not 0 <= low <= most <= high or (high == 65_535.0 and 0 < most <= 255):
        own = "0 to 1 (fractions), 0 to 255 (bytes) or 0 to 65,535 (16 bits, some above 255)"
        raise ValueError(f"its pixels go from {low:g} to {most:g}; scale all images alike, to {own}")
    return np.asarray((pixels * (255 / high)).round().astype(np.uint8))
