"""One hidden layer with ReLU, any shape -> [b, outputs] and back."""

import math
from collections.abc import Sequence

from torch import nn


def mlp(shape: Sequence[int], outputs: int, hidden: int = 64) -> nn.Sequential:
    """The flattened input through one hidden layer."""
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), hidden), nn.ReLU(), nn.Linear(hidden, outputs))


def mlp_decoder(shape: Sequence[int], latent: int, hidden: int) -> nn.Sequential:
    """Values from 0 to 1: the last layer is a sigmoid."""
    return nn.Sequential(
        nn.Linear(latent, hidden),
        nn.ReLU(),
        nn.Linear(hidden, math.prod(shape)),
        nn.Sigmoid(),
        nn.Unflatten(1, tuple(shape)),
    )
