"""Many small pictures from disk into one array of bytes, decoded by several threads."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image

CHUNK = 64  # pictures per task

Size = tuple[int, int]
Box = tuple[int, int, int, int]


def read_images(
    paths: Sequence[Path], side: int, *, crops: Mapping[Size, Box] | None = None
) -> UInt8[np.ndarray, "n 3 {side} {side}"]:
    """The RGB pictures in order, `side` pixels high and wide.

    A picture of a (width, height) in `crops` is cut to that box (left, top, right, bottom) and resized, bicubic.
    """
    crops = crops or {}

    def square(path: Path) -> np.ndarray:
        picture = open_image(path)
        if picture.size in crops:
            picture = picture.crop(crops[picture.size]).resize((side, side), Image.Resampling.BICUBIC)
        if picture.size != (side, side):
            usable = " or ".join(f"{width}x{height}" for width, height in [(side, side), *crops])
            raise ValueError(f"{path} is {picture.width}x{picture.height} pixels; give pictures of {usable}")
        return np.asarray(picture).transpose(2, 0, 1)

    return gather(paths, side, square)


def gather(
    paths: Sequence[Path], side: int, square: Callable[[Path], np.ndarray]
) -> UInt8[np.ndarray, "n 3 {side} {side}"]:
    """What `square` makes of every path, in order."""
    pictures = np.empty((len(paths), 3, side, side), np.uint8)

    def fill(start: int) -> None:
        for row, path in enumerate(paths[start : start + CHUNK], start):
            pictures[row] = square(path)

    with ThreadPoolExecutor() as pool:
        list(pool.map(fill, range(0, len(paths), CHUNK)))
    return pictures


def open_image(path: Path) -> Image.Image:
    """The picture as RGB, decoded."""
    try:
        with Image.open(path) as picture:
            return picture.convert("RGB")
    except (OSError, SyntaxError) as error:  # Pillow's for files that are absent, of another kind or broken
        raise ValueError(f"{path} cannot be read as a picture ({error}); replace it") from error
