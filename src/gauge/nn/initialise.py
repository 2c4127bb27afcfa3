"""How parameters start."""

import torch
from torch import nn


def initialise(module: nn.Module) -> None:
    """Linear and Embedding weights N(0, 0.02²), biases 0, LayerNorm (1, 0); convolutions keep torch's own.

    NOTE[PAPER] initialisation: the published PolyMNIST code skips this by accident; here it is done as intended.
    """
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Embedding):
            nn.init.normal_(layer.weight, std=0.02)
        if isinstance(layer, nn.Linear) and layer.bias is not None:
            nn.init.zeros_(layer.bias)


def small_parameter(*shape: int) -> nn.Parameter:
    """A learned embedding, truncated normal with deviation 0.02."""
    return nn.Parameter(nn.init.trunc_normal_(torch.empty(*shape), std=0.02))
