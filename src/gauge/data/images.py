"""Small images from disk as one array of bytes, decoded by several threads."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image

CHUNK = 64  # images per task
HALF = (0.5, 0.5, 0.5)  # default mean and deviation of colours

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


def gather(paths: Sequence[Path], side: int, square: Callable[[Path], np.ndarray]) -> Images:
    """The results of `square` for all paths, in order."""
    images = np.empty((len(paths), 3, side, side), np.uint8)

    def fill(start: int) -> None:
        for row, path in enumerate(paths[start : start + CHUNK], start):
            images[row] = square(path)

    with ThreadPoolExecutor() as pool:
        list(pool.map(fill, range(0, len(paths), CHUNK)))
    return images


def open_image(path: Path) -> Image.Image:
    """The decoded image, as RGB."""
    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    except (OSError, SyntaxError) as error:  # from Pillow, for files that are missing, damaged or not images
        raise ValueError(f"{path} cannot be read as an image ({error}); replace it") from error
