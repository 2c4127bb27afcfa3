"""Small convolution stacks for images: a trunk that halves the side at every step, and its mirror image."""

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn


def conv_trunk(channels: Sequence[int]) -> nn.Sequential:
    """3x3 convolutions of stride 2 with ReLU: [b, channels[0], side, side] -> [b, channels[-1], side / 2^d, ...]."""
    layers: list[nn.Module] = []
    for before, after in pairwise(channels):
        layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.ReLU()]
    return nn.Sequential(*layers)


def trunk_sides(side: int, depth: int) -> list[int]:
    """The side before and after every layer of a trunk.

    >>> trunk_sides(28, 3)
    [28, 14, 7, 4]
    """
    sides = [side]
    for _ in range(depth):
        sides.append((sides[-1] + 1) // 2)
    return sides


def square_side(shape: Sequence[int]) -> int:
    """The side of a square image of shape [channels, side, side]."""
    if len(shape) != 3 or shape[1] != shape[2]:
        raise ValueError(f"a convolution stack reads square images [channels, side, side], not {list(shape)}")
    return shape[1]


class ConvPosterior(nn.Module):
    """Image -> mean and log-variance of its latent, side by side: [b, 2 · latent]."""

    def __init__(self, shape: Sequence[int], latent: int, channels: Sequence[int], hidden: int) -> None:
        super().__init__()
        side = trunk_sides(square_side(shape), len(channels))[-1]
        self.trunk = conv_trunk((shape[0], *channels))
        self.hidden = nn.Sequential(nn.Flatten(), nn.Linear(channels[-1] * side * side, hidden), nn.ReLU())
        self.heads = nn.Linear(hidden, 2 * latent)

    def forward(self, x: Tensor) -> Tensor:
        return self.heads(self.hidden(self.trunk(x)))


class ConvDecoder(nn.Module):
    """Latent -> image, no output activation: the mirror image of the trunk in transposed convolutions."""

    def __init__(self, shape: Sequence[int], latent: int, channels: Sequence[int]) -> None:
        super().__init__()
        sides = trunk_sides(square_side(shape), len(channels))
        self.start = nn.Sequential(
            nn.Linear(latent, channels[-1] * sides[-1] ** 2),
            nn.ReLU(),
            nn.Unflatten(1, (channels[-1], sides[-1], sides[-1])),
        )
        layers: list[nn.Module] = []
        widths = (shape[0], *channels)
        for depth in range(len(channels), 0, -1):
            padding = sides[depth - 1] - (2 * sides[depth] - 1)
            layers += [
                nn.ConvTranspose2d(widths[depth], widths[depth - 1], 3, stride=2, padding=1, output_padding=padding),
                nn.ReLU(),
            ]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, z: Tensor) -> Tensor:
        return self.layers(self.start(z))
