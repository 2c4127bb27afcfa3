"""Small images from disk as one array of bytes, decoded by several threads."""

import io
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps

CHUNK = 64  # images per task
DRAWN = ("EPS", "WMF")  # Pillow has other programs draw these
HALF = (0.5, 0.5, 0.5)  # default mean and deviation of colours

T = TypeVar("T")
Size = tuple[int, int]
Box = tuple[int, int, int, int]
Images = UInt8[np.ndarray, "n 3 {side} {side}"]


def read_images(paths: Sequence[Path], side: int, *, crops: Mapping[Size, Box] | None = None) -> Images:
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

    def fill(start: int) -> None:
        for row, source in enumerate(sources[start : start + CHUNK], start):
            images[row] = square(source)

    with ThreadPoolExecutor() as pool:
        list(pool.map(fill, range(0, len(sources), CHUNK)))
    return images


def open_image(source: Path | bytes) -> Image.Image:
    """The decoded image, as RGB and the right way up, from a file or from the content of one."""
    try:
        with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source) as image:
            if image.format in DRAWN:
                raise ValueError(f"it holds {image.format}, whatever its name; save it as PNG or JPEG")
            return _eight_bits(ImageOps.exif_transpose(image)).convert("RGB")
    except Exception as error:  # decoders of damaged files raise whatever they stumble over
        name = f"a value of {len(source)} bytes" if isinstance(source, bytes) else source
        raise ValueError(f"{name} cannot be read as an image ({error}); replace it") from error


def _eight_bits(image: Image.Image) -> Image.Image:
    """Pixels of 16 or 32 bits from 0 to 255, which Pillow would cut off at 255: integers are mapped from the range 0 to
    65,535, fractions from 0 to 1, and images that exceed it from their minimum to their maximum."""
    if not image.mode.startswith(("I", "F")):
        return image
    pixels = np.asarray(image).astype(np.float64)
    if not np.isfinite(pixels).all():
        raise ValueError("it has pixels that are NaN or infinite")
    low, high = 0.0, 1.0 if image.mode == "F" else 65_535.0
    if pixels.min() < low or pixels.max() > high:
        low, high = pixels.min(), pixels.max()
    return Image.fromarray(((pixels - low) * (255 / max(high - low, 1e-300))).round().astype(np.uint8))
