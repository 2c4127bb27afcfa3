"""Small images from disk as one array of bytes, decoded by several threads."""

import io
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
from jaxtyping import UInt8
from PIL import Image

CHUNK = 64  # images per task
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
    """The decoded image, as RGB, from a file or from the content of one."""
    try:
        with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source) as image:
            return image.convert("RGB")
    except (OSError, SyntaxError) as error:  # from Pillow, for files that are missing, damaged or not images
        name = f"a value of {len(source)} bytes" if isinstance(source, bytes) else source
        raise ValueError(f"{name} cannot be read as an image ({error}); replace it") from error
