"""Images of any size, from image files or .npy arrays, as byte squares of one size."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import UInt8
from PIL import Image, ImageOps

from gauge.data.images import gather, open_image


def read_squares(paths: Sequence[Path], side: int, *, pad: bool = False) -> UInt8[np.ndarray, "n 3 {side} {side}"]:
    """The RGB images in order: the centre square of each (`pad`: the whole image, centred on black), resized (bilinear)."""
    fit = ImageOps.pad if pad else ImageOps.fit

    def square(path: Path) -> np.ndarray:
        image = open_image(path)
        if image.size != (side, side):
            image = fit(image, (side, side), Image.Resampling.BILINEAR)
        return np.asarray(image).transpose(2, 0, 1)

    return gather(paths, side, square)


def read_arrays(paths: Sequence[Path], side: int) -> UInt8[np.ndarray, "n 3 {side} {side}"]:
    """The images in .npy files of shape [height, width, 3], bytes or numbers from 0 to 1, resized (bilinear).

    NOTE[PAPER] array-resize: the published code resizes on every access, without antialiasing and in full precision; here
    each image is resized once, with antialiasing, and stored as bytes.
    """

    def square(path: Path) -> np.ndarray:
        pixels = torch.from_numpy(_load(path)).permute(2, 0, 1)[None]
        scale = 1.0 if pixels.dtype == torch.uint8 else 255.0
        if pixels.shape[-2:] != (side, side) or scale != 1.0:
            values = F.interpolate(pixels.float(), (side, side), mode="bilinear", antialias=True, align_corners=False)
            pixels = values.mul(scale).round().clamp(0, 255).to(torch.uint8)
        return pixels[0].numpy()

    return gather(paths, side, square)


def find_images(folders: Sequence[Path], names: Sequence[str]) -> list[Path]:
    present = {path.name: path for folder in folders for path in folder.iterdir()}
    missing = [name for name in names if name not in present]
    if missing:
        where = " and ".join(map(str, folders))
        raise ValueError(f"{where} lacks {missing[0]} ({len(missing)} such), which the table lists; unpack all images")
    return [present[name] for name in names]


def _load(path: Path) -> np.ndarray:
    try:
        pixels = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{path} cannot be read as an array ({error}); save the image there as .npy") from error
    if pixels.ndim != 3 or pixels.shape[2] != 3 or 0 in pixels.shape:
        raise ValueError(f"{path} holds an array of shape {list(pixels.shape)}; an image has [height, width, 3]")
    if pixels.dtype == np.uint8:
        return pixels
    if pixels.dtype.kind != "f" or not (pixels.min() >= 0 and pixels.max() <= 1):
        values = f"{pixels.dtype} from {pixels.min()} to {pixels.max()}"
        raise ValueError(f"{path} holds {values}; give bytes, or numbers from 0 to 1")
    return pixels
