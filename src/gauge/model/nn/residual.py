"""Residual networks for images and long text (CelebA): 2 · shortcut(x) + 0.3 · branch(x) in every block."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from gauge.model.nn.conv import Transpose, check_shape, for_convolution

IMAGE = (1, 2, 3, 4, 5)  # times the base width: 128, 256, ... 640 channels
TEXT = (1, 2, 3, 4, 5, 5, 5)


class ResidualBlock(nn.Module):
    """Branch: BN, ReLU, 1x1 convolution, dropout, BN, ReLU, 4x4 convolution, dropout. Shortcut: 4x4 convolution, BN. `dims`
    is 2 for images, 1 for text; a transposed block enlarges instead of shrinking. Dropout is per channel in images."""

    def __init__(
        self, before: int, after: int, *, dims: int, stride: int = 2, padding: int = 1, transposed: bool = False
    ) -> None:
        super().__init__()
        norm, dropout = (nn.BatchNorm2d, nn.Dropout2d) if dims == 2 else (nn.BatchNorm1d, nn.Dropout)
        sizes: dict[str, Any] = {"stride": stride, "padding": padding}
        bias = dims == 1  # as published
        self.branch = nn.Sequential(
            norm(before),
            nn.ReLU(),
            _convolution(dims, False)(before, before, 1, bias=bias),
            dropout(0.5),
            norm(before),
            nn.ReLU(),
            _convolution(dims, transposed)(before, after, 4, bias=bias, **sizes),
            dropout(0.5),
        )
        self.shortcut = nn.Sequential(_convolution(dims, transposed)(before, after, 4, **sizes), norm(after))

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim == 4:
            x = for_convolution(x)
        return torch.add(2.0 * self.shortcut(x), self.branch(x), alpha=0.3)


def residual_image(shape: Sequence[int], outputs: int, base: int = 128) -> nn.Sequential:
    """An image of side 64 down to a single position."""
    check_shape("residual_image", shape, ("channels", 64, 64))
    first = nn.Conv2d(shape[0], base, 3, stride=2, padding=2, bias=False)
    return nn.Sequential(first, *_shrink(IMAGE, base, dims=2), nn.Flatten(), nn.Linear(IMAGE[-1] * base, outputs))


def residual_image_decoder(shape: Sequence[int], latent: int, base: int = 128) -> nn.Sequential:
    """From a single position back to an image of side 64, without output activation."""
    check_shape("residual_image", shape, ("channels", 64, 64))
    last = nn.ConvTranspose2d(base, shape[0], 3, stride=2, padding=1, output_padding=1)
    return nn.Sequential(*_enlarge(IMAGE, base, latent, dims=2), last)


def residual_text(shape: Sequence[int], outputs: int, base: int = 128) -> nn.Sequential:
    """One-hot text of 256 positions down to a single position."""
    check_shape("residual_text", shape, (256, "symbols"))
    first = nn.Conv1d(shape[1], base, 4, stride=2, padding=1)
    layers = _shrink(TEXT, base, dims=1)
    return nn.Sequential(Transpose(), first, *layers, nn.Flatten(), nn.Linear(TEXT[-1] * base, outputs))


def residual_text_decoder(shape: Sequence[int], latent: int, base: int = 128) -> nn.Sequential:
    """From a single position back to 256: the logits of every symbol at every position."""
    check_shape("residual_text", shape, (256, "symbols"))
    last = nn.ConvTranspose1d(base, shape[1], 4, stride=2, padding=1)
    return nn.Sequential(*_enlarge(TEXT, base, latent, dims=1), last, Transpose())


def _convolution(dims: int, transposed: bool) -> Any:
    if dims == 2:
        return nn.ConvTranspose2d if transposed else nn.Conv2d
    return nn.ConvTranspose1d if transposed else nn.Conv1d


def _shrink(multiples: Sequence[int], base: int, dims: int) -> list[nn.Module]:
    """Blocks that halve the side, the last from four positions to one."""
    pairs = [(before * base, after * base) for before, after in pairwise(multiples)]
    layers: list[nn.Module] = [ResidualBlock(*pair, dims=dims) for pair in pairs[:-1]]
    return [*layers, ResidualBlock(*pairs[-1], dims=dims, padding=0)]


def _enlarge(multiples: Sequence[int], base: int, latent: int, dims: int) -> list[nn.Module]:
    """A latent as one position, a block from it to four, and blocks that double the side."""
    (first, *rest) = [(before * base, after * base) for before, after in pairwise(multiples[::-1])]
    layers: list[nn.Module] = [nn.Linear(latent, first[0]), nn.Unflatten(1, (first[0],) + (1,) * dims)]
    layers += [ResidualBlock(*first, dims=dims, stride=1, padding=0, transposed=True)]
    return layers + [ResidualBlock(*pair, dims=dims, transposed=True) for pair in rest]
