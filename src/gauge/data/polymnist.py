"""The PolyMNIST recipe: a digit in several handwritings, each inverted into a random crop of its view's own photo."""

from collections.abc import Sequence

import numpy as np

INK = 128  # pixels above it belong to the digit


def build_views(
    digits: np.ndarray, labels: np.ndarray, photos: Sequence[np.ndarray], *, seed: int
) -> tuple[list[np.ndarray], np.ndarray]:
    """One uint8 array [samples, 3, side, side] for each photo, and the labels; sample i shows one class in every view.

    Each class and view has its own random order of the class's digits, so views differ in handwriting. Samples are
    ordered by class.
    """
    draw = np.random.default_rng(seed)
    by_class = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    views = []
    for photo in photos:
        chosen = np.concatenate([draw.permutation(rows) for rows in by_class])
        views.append(_ink_into_crops(digits[chosen], photo, draw))
    return views, np.concatenate([labels[rows] for rows in by_class])


def _ink_into_crops(digits: np.ndarray, photo: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    side = digits.shape[-1]
    height, width, channels = photo.shape
    if channels != 3 or min(height, width) <= side:
        raise ValueError(f"a background must be an RGB photo larger than {side} px, not of shape {list(photo.shape)}")
    crops = np.lib.stride_tricks.sliding_window_view(photo, (side, side), axis=(0, 1))
    top, left = draw.integers(0, height - side, len(digits)), draw.integers(0, width - side, len(digits))
    background = crops[top, left]
    return np.where(digits[:, None] > INK, 255 - background, background).astype(np.uint8)
