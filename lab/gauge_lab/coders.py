"""Coders of published imputers that fit one benchmark: those of MST, and the residual networks of CelebA.

    2 · shortcut(x) + 0.3 · branch(x) in every residual block

A text is an image of height 1: only convolutions over two dimensions have the layout that tensor cores read.
"""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn

from gauge.imputers.mopoe import Coders
from gauge.nn.conv import check_shape, conv_text, conv_text_decoder, conv_vector, conv_vector_decoder, for_convolution
from gauge.nn.likelihoods import Categorical, Laplace

IMAGE = (1, 2, 3, 4, 5)  # times the base width: 128, 256, ... 640 channels
TEXT = (1, 2, 3, 4, 5, 5, 5)


class ResidualBlock(nn.Module):
    """Branch: BN, ReLU, 1x1 convolution, dropout, BN, ReLU, convolution over four positions of each dimension, dropout.
    Shortcut: the same convolution, BN. `dims` is 2 for images, 1 for text; a transposed block enlarges instead of
    shrinking. Dropout is per channel in images."""

    def __init__(
        self, before: int, after: int, *, dims: int, stride: int = 2, padding: int = 1, transposed: bool = False
    ) -> None:
        super().__init__()
        dropout = nn.Dropout2d if dims == 2 else nn.Dropout
        resize = partial(_convolution, before, after, dims=dims, stride=stride, padding=padding, transposed=transposed)
        bias = dims == 1  # as published
        self.branch = nn.Sequential(
            nn.BatchNorm2d(before),
            nn.ReLU(),
            nn.Conv2d(before, before, 1, bias=bias),
            dropout(0.5),
            nn.BatchNorm2d(before),
            nn.ReLU(),
            resize(bias=bias),
            dropout(0.5),
        )
        self.shortcut = nn.Sequential(resize(), nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        x = for_convolution(x)
        return torch.add(2.0 * self.shortcut(x), self.branch(x), alpha=0.3)


class Strip(nn.Module):
    """Text [b, length, symbols] -> [b, symbols, 1, length]."""

    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).unsqueeze(2)


class Unstrip(nn.Module):
    """Text [b, symbols, 1, length] -> [b, length, symbols]."""

    def forward(self, x: Tensor) -> Tensor:
        return x.squeeze(2).transpose(1, 2)


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
    first = _convolution(shape[1], base, dims=1)
    layers = _shrink(TEXT, base, dims=1)
    return nn.Sequential(Strip(), first, *layers, nn.Flatten(), nn.Linear(TEXT[-1] * base, outputs))


def residual_text_decoder(shape: Sequence[int], latent: int, base: int = 128) -> nn.Sequential:
    """From a single position back to 256: the logits of every symbol at every position."""
    check_shape("residual_text", shape, (256, "symbols"))
    last = _convolution(base, shape[1], dims=1, transposed=True)
    return nn.Sequential(*_enlarge(TEXT, base, latent, dims=1), last, Unstrip())


def _convolution(
    before: int,
    after: int,
    *,
    dims: int,
    stride: int = 2,
    padding: int = 1,
    transposed: bool = False,
    bias: bool = True,
) -> nn.Module:
    """Over four positions of the last `dims` dimensions."""

    def sizes(size: int, whole: int) -> tuple[int, int]:
        return size if dims == 2 else whole, size

    kind = nn.ConvTranspose2d if transposed else nn.Conv2d
    return kind(before, after, sizes(4, 1), sizes(stride, 1), sizes(padding, 0), bias=bias)


def _shrink(multiples: Sequence[int], base: int, dims: int) -> list[nn.Module]:
    """Blocks that halve the side, the last from four positions to one."""
    pairs = [(before * base, after * base) for before, after in pairwise(multiples)]
    layers: list[nn.Module] = [ResidualBlock(*pair, dims=dims) for pair in pairs[:-1]]
    return [*layers, ResidualBlock(*pairs[-1], dims=dims, padding=0)]


def _enlarge(multiples: Sequence[int], base: int, latent: int, dims: int) -> list[nn.Module]:
    """A latent as one position, a block from it to four, and blocks that double the side."""
    (first, *rest) = [(before * base, after * base) for before, after in pairwise(multiples[::-1])]
    layers: list[nn.Module] = [nn.Linear(latent, first[0]), nn.Unflatten(1, (first[0], 1, 1))]
    layers += [ResidualBlock(*first, dims=dims, stride=1, padding=0, transposed=True)]
    return layers + [ResidualBlock(*pair, dims=dims, transposed=True) for pair in rest]


CODERS = {
    "conv_vector": Coders(conv_vector, conv_vector_decoder, Laplace()),
    "conv_text": Coders(conv_text, conv_text_decoder, Categorical()),
    "residual_image": Coders(residual_image, residual_image_decoder, Laplace()),
    "residual_text": Coders(residual_text, residual_text_decoder, Categorical()),
}
